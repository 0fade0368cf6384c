#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Messages may quote foreign strings; their control bytes must not reach a terminal or a log. */
static void msg_scrub(char *s)
{
    for (; *s != '\0'; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            *s = '?';
}

int err_set(struct err *err, int code, const char *fmt, ...)
{
    va_list ap;

    if (err == NULL)
        return code;

    err->code = code;
    va_start(ap, fmt);
    (void)vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
    va_end(ap);
    msg_scrub(err->msg);
    return code;
}

int err_errno(struct err *err, int code, const char *fmt, ...)
{
    char text[ERR_MSG_MAX];
    va_list ap;

    if (err == NULL)
        return code;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return err_set(err, code, "%s: %s", text, strerror(-code));
}

int err_wrap(struct err *err, int code, const char *fmt, ...)
{
    char context[ERR_MSG_MAX], cause[ERR_MSG_MAX];
    va_list ap;

    if (err == NULL)
        return code;

    va_start(ap, fmt);
    (void)vsnprintf(context, sizeof(context), fmt, ap);
    va_end(ap);

    (void)memcpy(cause, err->msg, sizeof(cause));
    if (cause[0] == '\0')
        return err_set(err, code, "%s: %s", context, strerror(-code));
    return err_set(err, code, "%s: %s", context, cause);
}
