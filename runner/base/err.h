#pragma once

/* The error idiom: a function returns 0 (or a value >= 0) or a negative errno, and describes the
 * cause in an optional struct err of the caller. The struct is plain data: it cannot leak, may
 * be overwritten, and can be sent over a socket. */

enum { ERR_MSG_MAX = 480 };

struct err {
    int code;              /* negative errno; 0 = nothing recorded */
    char msg[ERR_MSG_MAX]; /* one line, NUL-terminated, no control bytes */
};

#define ERR_NONE                                                                                   \
    {                                                                                              \
        .code = 0, .msg = ""                                                                       \
    }

/* Records the cause and returns code (a negative errno). err may be NULL. */
int err_set(struct err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* As err_set, and appends ": <errno text>". */
int err_errno(struct err *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Prepends context to the recorded cause ("context: cause") and returns code. */
int err_wrap(struct err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
