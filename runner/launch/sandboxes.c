/* The launcher's table of sandboxes: what most requests name one by. */
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/hash.h"
#include "launch/sandbox.h"

static size_t bucket(const char *id)
{
    return hash_bytes(HASH_BEGIN, id, strlen(id)) & (SANDBOX_BUCKETS - 1);
}

/* `off`: which link of a sandbox. */
static struct sandbox_link *link_of(struct sandbox *s, size_t off)
{
    return (struct sandbox_link *)(void *)((char *)s + off);
}

static void link_in(struct sandbox **at, struct sandbox *s, size_t off)
{
    struct sandbox_link *link = link_of(s, off);

    *link = (struct sandbox_link){.next = *at, .at = at};
    if (*at != NULL)
        link_of(*at, off)->at = &link->next;
    *at = s;
}

static void link_out(struct sandbox *s, size_t off)
{
    struct sandbox_link *link = link_of(s, off);

    if (link->at == NULL)
        return;
    *link->at = link->next;
    if (link->next != NULL)
        link_of(link->next, off)->at = link->at;
    *link = (struct sandbox_link){.next = NULL};
}

void launcher_add(struct launcher *l, struct sandbox *s)
{
    if (s->kept)
        free(take(s->creator));
    link_in(&l->sandboxes, s, offsetof(struct sandbox, all));
    link_in(&l->by_id[bucket(s->id)], s, offsetof(struct sandbox, by_id));
    if (strcmp(s->net_owner, s->id) != 0)
        link_in(&l->joined, s, offsetof(struct sandbox, joined));
    l->sandbox_count++;
    l->terminals_taken += s->terminals;
}

void launcher_drop(struct launcher *l, struct sandbox *s)
{
    link_out(s, offsetof(struct sandbox, all));
    link_out(s, offsetof(struct sandbox, by_id));
    link_out(s, offsetof(struct sandbox, joined));
    assert(l->sandbox_count > 0 && l->terminals_taken >= s->terminals);
    l->sandbox_count--;
    l->terminals_taken -= s->terminals;
}

struct sandbox *launcher_find(const struct launcher *l, const char *id)
{
    struct sandbox *s = l->by_id[bucket(id)];

    while (s != NULL && strcmp(s->id, id) != 0)
        s = s->by_id.next;
    return s;
}
