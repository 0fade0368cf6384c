/* The launcher's registry of sandboxes, by id. Runs in the launcher. */
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/hash.h"
#include "launch/sandbox.h"

static size_t id_bucket(const char *id)
{
    return hash_bytes(HASH_BEGIN, id, strlen(id)) & (SANDBOX_BUCKETS - 1);
}

/* Returns the link of s at offset `off` in struct launch_sandbox. */
static struct launch_sandbox_link *sandbox_link_at(struct launch_sandbox *s, size_t off)
{
    return (struct launch_sandbox_link *)(void *)((char *)s + off);
}

static void sandbox_link_in(struct launch_sandbox **at, struct launch_sandbox *s, size_t off)
{
    struct launch_sandbox_link *link = sandbox_link_at(s, off);

    *link = (struct launch_sandbox_link){.next = *at, .at = at};
    if (*at != NULL)
        sandbox_link_at(*at, off)->at = &link->next;
    *at = s;
}

static void sandbox_link_out(struct launch_sandbox *s, size_t off)
{
    struct launch_sandbox_link *link = sandbox_link_at(s, off);

    if (link->at == NULL)
        return;
    *link->at = link->next;
    if (link->next != NULL)
        sandbox_link_at(link->next, off)->at = link->at;
    *link = (struct launch_sandbox_link){.next = NULL};
}

void launcher_add(struct launcher *l, struct launch_sandbox *s)
{
    if (s->kept)
        free(take(s->creator));
    sandbox_link_in(&l->sandboxes, s, offsetof(struct launch_sandbox, all));
    sandbox_link_in(&l->by_id[id_bucket(s->id)], s, offsetof(struct launch_sandbox, by_id));
    if (strcmp(s->net_owner, s->id) != 0)
        sandbox_link_in(&l->joined, s, offsetof(struct launch_sandbox, joined));
    l->sandbox_count++;
    l->terminals_taken += s->terminals;
}

void launcher_drop(struct launcher *l, struct launch_sandbox *s)
{
    sandbox_link_out(s, offsetof(struct launch_sandbox, all));
    sandbox_link_out(s, offsetof(struct launch_sandbox, by_id));
    sandbox_link_out(s, offsetof(struct launch_sandbox, joined));
    assert(l->sandbox_count > 0 && l->terminals_taken >= s->terminals);
    l->sandbox_count--;
    l->terminals_taken -= s->terminals;
}

struct launch_sandbox *launcher_find(const struct launcher *l, const char *id)
{
    struct launch_sandbox *s = l->by_id[id_bucket(id)];

    while (s != NULL && strcmp(s->id, id) != 0)
        s = s->by_id.next;
    return s;
}
