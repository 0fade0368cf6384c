#pragma once

/* A growing byte buffer with a fixed upper bound. The byte after len is always NUL. */

#include <stddef.h>

struct budget;

struct buf {
    char *data; /* owned */
    size_t len;
    size_t cap;
    size_t max;            /* bytes; an append beyond it fails with -E2BIG and changes nothing */
    struct budget *budget; /* borrowed, or NULL: the capacity counts against it. If it is
                            * exhausted an append fails with -EAGAIN and changes nothing. Set
                            * while the buffer is empty */
};

#define BUF_INIT(limit)                                                                            \
    {                                                                                              \
        .data = NULL, .len = 0, .cap = 0, .max = (limit)                                           \
    }

void buf_done(struct buf *b);
int buf_append(struct buf *b, const void *data, size_t len);
int buf_append_str(struct buf *b, const char *s);
int buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Drops n bytes (n <= len) at the front. */
void buf_consume(struct buf *b, size_t n);
/* Returns the data, which the caller frees, and leaves the buffer empty and uncounted. NULL only
 * if nothing was appended. */
char *buf_take(struct buf *b, size_t *ret_len);

#define auto_buf __attribute__((cleanup(buf_done)))
