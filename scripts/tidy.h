/* Put in front of every file by scripts/tidy: what the analyzer cannot see of functions in another
 * file. */
#include "base/err.h"
#include "trouble.h"

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

/* As these do, of rind-registry. */
#define TIDY_TROUBLE(fn, code, ...)                                                                \
    ({                                                                                             \
        int tidy_code = (code);                                                                    \
        if (tidy_code >= 0)                                                                        \
            __builtin_unreachable();                                                               \
        (void)fn(__VA_ARGS__);                                                                     \
        tidy_code;                                                                                 \
    })
#define trouble_set(t, fault, code, ...)                                                           \
    TIDY_TROUBLE(trouble_set, code, t, fault, code, __VA_ARGS__)
#define trouble_from(t, fault, err) TIDY_TROUBLE(trouble_from, -1, t, fault, err)
#define trouble_wrap(t, ...)        TIDY_TROUBLE(trouble_wrap, -1, t, __VA_ARGS__)
