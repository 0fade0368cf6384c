#pragma once

/* A growing byte buffer with a hard upper bound chosen by its user. Always NUL-terminated behind
 * len. */

#include <stddef.h>

struct budget;

struct buf {
    char *data; /* owned */
    size_t len;
    size_t cap;
    size_t max; /* bytes; an append that would pass it fails with -E2BIG and changes nothing */
    struct budget *budget; /* borrowed, or NULL: what the capacity counts against; an append that
                              finds no room there fails with -EAGAIN and changes nothing. Set while
                              the buffer is empty */
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
/* Gives the data away (caller frees); the buffer is empty afterwards. NULL only when nothing was
 * appended. It counts no more against the budget. */
char *buf_take(struct buf *b, size_t *ret_len);

#define auto_buf __attribute__((cleanup(buf_done)))
