/*
 * Moves a sandbox that exists to other named networks. The spec is saved first, so that the next
 * start counts by it whatever happens. A running sandbox keeps its link and addresses: the launcher
 * changes its rules on the host, in one step, and its files. Connections to members that are no
 * longer neighbours end with that.
 *
 * Runs in the supervisor's event loop; called by the APIs.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "launch/launcher.h"
#include "launch/request.h"
#include "ports/names.h"
#include "ports/networks.h"
#include "sandbox/launcher-client.h"
#include "sandbox/policies.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/sandbox-request.h"
#include "sandbox/shared.h"
#include "sandbox/store.h"
#include "spec/spec.h"

/* The members of a spec that a change concerns. */
struct spec_nets {
    char *name, *aliases, *links; /* owned, or NULL */
    struct spec_lan lan;
    struct spec_net more[SPEC_NETS_MORE_MAX];
    size_t more_count;
    enum net_mode mode;
    char *label; /* owned: "K=V", the other value of that label; NULL: no label is changed */
};

struct network_change {
    struct sandbox *s; /* a reference */
    struct spec_nets was;
    network_change_cb *cb;
    void *data;
    char add[SPEC_NETWORK_MAX + 1], drop[SPEC_NETWORK_MAX + 1]; /* "": none */
};

/* ---- the spec ---- */

static void spec_nets_done(struct spec_nets *n)
{
    free(n->name);
    free(n->aliases);
    free(n->links);
    free(n->label);
    for (size_t i = 0; i < n->more_count; i++)
        spec_net_done(&n->more[i]);
}

static int text_copy(char **ret, const char *text)
{
    *ret = text != NULL ? strdup(text) : NULL;
    return text != NULL && *ret == NULL ? -ENOMEM : 0;
}

static int spec_nets_copy(struct spec_nets *ret, const struct spec *s)
{
    int r = text_copy(&ret->name, s->net_name);

    if (r == 0)
        r = text_copy(&ret->aliases, s->net_aliases);
    if (r == 0)
        r = text_copy(&ret->links, s->net_links);
    for (size_t i = 0; r == 0 && i < s->more_net_count; i++) {
        ret->more_count = i + 1;
        r = text_copy(&ret->more[i].name, s->more_nets[i].name);
        if (r == 0)
            r = text_copy(&ret->more[i].aliases, s->more_nets[i].aliases);
        ret->more[i].lan = s->more_nets[i].lan;
    }
    ret->lan = s->net_lan;
    ret->mode = s->network;
    return r;
}

/* Finds the list's element by its key each time, as another request may have replaced the list. */
static bool label_swap(struct spec *s, char **label)
{
    const size_t key = *label != NULL ? strcspn(*label, "=") + 1 : 0;
    char **l = s->labels, *other;

    while (key > 0 && l != NULL && *l != NULL && strncmp(*l, *label, key) != 0)
        l++;
    if (key == 0 || l == NULL || *l == NULL)
        return false;
    other = *l;
    *l = *label;
    *label = other;
    return true;
}

/* Exchanges the spec's networks with those of n. */
static void spec_nets_swap(struct spec *s, struct spec_nets *n)
{
    struct spec_nets was = *n;

    n->name = s->net_name;
    n->aliases = s->net_aliases;
    n->links = s->net_links;
    n->lan = s->net_lan;
    n->more_count = s->more_net_count;
    (void)memcpy(n->more, s->more_nets, sizeof(n->more));
    n->mode = s->network;
    s->net_name = was.name;
    s->net_aliases = was.aliases;
    s->net_links = was.links;
    s->net_lan = was.lan;
    s->more_net_count = was.more_count;
    (void)memcpy(s->more_nets, was.more, sizeof(s->more_nets));
    s->network = was.mode;
    (void)label_swap(s, &n->label);
}

/* Replaces a label; n keeps its former value. */
static int spec_nets_set_label(struct spec *s, struct spec_nets *n, const char *label,
                               struct err *err)
{
    n->label = strdup(label);
    if (n->label == NULL)
        return err_errno(err, -ENOMEM, "network");
    if (label_swap(s, &n->label))
        return 0;
    free(take(n->label));
    return err_set(err, -EINVAL, "network: the sandbox has no label %.*s", (int)strcspn(label, "="),
                   label);
}

/* On failure the spec is partly changed; spec_nets_swap with the copy undoes that. */
static int spec_change(struct sandbox *s, const struct network_change_params *p,
                       const struct caller *who, struct spec_nets *was, struct err *err)
{
    int r = p->drop != NULL ? spec_drop_net(s->spec, p->drop, err) : 0;

    if (r == 0 && p->add != NULL)
        r = spec_add_net(s->spec, p->add, p->aliases, err);
    if (r == 0 && p->add != NULL && p->address != NULL)
        r = spec_set_net_address(s->spec, p->add, p->address, err);
    for (size_t i = 0; r == 0 && spec_net(s->spec, i, NULL) != NULL; i++) {
        auto_free char *names = NULL;

        r = sandbox_net_names(s->id, s->spec, i, &names, err); /* too long for the launcher? */
    }
    for (const char *const *l = p->links; r == 0 && l != NULL && *l != NULL; l++)
        r = spec_add_net_link(s->spec, *l, err);
    if (s->spec->net_name == NULL) { /* links are between members of networks */
        free(s->spec->net_links);
        s->spec->net_links = NULL;
    }
    if (r == 0 && p->mode != NET_INVALID)
        s->spec->network = p->mode;
    if (r == 0)
        r = networks_check_spec(s->sup, s->spec, who, err);
    if (r == 0 && p->label != NULL)
        r = spec_nets_set_label(s->spec, was, p->label, err);
    return r;
}

/* ---- the change ---- */

static bool sandbox_has_link(const struct sandbox *s)
{
    return s->channel != NULL && s->init != INIT_ENDING && s->net.place.sandbox4.family != 0;
}

static void network_emit(struct sandbox *s, const char *type, const char *network)
{
    char detail[SPEC_NETWORK_MAX + 32];

    if (network == NULL || network[0] == '\0')
        return;
    (void)snprintf(detail, sizeof(detail), "{\"network\":\"%s\"}", network);
    sandbox_emit(s, type, detail);
}

static void networks_emit(struct sandbox *s, const char *type)
{
    const char *name;

    for (size_t i = 0; (name = spec_net(s->spec, i, NULL)) != NULL; i++)
        network_emit(s, type, name);
}

void networks_main_runs(struct sandbox *s, struct exec *main, bool adopted)
{
    (void)main;
    if (!adopted)
        networks_emit(s, "network_connect");
}

void networks_main_ended(struct sandbox *s)
{
    networks_emit(s, "network_disconnect");
}

static void change_answer(struct network_change *c, int r, const struct err *err)
{
    struct sandbox *s = c->s;

    s->parts.net_change = NULL;
    c->cb(c->data, r, err);
    spec_nets_done(&c->was);
    sandbox_unref(s);
    free(c);
}

static void on_change_names(void *data)
{
    struct err err = ERR_NONE;

    change_answer(data, 0, &err);
}

static void change_end(struct network_change *c, int r, const struct err *err)
{
    struct sandbox *s = c->s;
    struct err own = err != NULL ? *err : (struct err)ERR_NONE, why = ERR_NONE;

    if (r == 0) {
        /* One that does not run tells of its networks with its start. */
        if (s->run.main != NULL) {
            network_emit(s, "network_disconnect", c->drop);
            network_emit(s, "network_connect", c->add);
        }
        if (!names_follow(s, on_change_names, c))
            change_answer(c, 0, &own);
        return;
    }
    spec_nets_swap(s->spec, &c->was);
    if (store_save_spec(s->sup->store, s->id, s->spec, &why) < 0)
        log_error("network", "id=%s: %s; its next start is in the other networks", s->id, why.msg);
    change_answer(c, r, &own);
}

static void on_change_reply(void *data, int r, const struct launch_reply *reply, int *fds,
                            const struct err *err)
{
    struct network_change *c = data;

    (void)fds;
    if (r == 0 && sandbox_has_link(c->s))
        c->s->net.place = reply->net;
    if (r < 0 && !sandbox_has_link(c->s))
        r = 0; /* it has ended meanwhile: its next start counts by the spec */
    change_end(c, r, err);
}

static int change_send(struct network_change *c, struct err *err)
{
    const struct ready_policy *policy = policies_find(c->s->sup->policies, c->s->spec->policy);
    auto_buf struct buf b = BUF_INIT(0);
    int r;

    if (policy == NULL)
        return err_set(err, -ENOENT, "network: no policy '%s'", c->s->spec->policy);
    r = networks_ask_subnets(c->s, err);
    if (r == 0)
        r = sandbox_networks_request(&b, c->s->id, c->s->spec, policy->policy, err);
    networks_drop_subnets(c->s->spec);
    return r < 0 ? r : launcher_client_send(c->s->sup->launcher, &b, on_change_reply, c, err);
}

static int change_check(const struct sandbox *s, struct err *err)
{
    if (s->spec->net_container != NULL)
        return err_set(err, -EINVAL,
                       "network: sandbox %s is in the network of another, and has that one's",
                       sandbox_name(s));
    if (s->parts.net_change != NULL)
        return err_set(err, -EBUSY, "network: the networks of sandbox %s are being changed",
                       sandbox_name(s));
    if (init_phase_is_busy(s->init) || s->state == SANDBOX_STARTING || s->state == SANDBOX_REMOVING)
        return err_set(err, -EBUSY, "network: sandbox %s is being started or ended",
                       sandbox_name(s));
    if (s->channel != NULL && s->state != SANDBOX_STOPPED && !sandbox_has_link(s))
        return err_set(err, -EBUSY,
                       "network: sandbox %s was started without any network: stop it first",
                       sandbox_name(s));
    return 0;
}

int network_change_sandbox(struct sandbox *s, const struct network_change_params *params,
                           const struct caller *who, network_change_cb *cb, void *data,
                           struct err *err)
{
    struct network_change *c;
    int r = change_check(s, err);

    if (r < 0)
        return r;
    c = calloc(1, sizeof(*c));
    if (c == NULL)
        return err_errno(err, -ENOMEM, "network");
    *c = (struct network_change){.s = s, .cb = cb, .data = data};
    if (params->add != NULL)
        (void)snprintf(c->add, sizeof(c->add), "%s", params->add);
    if (params->drop != NULL)
        (void)snprintf(c->drop, sizeof(c->drop), "%s", params->drop);
    r = spec_nets_copy(&c->was, s->spec);
    if (r < 0) {
        spec_nets_done(&c->was);
        free(c);
        return err_errno(err, r, "network");
    }
    r = spec_change(s, params, who, &c->was, err);
    if (r == 0)
        r = store_save_spec(s->sup->store, s->id, s->spec, err);
    if (r < 0) {
        spec_nets_swap(s->spec, &c->was);
        spec_nets_done(&c->was);
        free(c);
        return r;
    }
    sandbox_ref(s);
    s->parts.net_change = c;
    if (!sandbox_has_link(s)) {
        change_end(c, 0, NULL);
        return 0;
    }
    r = change_send(c, err);
    if (r < 0) {
        struct err own = *err;

        change_end(c, r, &own);
    }
    return 0;
}

/* ---- a reattach ---- */

static void on_networks_reopened(void *data, int r, const struct launch_reply *reply, int *fds,
                                 const struct err *err)
{
    struct sandbox *s = data;

    (void)fds;
    if (r == 0 && sandbox_has_link(s))
        s->net.place = reply->net;
    if (r < 0 && r != -ECANCELED && sandbox_has_link(s))
        log_warn("network", "id=%s may be in other networks than its spec says: %s", s->id,
                 err != NULL ? err->msg : strerror(-r));
    sandbox_unref(s);
}

int networks_reopen(struct sandbox *s, struct err *err)
{
    auto_buf struct buf b = BUF_INIT(0);
    int r;

    if (!sandbox_has_link(s) || s->spec->net_container != NULL)
        return 1;
    r = networks_ask_subnets(s, err);
    /* Without a policy: its default may be another one now, which counts from the next start on. */
    if (r == 0)
        r = sandbox_networks_request(&b, s->id, s->spec, NULL, err);
    networks_drop_subnets(s->spec);
    if (r == 0)
        r = launcher_client_send_due(s->sup->launcher, &b, on_networks_reopened, s, err);
    if (r == 0)
        sandbox_ref(s);
    else
        log_warn("network", "id=%s may be in other networks than its spec says: %s", s->id,
                 err->msg);
    return 1;
}
