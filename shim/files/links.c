/* Files with several names, by inode (cmd.h). */
#include <stdlib.h>
#include <string.h>

#include "files/cmd.h"

static size_t inode_hash(dev_t dev, ino_t ino, size_t cap)
{
    uint64_t h = ((uint64_t)dev << 32 ^ (uint64_t)ino) * UINT64_C(0x9e3779b97f4a7c15);

    return (size_t)(h >> 32) & (cap - 1);
}

/* Returns the slot of a file, or the free slot where it belongs. */
static struct link *links_slot(const struct links *l, dev_t dev, ino_t ino)
{
    size_t i = inode_hash(dev, ino, l->cap);

    while (l->list[i].path != NULL && (l->list[i].dev != dev || l->list[i].ino != ino))
        i = (i + 1) & (l->cap - 1);
    return &l->list[i];
}

/* Returns false when out of memory, which counts as a full table. */
static bool links_grow(struct links *l)
{
    struct links bigger = {.count = l->count, .cap = l->cap == 0 ? 64 : l->cap * 2};

    if (l->count * 2 < l->cap)
        return true;
    bigger.list = calloc(bigger.cap, sizeof(*bigger.list));
    if (bigger.list == NULL)
        return false;
    for (size_t i = 0; i < l->cap; i++)
        if (l->list[i].path != NULL)
            *links_slot(&bigger, l->list[i].dev, l->list[i].ino) = l->list[i];
    free(l->list);
    *l = bigger;
    return true;
}

const char *links_seen(struct links *l, const struct stat *st, const char *path)
{
    struct link *at;
    char *copy;

    if (l->cap > 0) {
        at = links_slot(l, st->st_dev, st->st_ino);
        if (at->path != NULL)
            return at->path;
    }
    if (l->count == LINKS_MAX || !links_grow(l))
        return NULL;
    copy = malloc(strlen(path) + 1);
    if (copy == NULL)
        return NULL;
    memcpy(copy, path, strlen(path) + 1);
    at = links_slot(l, st->st_dev, st->st_ino);
    *at = (struct link){.dev = st->st_dev, .ino = st->st_ino, .path = copy};
    l->count++;
    return NULL;
}
