/* The texts behind trouble.h. Runs in rind-registry. Pure. */
#include "trouble.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int trouble_set(struct trouble *t, enum registry_fault fault, int code, const char *fmt, ...)
{
    struct trouble next = {.fault = fault, .code = code, .wait_s = -1};
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(next.text, sizeof(next.text), fmt, ap);
    va_end(ap);
    *t = next;
    return code;
}

int trouble_from(struct trouble *t, enum registry_fault fault, const struct err *err)
{
    return trouble_set(t, fault, err->code < 0 ? err->code : -EIO, "%s", err->msg);
}

int trouble_wrap(struct trouble *t, const char *fmt, ...)
{
    char rest[sizeof(t->text)];
    size_t room, len;
    va_list ap;
    int n;

    (void)memcpy(rest, t->text, sizeof(rest));
    va_start(ap, fmt);
    n = vsnprintf(t->text, sizeof(t->text), fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n + 3 > sizeof(t->text))
        return t->code;
    (void)memcpy(t->text + n, ": ", 3);
    room = sizeof(t->text) - (size_t)n - 3;
    len = strnlen(rest, room);
    (void)memcpy(t->text + n + 2, rest, len);
    t->text[(size_t)n + 2 + len] = '\0';
    return t->code;
}
