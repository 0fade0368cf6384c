/*
 * Addresses of sandboxes in networks with a subnet, as the supervisor knows them: which ones a
 * sandbox asks the launcher for, and when. The launcher chooses and keeps them.
 *
 * A sandbox of rind's own API has its addresses from its creation, as its programs may run from
 * then on. A container of Docker's API has them from its start, as with Docker: clients create the
 * next container of a service, with the same address, while the former one runs. A stopped sandbox
 * has none, even if an init serves its files.
 *
 * Runs in the supervisor's event loop; called by the parts of a start, and by the APIs.
 */
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "launch/launcher.h"
#include "launch/request.h"
#include "policy/net-lan.h"
#include "ports/networks.h"
#include "sandbox/launcher-client.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/sandbox-request.h"
#include "sandbox/shared.h"
#include "spec/spec.h"

bool network_spec_is_dockers(const struct spec *spec)
{
    const size_t n = sizeof(SPEC_LABEL_OWN) - 1;

    for (char **l = spec->labels; l != NULL && *l != NULL; l++)
        if (strncmp(*l, SPEC_LABEL_OWN, n) == 0 && (*l)[n] == '=')
            return true;
    return false;
}

/* ---- what is asked for ---- */

static struct spec_lan *spec_lan_of(struct spec *spec, size_t i)
{
    return i == 0 ? &spec->net_lan : &spec->more_nets[i - 1].lan;
}

/* A sandbox in two networks could not tell their members apart. */
static int spec_check_subnets(const struct spec *spec, struct err *err)
{
    const struct spec_lan *a, *b;

    for (size_t i = 0; (a = spec_net_lan(spec, i)) != NULL; i++)
        for (size_t k = 0; k < i; k++) {
            b = spec_net_lan(spec, k);
            if (a->subnet.prefix != 0 && b->subnet.prefix != 0 &&
                net_lan_overlap(a->subnet.subnet, a->subnet.prefix, b->subnet.subnet,
                                b->subnet.prefix))
                return err_set(err, -EINVAL,
                               "network: Pool overlaps with other one on this address space: a "
                               "sandbox cannot be in %s and in %s",
                               spec_net(spec, k, NULL), spec_net(spec, i, NULL));
        }
    return 0;
}

void networks_drop_subnets(struct spec *spec)
{
    for (size_t i = 0; spec_net(spec, i, NULL) != NULL; i++)
        spec_lan_of(spec, i)->subnet = (struct net_lan_ask){.prefix = 0};
}

int networks_find_subnets(struct supervisor *sup, struct spec *spec, struct err *err)
{
    const char *name;

    for (size_t i = 0; (name = spec_net(spec, i, NULL)) != NULL; i++) {
        struct spec_lan *lan = spec_lan_of(spec, i);
        const struct network_entry *e = network_find(sup, name);
        int r;

        lan->subnet = e != NULL ? *network_subnet(e) : (struct net_lan_ask){.prefix = 0};
        /* A network that is not there is found out at the start, as Docker does. */
        if (lan->address.family == 0 || (e == NULL && network_spec_is_dockers(spec)))
            continue;
        r = net_lan_check_address(&lan->subnet, lan->address.bytes, err);
        if (r < 0)
            return err_wrap(err, r, "network %s", name);
        lan->subnet.fixed = 1;
        (void)memcpy(lan->subnet.address, lan->address.bytes, sizeof(lan->subnet.address));
    }
    return spec_check_subnets(spec, err);
}

static bool sandbox_takes_addresses(const struct sandbox *s)
{
    if (s->state == SANDBOX_CREATING || s->state == SANDBOX_CREATED)
        return !network_spec_is_dockers(s->spec);
    return s->state == SANDBOX_STARTING || s->state == SANDBOX_RUNNING ||
           s->state == SANDBOX_PAUSED || s->state == SANDBOX_STOPPING;
}

int networks_ask_subnets(struct sandbox *s, struct err *err)
{
    if (sandbox_takes_addresses(s))
        return networks_find_subnets(s->sup, s->spec, err);
    networks_drop_subnets(s->spec);
    return 0;
}

/* ---- parts of a start ---- */

int networks_start(struct sandbox *s, struct err *err)
{
    int r = networks_ask_subnets(s, err);

    return r < 0 ? r : 1;
}

void networks_close_addresses(struct sandbox *s)
{
    if (s->spec != NULL)
        networks_drop_subnets(s->spec);
}

static bool sandbox_has_addresses(const struct sandbox *s)
{
    const struct spec_lan *asked;

    for (size_t i = 0; (asked = spec_net_lan(s->spec, i)) != NULL; i++) {
        const struct net_lan *lan = networks_lan(s, spec_net(s->spec, i, NULL));

        if (asked->subnet.prefix != 0 &&
            (lan == NULL ||
             (asked->subnet.fixed && memcmp(lan->address, asked->subnet.address, 4) != 0)))
            return false;
    }
    return true;
}

static void on_addresses(void *data, int r, const struct launch_reply *reply, int *fds,
                         const struct err *err)
{
    struct sandbox *s = data;

    (void)fds;
    if (r == 0)
        s->net.place = reply->net;
    sandbox_part_done(s, r, err);
    sandbox_unref(s);
}

int networks_take_addresses(struct sandbox *s, struct err *err)
{
    auto_buf struct buf b = BUF_INIT(0);
    int r;

    if (s->spec->net_name == NULL || s->spec->net_container != NULL ||
        s->net.place.sandbox4.family == 0)
        return 1;
    /* The launcher answers in turn: a change that is under way is done before. */
    r = networks_find_subnets(s->sup, s->spec, err);
    if (r == 0 && sandbox_has_addresses(s))
        r = 1;
    if (r == 0)
        r = sandbox_networks_request(&b, s->id, s->spec, NULL, err);
    networks_drop_subnets(s->spec);
    if (r != 0)
        return r;
    r = launcher_client_send(s->sup->launcher, &b, on_addresses, s, err);
    if (r == 0)
        sandbox_ref(s);
    return r;
}

/* ---- what it has ---- */

const struct net_lan *networks_lan(const struct sandbox *s, const char *name)
{
    const struct network_entry *e = network_find(s->sup, name);

    if (e == NULL || network_subnet(e)->prefix == 0 || s->channel == NULL)
        return NULL;
    /* Other networks of the sandbox do not overlap this one. */
    for (size_t i = 0; i < NET_GROUPS_MAX; i++)
        if (net_lan_is_of(&s->net.place.lan[i], network_subnet(e)))
            return &s->net.place.lan[i];
    return NULL;
}

struct net_addr networks_address(const struct sandbox *p, const struct sandbox *reader)
{
    const char *name;

    for (size_t i = 0; (name = spec_net(reader->spec, i, NULL)) != NULL; i++) {
        const struct net_lan *lan = spec_has_net(p->spec, name) ? networks_lan(p, name) : NULL;

        if (lan != NULL)
            return net_lan_addr(lan->address);
    }
    return p->net.place.sandbox4;
}
