/*
 * Owns the claims of one archive: pairs of a blob and a diff id, sorted, so that hostile archives
 * with very many layers cost no more than their sorting. Used by one load (images-load.c) at a
 * time, on the event loop and in its jobs.
 */
#include "image/claims.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

static int claim_compare(const void *a, const void *b)
{
    const struct claim *x = a, *y = b;
    int r = strcmp(x->blob, y->blob);

    return r != 0 ? r : strcmp(x->diff_id, y->diff_id);
}

static struct claim claim_of(const struct image_layer *l)
{
    struct claim c = {.proven = strcmp(l->blob, l->diff_id) == 0};

    (void)memcpy(c.blob, l->blob, sizeof(c.blob));
    (void)memcpy(c.diff_id, l->diff_id, sizeof(c.diff_id));
    return c;
}

static struct claim *claim_find(const struct claims *c, const struct image_layer *l)
{
    const struct claim key = claim_of(l);

    return c->count > 0 ? bsearch(&key, c->list, c->count, sizeof(key), claim_compare) : NULL;
}

int claims_collect(struct claims *c, struct image *const *images, size_t count)
{
    size_t n = 0, kept = 0;

    for (size_t i = 0; i < count; i++)
        n += images[i]->layer_count;
    *c = (struct claims){.list = calloc(n + 1, sizeof(*c->list))};
    if (c->list == NULL)
        return -ENOMEM;
    n = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < images[i]->layer_count; k++)
            c->list[n++] = claim_of(&images[i]->layers[k]);
    qsort(c->list, n, sizeof(*c->list), claim_compare);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || claim_compare(&c->list[kept - 1], &c->list[i]) != 0)
            c->list[kept++] = c->list[i];
    c->count = kept;
    return 0;
}

void claims_done(struct claims *c)
{
    free(c->list);
    *c = (struct claims){.list = NULL};
}

void claims_mark(const struct claims *c, struct image *image)
{
    for (size_t k = 0; k < image->layer_count; k++) {
        const struct claim *claim = claim_find(c, &image->layers[k]);

        image->layers[k].claimed = claim == NULL || !claim->proven;
    }
}

void claims_prove(struct claims *c, const struct image *image)
{
    for (size_t k = 0; k < image->layer_count; k++) {
        struct claim *claim = claim_find(c, &image->layers[k]);

        if (claim != NULL)
            claim->proven = true;
    }
}

static size_t claims_open(const struct claims *c)
{
    size_t n = 0;

    for (size_t i = 0; i < c->count; i++)
        n += !c->list[i].proven;
    return n;
}

static bool on_known_image(void *data, const struct image *i)
{
    struct claims *c = data;

    claims_prove(c, i);
    return claims_open(c) > 0;
}

int claims_look_up(struct claims *c, struct image_store *s, struct err *err)
{
    bool maybe = false;

    /* An image of the index has its blobs in the store. */
    for (size_t i = 0; i < c->count && !maybe; i++)
        maybe = !c->list[i].proven && blob_there(s, c->list[i].blob);
    return maybe ? image_store_each(s, on_known_image, c, err) : 0;
}
