#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/budget.h"

void buf_done(struct buf *b)
{
    (void)budget_resize(b->budget, b->cap, 0);
    free(b->data);
    b->data = NULL;
    b->len = b->cap = 0;
}

static int buf_reserve(struct buf *b, size_t more)
{
    size_t want, cap;
    char *data;
    int r;

    if (b->len > b->max || more > b->max - b->len)
        return -E2BIG;
    want = b->len + more + 1;
    if (want <= b->cap)
        return 0;

    cap = b->cap < 64 ? 64 : b->cap;
    while (cap < want)
        cap *= 2;
    r = budget_resize(b->budget, b->cap, cap);
    if (r < 0)
        return r;
    data = realloc(b->data, cap);
    if (data == NULL) {
        (void)budget_resize(b->budget, cap, b->cap);
        return -ENOMEM;
    }
    b->data = data;
    b->cap = cap;
    return 0;
}

int buf_append(struct buf *b, const void *data, size_t len)
{
    int r;

    r = buf_reserve(b, len);
    if (r < 0)
        return r;
    if (len > 0)
        (void)memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
    return 0;
}

int buf_append_str(struct buf *b, const char *s)
{
    return buf_append(b, s, strlen(s));
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    int n, r;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        return -EINVAL;
    r = buf_reserve(b, (size_t)n);
    if (r < 0)
        return r;
    va_start(ap, fmt);
    (void)vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
    return 0;
}

void buf_consume(struct buf *b, size_t n)
{
    if (n == 0)
        return;
    (void)memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
    b->data[b->len] = '\0';
}

char *buf_take(struct buf *b, size_t *ret_len)
{
    char *data = b->data;

    if (ret_len != NULL)
        *ret_len = b->len;
    (void)budget_resize(b->budget, b->cap, 0);
    b->data = NULL;
    b->len = b->cap = 0;
    return data;
}
