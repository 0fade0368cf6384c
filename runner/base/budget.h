#pragma once

/*
 * Memory that many buffers may take together. Each tells what its capacity becomes; what is small
 * costs nothing, so that small requests are served whatever large ones hold. A budget can be a part
 * of another one: both are charged. Not for several threads.
 */

#include <stddef.h>

struct budget {
    size_t used, max;  /* bytes */
    struct budget *up; /* borrowed; NULL: none */
};

enum { BUDGET_FREE = 64 << 10 /* bytes of one buffer that are not counted */ };

/* A buffer's capacity changes. -EAGAIN, and nothing is changed, when there is no room for it; a
 * smaller one always succeeds. b NULL: not counted. */
int budget_resize(struct budget *b, size_t from, size_t to);
