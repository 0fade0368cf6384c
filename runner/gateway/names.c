#include "gateway/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/list.h"

enum { BUCKETS = 1024 };

struct pair {
    struct pair *next, **link;  /* of its bucket */
    struct pair *newer, *older; /* of all */
    struct net_addr address;
    uint64_t until;
    char name[];
};

struct names {
    struct pair *buckets[BUCKETS];
    struct pair *newest, *oldest;
    unsigned count;
};

struct names *names_new(void)
{
    return calloc(1, sizeof(struct names));
}

static void drop(struct names *n, struct pair *p)
{
    list_remove(p);
    if (p->newer != NULL)
        p->newer->older = p->older;
    else
        n->newest = p->older;
    if (p->older != NULL)
        p->older->newer = p->newer;
    else
        n->oldest = p->newer;
    n->count--;
    free(p);
}

void names_free(struct names *n)
{
    if (n == NULL)
        return;
    while (n->oldest != NULL)
        drop(n, n->oldest);
    free(n);
}

static unsigned bucket_of(const struct net_addr *a)
{
    uint32_t h = hash_bytes(HASH_BEGIN, a->bytes, sizeof(a->bytes));

    return (h ^ h >> 16) % BUCKETS;
}

static bool same(const struct net_addr *a, const struct net_addr *b)
{
    return a->family == b->family && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

static struct pair *find(const struct names *n, const char *name, const struct net_addr *a)
{
    struct pair *p = n->buckets[bucket_of(a)];

    while (p != NULL && !(same(&p->address, a) && strcmp(p->name, name) == 0))
        p = p->next;
    return p;
}

/* The one of this address that was given out first, if there are as many as there may be. Newer
 * ones stand in front. */
static struct pair *surplus(const struct names *n, const struct net_addr *a)
{
    struct pair *last = NULL;
    unsigned count = 0;

    for (struct pair *p = n->buckets[bucket_of(a)]; p != NULL; p = p->next) {
        if (!same(&p->address, a))
            continue;
        last = p;
        count++;
    }
    return count >= NAMES_EACH ? last : NULL;
}

void names_add(struct names *n, const char *name, const struct net_addr *a, uint64_t now,
               uint64_t until)
{
    struct pair *p = find(n, name, a);
    size_t len = strlen(name) + 1;

    if (p != NULL) {
        if (p->until > until)
            until = p->until; /* an answer that was given stays good */
        drop(n, p);
    }
    while (n->oldest != NULL && (n->count >= NAMES_MAX || n->oldest->until <= now))
        drop(n, n->oldest);
    p = surplus(n, a);
    if (p != NULL)
        drop(n, p);
    p = malloc(sizeof(*p) + len);
    if (p == NULL)
        return;
    *p = (struct pair){.older = n->newest, .address = *a, .until = until};
    (void)memcpy(p->name, name, len);
    list_add(&n->buckets[bucket_of(a)], p);
    if (n->newest != NULL)
        n->newest->newer = p;
    else
        n->oldest = p;
    n->newest = p;
    n->count++;
}

bool names_has(const struct names *n, const char *name, const struct net_addr *a, uint64_t now)
{
    const struct pair *p = find(n, name, a);

    return p != NULL && p->until > now;
}

void names_each(const struct names *n, const struct net_addr *a, uint64_t now,
                void (*fn)(void *data, const char *name), void *data)
{
    for (const struct pair *p = n->buckets[bucket_of(a)]; p != NULL; p = p->next)
        if (same(&p->address, a) && p->until > now)
            fn(data, p->name);
}
