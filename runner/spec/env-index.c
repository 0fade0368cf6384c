/* The hash index behind spec/env-index.h. Pure. */

#include "spec/env-index.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

/* Open addressing; slots hold position + 1; 0 is free. */
struct env_index {
    uint32_t *slots;   /* owned */
    size_t slot_count; /* a power of two, at most half of them used */
    uint64_t seed;
};

enum { SLOTS_FIRST = 64 };

struct env_index *env_index_new(void)
{
    struct env_index *x = calloc(1, sizeof(*x));

    /*
     * Seeded by the heap address, which clients do not know, so that they cannot choose colliding
     * names.
     */
    if (x != NULL)
        x->seed = (uint64_t)(uintptr_t)x * UINT64_C(0x9e3779b97f4a7c15);
    return x;
}

void env_index_free(struct env_index *x)
{
    if (x != NULL)
        free(x->slots);
    free(x);
}

/* FNV-1a, starting from the seed. */
static uint64_t hash_name(uint64_t h, const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)name[i]) * UINT64_C(1099511628211);
    return h ^ h >> 29;
}

static bool entry_is(const char *entry, const char *name, size_t len)
{
    return strncmp(entry, name, len) == 0 && entry[len] == '=';
}

/* Finds the slot that holds the name, or the free slot for it. */
static size_t find_slot(const struct env_index *x, char *const *list, const char *name, size_t len)
{
    size_t at = (size_t)hash_name(x->seed, name, len) & (x->slot_count - 1);

    while (x->slots[at] != 0 && !entry_is(list[x->slots[at] - 1], name, len))
        at = (at + 1) & (x->slot_count - 1);
    return at;
}

int env_index_reserve(struct env_index *x, char *const *list, size_t count)
{
    size_t slot_count = x->slot_count > 0 ? x->slot_count * 2 : SLOTS_FIRST;
    uint32_t *slots;

    if (count * 2 < x->slot_count)
        return 0;
    slots = calloc(slot_count, sizeof(*slots));
    if (slots == NULL)
        return -ENOMEM;
    free(x->slots);
    x->slots = slots;
    x->slot_count = slot_count;
    for (size_t i = 0; i < count; i++)
        env_index_add(x, list, i);
    return 0;
}

size_t env_index_find(const struct env_index *x, char *const *list, size_t count, const char *name,
                      size_t name_len)
{
    size_t slot;

    if (x->slot_count == 0)
        return count;
    slot = find_slot(x, list, name, name_len);
    return x->slots[slot] != 0 ? x->slots[slot] - 1 : count;
}

void env_index_add(struct env_index *x, char *const *list, size_t at)
{
    x->slots[find_slot(x, list, list[at], strcspn(list[at], "="))] = (uint32_t)at + 1;
}
