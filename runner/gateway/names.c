#include "gateway/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/list.h"

enum { BUCKETS = 1024 };

struct pair {
    struct pair *next, **link;  /* of its bucket */
    struct pair *newer, *older; /* in order of insertion */
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

static void pair_free(struct names *n, struct pair *p)
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
        pair_free(n, n->oldest);
    free(n);
}

static unsigned address_bucket(const struct net_addr *a)
{
    uint32_t h = hash_bytes(HASH_BEGIN, a->bytes, sizeof(a->bytes));

    return (h ^ h >> 16) % BUCKETS;
}

static bool address_equals(const struct net_addr *a, const struct net_addr *b)
{
    return a->family == b->family && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

static struct pair *pair_find(const struct names *n, const char *name, const struct net_addr *a)
{
    struct pair *p = n->buckets[address_bucket(a)];

    while (p != NULL && !(address_equals(&p->address, a) && strcmp(p->name, name) == 0))
        p = p->next;
    return p;
}

/* If an address has NAMES_EACH names: returns the oldest one of them. New pairs are put in
 * front. */
static struct pair *pair_surplus(const struct names *n, const struct net_addr *a)
{
    struct pair *last = NULL;
    unsigned count = 0;

    for (struct pair *p = n->buckets[address_bucket(a)]; p != NULL; p = p->next) {
        if (!address_equals(&p->address, a))
            continue;
        last = p;
        count++;
    }
    return count >= NAMES_EACH ? last : NULL;
}

void names_add(struct names *n, const char *name, const struct net_addr *a, uint64_t now,
               uint64_t until)
{
    struct pair *p = pair_find(n, name, a);
    size_t len = strlen(name) + 1;

    if (p != NULL) {
        if (p->until > until)
            until = p->until; /* an earlier answer keeps its time to live */
        pair_free(n, p);
    }
    while (n->oldest != NULL && (n->count >= NAMES_MAX || n->oldest->until <= now))
        pair_free(n, n->oldest);
    p = pair_surplus(n, a);
    if (p != NULL)
        pair_free(n, p);
    p = malloc(sizeof(*p) + len);
    if (p == NULL)
        return;
    *p = (struct pair){.older = n->newest, .address = *a, .until = until};
    (void)memcpy(p->name, name, len);
    list_add(&n->buckets[address_bucket(a)], p);
    if (n->newest != NULL)
        n->newest->newer = p;
    else
        n->oldest = p;
    n->newest = p;
    n->count++;
}

bool names_has(const struct names *n, const char *name, const struct net_addr *a, uint64_t now)
{
    const struct pair *p = pair_find(n, name, a);

    return p != NULL && p->until > now;
}

void names_each(const struct names *n, const struct net_addr *a, uint64_t now,
                void (*fn)(void *data, const char *name), void *data)
{
    for (const struct pair *p = n->buckets[address_bucket(a)]; p != NULL; p = p->next)
        if (address_equals(&p->address, a) && p->until > now)
            fn(data, p->name);
}
