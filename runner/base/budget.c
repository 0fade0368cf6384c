#include "base/budget.h"

#include <assert.h>
#include <errno.h>

static size_t buffer_cost(size_t capacity)
{
    return capacity > BUDGET_FREE ? capacity : 0;
}

int budget_resize(struct budget *b, size_t from, size_t to)
{
    size_t old = buffer_cost(from), new = buffer_cost(to);

    if (new > old)
        for (const struct budget *at = b; at != NULL; at = at->up)
            if (at->used > at->max || new - old > at->max - at->used)
                return -EAGAIN;
    for (; b != NULL; b = b->up) {
        assert(b->used >= old);
        b->used = b->used - old + new;
    }
    return 0;
}
