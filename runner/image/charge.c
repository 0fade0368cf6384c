/* Counts bytes of shared files. Owns the list of them. Runs in any thread; called by index.c. */
#include "image/charge.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS_FIRST = 64 };

void charge_done(struct charge *c)
{
    free(c->items);
    *c = (struct charge){.items = NULL};
}

int charge_add(struct charge *c, enum charge_kind kind, const char *digits, int64_t bytes,
               bool common)
{
    struct charge_item *item;

    if (c->count == c->capacity) {
        const size_t more = c->capacity > 0 ? c->capacity * 2 : ITEMS_FIRST;
        struct charge_item *items = reallocarray(c->items, more, sizeof(*items));

        if (items == NULL)
            return -ENOMEM;
        c->items = items;
        c->capacity = more;
    }
    item = &c->items[c->count++];
    *item = (struct charge_item){.common = common, .bytes = bytes > 0 ? bytes : 0};
    (void)snprintf(item->key, sizeof(item->key), "%c%.*s", (int)kind, CHARGE_KEY_MAX, digits);
    return 0;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct charge_item *)a)->key, ((const struct charge_item *)b)->key);
}

int64_t charge_sum(struct charge *c)
{
    int64_t sum = 0;

    if (c->count > 1)
        qsort(c->items, c->count, sizeof(c->items[0]), by_key);
    for (size_t i = 0, k; i < c->count; i = k) {
        int64_t bytes = 0;
        bool common = false;

        for (k = i; k < c->count && strcmp(c->items[k].key, c->items[i].key) == 0; k++) {
            common |= c->items[k].common;
            bytes = c->items[k].bytes > bytes ? c->items[k].bytes : bytes;
        }
        if (!common)
            sum = bytes > INT64_MAX - sum ? INT64_MAX : sum + bytes;
    }
    return sum;
}

void image_bounds_done(struct image_bounds *b)
{
    free(b->trees);
    *b = (struct image_bounds)IMAGE_BOUNDS_NONE;
}

static int by_name(const void *key, const void *tree)
{
    return strcmp(key, ((const struct image_tree *)tree)->name);
}

int64_t image_bounds_tree(const struct image_bounds *b, const char *name)
{
    const struct image_tree *found =
        b->tree_count > 0 ? bsearch(name, b->trees, b->tree_count, sizeof(b->trees[0]), by_name)
                          : NULL;

    return found != NULL ? found->bytes : 0;
}
