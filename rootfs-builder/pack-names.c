#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "pack_internal.h"
#include "proto/dents.h"

void names_done(struct names *n)
{
    free(n->text);
    free(n->items);
    *n = (struct names){.text = NULL};
}

struct gathered {
    char *text; /* owned */
    size_t len, cap, count;
};

static int gather(struct gathered *g, const char *name)
{
    size_t len = strlen(name) + 1;

    if (g->text == NULL || g->len + len > g->cap) {
        size_t cap = g->cap * 2 + 4096;
        char *text = realloc(g->text, cap);

        if (text == NULL)
            return -ENOMEM;
        g->text = text;
        g->cap = cap;
    }
    (void)memcpy(g->text + g->len, name, len);
    g->len += len;
    g->count++;
    return 0;
}

static int gather_all(struct gathered *g, int fd, uint64_t max)
{
    _Alignas(8) char buf[32768];
    long n;
    int r = 0;

    while (r == 0 && (n = dents_read(fd, buf, sizeof(buf))) != 0) {
        if (n < 0)
            return (int)n;
        for (long at = 0; r == 0 && at < n;) {
            const struct dent *e = (const void *)(buf + at);

            at += e->size;
            if (dent_is_dot(e))
                continue;
            r = g->count >= max ? -E2BIG : gather(g, e->name);
        }
    }
    return r;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int names_read(struct names *n, int fd, uint64_t max)
{
    struct gathered g = {.text = NULL};
    const char *at;
    int r = gather_all(&g, fd, max);

    *n = (struct names){.text = g.text};
    if (r == 0 && g.count > 0) {
        n->items = calloc(g.count, sizeof(*n->items));
        r = n->items == NULL ? -ENOMEM : 0;
    }
    if (r < 0) {
        names_done(n);
        return r;
    }
    at = g.text;
    for (size_t i = 0; i < g.count; i++, at += strlen(at) + 1)
        n->items[i] = at;
    n->count = g.count;
    if (n->count > 1)
        qsort(n->items, n->count, sizeof(*n->items), by_bytes);
    return 0;
}
