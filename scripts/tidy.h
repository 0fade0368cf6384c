/* Put in front of every file by scripts/tidy: what the analyzer cannot see of functions in another
 * file. */
#include "base/err.h"

/* All three return their code, which is negative; else it follows each failure into what only
 * success has set. */
#define TIDY_FAILS(fn, err, code, ...)                                                             \
    ({                                                                                             \
        int tidy_code = (code);                                                                    \
        if (tidy_code >= 0)                                                                        \
            __builtin_unreachable();                                                               \
        (void)fn(err, tidy_code, __VA_ARGS__);                                                     \
        tidy_code;                                                                                 \
    })
#define err_set(err, code, ...)   TIDY_FAILS(err_set, err, code, __VA_ARGS__)
#define err_errno(err, code, ...) TIDY_FAILS(err_errno, err, code, __VA_ARGS__)
#define err_wrap(err, code, ...)  TIDY_FAILS(err_wrap, err, code, __VA_ARGS__)
