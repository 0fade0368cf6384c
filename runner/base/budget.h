#pragma once

/* A limit on the memory of many buffers. Each buffer reports changes of its capacity. Small
 * buffers are free, so that small requests are served even when large ones have used the budget.
 * A budget may be part of another: both are charged. Not thread-safe. */

#include <stddef.h>

struct budget {
    size_t used, max;  /* bytes */
    struct budget *up; /* borrowed; NULL: none */
};

enum { BUDGET_FREE = 64 << 10 /* buffers of at most this size are not counted */ };

/* Reports that a buffer's capacity changes. -EAGAIN: the budget is exhausted, and nothing was
 * changed. To shrink always succeeds. b NULL: not counted. */
int budget_resize(struct budget *b, size_t from, size_t to);
