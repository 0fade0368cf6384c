/*
 * Sandboxes that share the network of another. The network lives as long as one of them; its name
 * and addresses are the other's, which therefore cannot be removed while they run.
 */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "core/sandbox-request.h"
#include "core/sandbox_internal.h"
#include "core/supervisor_internal.h"

static const struct sandbox *other_of(const struct sandbox *s)
{
    if (s->spec == NULL || s->spec->net_container == NULL)
        return NULL;
    return sandbox_find(s->sup, s->spec->net_container);
}

/* One that shares another's has that one's host name, and so on. */
const char *sandbox_hostname(const struct sandbox *s)
{
    enum { DEPTH_MAX = 8 }; /* two could name each other */
    const struct sandbox *other;

    for (int i = 0; i < DEPTH_MAX && (other = other_of(s)) != NULL; i++)
        s = other;
    return s->spec != NULL && s->spec->hostname != NULL ? s->spec->hostname : s->id;
}

/* A live sandbox that is, by whatever way, in the network of s. */
static struct sandbox *next_dependent(struct sandbox *s, struct sandbox *from)
{
    for (; from != NULL; from = from->sharing.next)
        if (from != s && (from->channel != NULL || from->launching || from->ending) &&
            other_of(from) == s)
            return from;
    return NULL;
}

int sandbox_check_dependents(struct sandbox *s, struct err *err)
{
    const struct sandbox *d = next_dependent(s, s->sup->sharing);

    return d == NULL ? 0
                     : err_set(err, -EBUSY,
                               "sandbox %s is in the network of %s: remove that first, or force",
                               sandbox_name(d), sandbox_name(s));
}

bool sandbox_end_dependents(struct sandbox *s)
{
    bool any = false;

    for (struct sandbox *d = next_dependent(s, s->sup->sharing), *next; d != NULL; d = next) {
        next = next_dependent(s, d->sharing.next);
        any = true;
        /* What is being started or ended comes by here again. */
        if (d->channel != NULL && !d->ending && d->state != SANDBOX_REMOVING)
            (void)sandbox_stop(d, 0, NULL, NULL, NULL);
    }
    return any;
}

void sandbox_dependent_ended(struct sandbox *s)
{
    struct sandbox *other;

    if (s->spec == NULL || s->spec->net_container == NULL)
        return;
    other = sandbox_find(s->sup, s->spec->net_container);
    if (other != NULL && other->state == SANDBOX_REMOVING && other->channel == NULL &&
        !other->ending && !other->launching)
        sandbox_begin_removal(other);
}

int sandbox_find_join(const struct sandbox *s, struct network_join *ret, struct err *err)
{
    const struct sandbox *other;

    if (s->spec->net_container == NULL)
        return 0;
    other = sandbox_find(s->sup, s->spec->net_container);
    if (other == NULL || other == s)
        return err_set(err, -ENOENT, "network: no sandbox '%s' to share the network of",
                       s->spec->net_container);
    if (other->channel == NULL)
        return err_set(err, -EBUSY,
                       "network: sandbox %s, whose network is to be shared, is %s: start it first",
                       sandbox_name(other), sandbox_state_name(other->state));
    *ret = (struct network_join){.id = other->id, .hostname = sandbox_hostname(other)};
    return 0;
}
