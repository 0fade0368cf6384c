#include "dirs.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void dirs_done(struct dirs *d)
{
    free(d->items);
    free(d->text);
    free(d->slots);
    *d = (struct dirs){.items = NULL};
}

/* FNV-1a with Murmur's finisher and a random seed: an archive could otherwise choose colliding
 * paths. */
static size_t path_hash(const struct dirs *d, const char *s)
{
    uint64_t h = d->seed;

    for (; *s != '\0'; s++)
        h = (h ^ (unsigned char)*s) * 1099511628211U;
    h = (h ^ h >> 33) * 0xff51afd7ed558ccdU;
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53U;
    return (size_t)(h ^ h >> 33);
}

/* Returns the slot of path, or the free slot where it belongs. */
static size_t dirs_slot(const struct dirs *d, const char *path)
{
    size_t i = path_hash(d, path) & (d->slot_count - 1);

    while (d->slots[i] != 0) {
        assert(d->items != NULL);
        if (strcmp(dirs_path(d, &d->items[d->slots[i] - 1]), path) == 0)
            break;
        i = (i + 1) & (d->slot_count - 1);
    }
    return i;
}

static bool dirs_grow_slots(struct dirs *d)
{
    size_t count = d->slot_count > 0 ? d->slot_count * 2 : 256;
    uint32_t *slots = calloc(count, sizeof(*slots));

    if (slots == NULL)
        return false;
    if (d->slot_count == 0 && getrandom(&d->seed, sizeof(d->seed), GRND_NONBLOCK) < 0)
        /* early at boot there is no entropy: use an address */
        d->seed = (uint64_t)(uintptr_t)slots;
    free(d->slots);
    d->slots = slots;
    d->slot_count = count;
    assert(d->count == 0 || d->items != NULL);
    for (size_t i = 0; i < d->count; i++)
        slots[dirs_slot(d, dirs_path(d, &d->items[i]))] = (uint32_t)(i + 1);
    return true;
}

static bool dirs_grow(struct dirs *d, size_t len)
{
    if (d->count == d->cap) {
        size_t cap = d->cap > 0 ? d->cap * 2 : 64;
        struct dir *items = cap <= UINT32_MAX / 2 ? realloc(d->items, cap * sizeof(*items)) : NULL;

        if (items == NULL)
            return false;
        d->items = items;
        d->cap = cap;
    }
    if (d->text_len + len > d->text_cap) {
        size_t cap = d->text_cap * 2 + len;
        char *text = realloc(d->text, cap);

        if (text == NULL)
            return false;
        d->text = text;
        d->text_cap = cap;
    }
    return d->count * 2 < d->slot_count || dirs_grow_slots(d);
}

struct dir *dirs_find(const struct dirs *d, const char *path)
{
    uint32_t at = d->slot_count > 0 ? d->slots[dirs_slot(d, path)] : 0;

    return at > 0 ? &d->items[at - 1] : NULL;
}

struct dir *dirs_get(struct dirs *d, const char *path)
{
    struct dir *found = dirs_find(d, path);
    size_t len = strlen(path) + 1;

    if (found != NULL)
        return found;
    if (!dirs_grow(d, len) || d->items == NULL)
        return NULL;
    (void)memcpy(d->text + d->text_len, path, len);
    d->items[d->count] = (struct dir){.path = d->text_len};
    d->text_len += len;
    d->slots[dirs_slot(d, path)] = (uint32_t)(d->count + 1);
    return &d->items[d->count++];
}
