/* An expression and a log, split at the first line end: any expression is refused with words or
 * bounded, and a line is found however the log is cut. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/native/process-match.h"
#include "base/err.h"

enum { TEXT_MAX = 300 };

/* Where the first line that matches ends, or -1; -2: too costly. */
static long find(struct match *m, const char *log, size_t len, size_t piece)
{
    static struct match_lines l;
    size_t at = 0;

    (void)memset(&l, 0, sizeof(l));
    while (at < len) {
        size_t n = len - at < piece ? len - at : piece, used = 0;
        int r = match_feed(m, &l, log + at, n, &used);

        if (used > n || (r == 0 && used != n))
            abort();
        at += used;
        if (r != 0)
            return r < 0 ? -2 : (long)at;
    }
    return -1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nl = memchr(data, '\n', size);
    size_t len = nl != NULL ? (size_t)(nl - data) : size;
    char pattern[TEXT_MAX + 1];
    struct err err = ERR_NONE;
    struct match *m = NULL;

    if (len < 1 || len > TEXT_MAX)
        return 0;
    (void)memcpy(pattern, data + 1, len - 1);
    pattern[len - 1] = '\0';
    if (match_new(data[0] == 't' ? pattern : NULL, data[0] == 't' ? NULL : pattern, &m, &err) < 0) {
        if (err.msg[0] == '\0')
            abort();
        return 0;
    }
    if (nl != NULL) {
        const char *log = (const char *)nl + 1;
        size_t log_len = size - len - 1;
        long whole = find(m, log, log_len, log_len > 0 ? log_len : 1);

        if (find(m, log, log_len, 1) != whole || find(m, log, log_len, 5) != whole)
            abort();
    }
    match_free(m);
    return 0;
}
