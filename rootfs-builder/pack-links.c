/* The table of packed inodes with several names, for pack.c. Runs in B of worker.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pack-internal.h"

void links_done(struct pack_links *l)
{
    free(l->slots);
    free(l->text);
    *l = (struct pack_links){.slots = NULL};
}

/* A free slot has inode 0, which no file has. */
static struct seen *links_slot(const struct pack_links *l, dev_t dev, ino_t ino)
{
    size_t i = (size_t)(ino * 0x9e3779b97f4a7c15U >> 17) & (l->slot_count - 1);

    while (l->slots[i].ino != 0 && (l->slots[i].ino != ino || l->slots[i].dev != dev))
        i = (i + 1) & (l->slot_count - 1);
    return &l->slots[i];
}

static int links_grow(struct pack_links *l)
{
    struct pack_links more = *l;

    more.slot_count = l->slot_count > 0 ? l->slot_count * 2 : 256;
    more.slots = calloc(more.slot_count, sizeof(*more.slots));
    if (more.slots == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < l->slot_count; i++)
        if (l->slots[i].ino != 0)
            *links_slot(&more, l->slots[i].dev, l->slots[i].ino) = l->slots[i];
    free(l->slots);
    *l = more;
    return 0;
}

static int links_add_name(struct pack_links *l, const char *name, size_t *ret)
{
    size_t len = strlen(name) + 1;

    if (l->text_len + len > l->text_cap) {
        size_t cap = l->text_cap * 2 + len;
        char *text = realloc(l->text, cap);

        if (text == NULL)
            return -ENOMEM;
        l->text = text;
        l->text_cap = cap;
    }
    (void)memcpy(l->text + l->text_len, name, len);
    *ret = l->text_len;
    l->text_len += len;
    return 0;
}

int links_find(struct pack_links *l, const struct stat *st, const char *name, const char **ret)
{
    struct seen *s;
    size_t at;
    int r = 0;

    if (l->count * 2 >= l->slot_count)
        r = links_grow(l);
    if (r < 0)
        return r;
    s = links_slot(l, st->st_dev, st->st_ino);
    *ret = NULL;
    if (s->ino != 0) {
        *ret = l->text + s->name;
        return 0;
    }
    r = links_add_name(l, name, &at);
    if (r < 0)
        return r;
    *s = (struct seen){.dev = st->st_dev, .ino = st->st_ino, .name = at};
    l->count++;
    return 0;
}
