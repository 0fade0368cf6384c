#include "names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "proto/dents.h"

void names_done(struct sorted_names *n)
{
    free(n->text);
    free(n->items);
    *n = (struct sorted_names){.text = NULL};
}

struct names_gathered {
    char *text; /* owned */
    size_t len, cap, count;
};

static int gathered_add(struct names_gathered *g, const char *name)
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

static int gathered_read(struct names_gathered *g, int fd, uint64_t max)
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
            r = g->count >= max ? -E2BIG : gathered_add(g, e->name);
        }
    }
    return r;
}

static int name_compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int names_read(struct sorted_names *n, int fd, uint64_t max)
{
    struct names_gathered g = {.text = NULL};
    const char *at;
    int r = gathered_read(&g, fd, max);

    *n = (struct sorted_names){.text = g.text};
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
        qsort(n->items, n->count, sizeof(*n->items), name_compare);
    return 0;
}

bool names_has(const struct sorted_names *n, const char *name)
{
    return n->count > 0 &&
           bsearch(&name, n->items, n->count, sizeof(*n->items), name_compare) != NULL;
}

/* ---- opaque directories ---- */

int opaque_index(struct opaque *o, const char *text, size_t len, struct err *err)
{
    const char *end;
    size_t n = 0;

    *o = (struct opaque){.count = 0};
    if (len == 0) /* text may be NULL then */
        return 0;
    end = text + len;
    if (end[-1] != '\0')
        return err_set(err, -EBADMSG, "the list of opaque directories has no end");
    for (const char *s = text; s < end; s += strlen(s) + 1)
        n++;
    o->paths = calloc(n + 1, sizeof(*o->paths));
    if (o->paths == NULL)
        return err_errno(err, -ENOMEM, "the list of opaque directories");
    for (const char *s = text; s < end; s += strlen(s) + 1)
        o->paths[o->count++] = s;
    qsort(o->paths, o->count, sizeof(*o->paths), name_compare);
    return 0;
}

bool opaque_has(const struct opaque *o, const char *path)
{
    const char *key = path[0] != '\0' ? path : ".";

    return o->count > 0 &&
           bsearch(&key, o->paths, o->count, sizeof(*o->paths), name_compare) != NULL;
}

void opaque_done(struct opaque *o)
{
    free(o->paths);
    *o = (struct opaque){.count = 0};
}
