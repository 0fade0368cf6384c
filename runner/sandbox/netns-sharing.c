/*
 * Sandboxes that share the network of another sandbox (spec->net_container). The launcher keeps the
 * net namespace as long as one of them runs. The owner gives the network its name and addresses, so
 * it cannot be removed while others run in the network.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "launch/launcher.h"
#include "sandbox/conn-limit.h"
#include "sandbox/net-failsafe.h"
#include "sandbox/rights.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/sandbox-request.h"
#include "sandbox/shared.h"

static struct sandbox *sandbox_net_peer(const struct sandbox *s)
{
    if (s->spec == NULL || s->spec->net_container == NULL)
        return NULL;
    return sandbox_find_beside(s, s->spec->net_container);
}

/*
 * Returns the host name that processes of s see. A sandbox in the network of another has the host
 * name of that one.
 */
const char *sandbox_hostname(const struct sandbox *s)
{
    enum { DEPTH_MAX = 8 }; /* two sandboxes could name each other */
    const struct sandbox *other;

    for (int i = 0; i < DEPTH_MAX && (other = sandbox_net_peer(s)) != NULL; i++)
        s = other;
    return s->spec != NULL && s->spec->hostname != NULL ? s->spec->hostname : s->id;
}

void sandbox_take_net(struct sandbox *s, const struct launch_reply *reply)
{
    s->net.place = reply->net;
    (void)snprintf(s->net.owner, sizeof(s->net.owner), "%s", reply->net_owner);
    if (s->net.place.sandbox4.family == 0)
        return;
    conn_limit_begin(s->sup);
    net_failsafe_begin(s->sup);
}

/*
 * Finds the next live sandbox, from `from` on, that has joined the network of the sandbox `id`. It
 * has joined that sandbox, or another one in the same network. s: the sandbox `id`, or NULL if only
 * its id is known.
 */
static struct sandbox *next_dependent(const char *id, const struct sandbox *s, struct sandbox *from)
{
    for (; from != NULL; from = from->sharing.next)
        if (from != s && (from->channel != NULL || init_phase_is_busy(from->init)) &&
            (strcmp(from->net.owner, id) == 0 || (s != NULL && sandbox_net_peer(from) == s)))
            return from;
    return NULL;
}

int sandbox_check_dependents(struct sandbox *s, struct err *err)
{
    const struct sandbox *d = next_dependent(s->id, s, s->sup->sharing);

    return d == NULL ? 0
                     : err_set(err, -EBUSY,
                               "sandbox %s is in the network of %s: remove that first, or force",
                               d->made.by == s->made.by ? sandbox_name(d) : "of another user",
                               sandbox_name(s));
}

static bool end_dependents(struct supervisor *sup, const char *id, const struct sandbox *s)
{
    bool any = false;

    for (struct sandbox *d = next_dependent(id, s, sup->sharing), *next; d != NULL; d = next) {
        next = next_dependent(id, s, d->sharing.next);
        any = true;
        /*
         * A sandbox in the middle of a start, a reattach or an end is ended later: when it settles,
         * the removal calls this function again.
         */
        if (d->channel == NULL || d->init != INIT_RUNNING || d->state == SANDBOX_REMOVING)
            continue;
        /* A helper init, or the init of a broken sandbox, is ended without a stop signal. */
        if (d->state == SANDBOX_STOPPED || sandbox_stop(d, 0, NULL, NULL, NULL) < 0)
            sandbox_end_init(d);
    }
    return any;
}

bool sandbox_end_dependents(struct sandbox *s)
{
    return end_dependents(s->sup, s->id, s);
}

bool sandbox_end_dependents_of(struct supervisor *sup, const char *id)
{
    return end_dependents(sup, id, NULL);
}

static void removal_go_on(struct sandbox *other)
{
    if (other != NULL && other->state == SANDBOX_REMOVING && other->channel == NULL &&
        !init_phase_is_busy(other->init))
        sandbox_begin_removal(other);
}

void sandbox_dependent_settled(struct sandbox *s)
{
    struct sandbox *other = sandbox_net_peer(s);
    struct sandbox *owner;

    if (s->spec == NULL || s->spec->net_container == NULL)
        return;
    owner = sandbox_by_id(s->sup, s->net.owner);
    removal_go_on(other);
    if (owner != other && owner != s)
        removal_go_on(owner);
}

int sandbox_find_join(const struct sandbox *s, struct network_join *ret, struct err *err)
{
    const struct sandbox *other;

    if (s->spec->net_container == NULL)
        return 0;
    other = sandbox_find_beside(s, s->spec->net_container);
    if (other == NULL || other == s || !sandbox_may_join(s, other))
        return err_set(err, -ENOENT, "network: no sandbox '%s' to share the network of",
                       s->spec->net_container);
    if (other->channel == NULL)
        return err_set(err, -EBUSY,
                       "network: sandbox %s, whose network is to be shared, is %s: start it first",
                       sandbox_name(other), sandbox_state_name(other->state));
    *ret = (struct network_join){
        .id = other->id, .owner = other->net.owner, .hostname = sandbox_hostname(other)};
    return 0;
}
