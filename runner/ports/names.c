#include "ports/names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "gateway/dns-message.h"
#include "gateway/dns.h"
#include "gateway/listener.h"
#include "launch/request.h"
#include "ports/gateway.h"
#include "ports/networks.h"
#include "sandbox/launcher-client.h"
#include "sandbox/rights.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/sandbox-request.h"
#include "sandbox/shared.h"
#include "spec/spec.h"

enum {
    ASKING_MAX = 64, /* sockets that one sandbox has the launcher make at a time */
    RETRY_MS = 20,
    WAIT_MS = 2000, /* for the sockets of an earlier supervisor to close */
    TROUBLE_MS = 60000,
};

struct name_server {
    struct sandbox *s;
    struct dns *dns;          /* owned; NULL while it is being opened */
    struct listener *tcp;     /* owned */
    bool starts;              /* a step of the start waits for it */
    void (*done)(void *data); /* a change of networks waits for it; or NULL */
    void *done_data;
    bool asking, closing;
    unsigned sockets; /* being made by the launcher */
    int64_t until;    /* CLOCK_MONOTONIC ms: -EADDRINUSE is retried until then */
    int64_t told;     /* likewise: the last trouble that was logged */
    struct deadline again;
};

/* ---- members ---- */

static bool sandbox_is_member(const struct sandbox *p)
{
    return p->spec != NULL && p->spec->net_name != NULL && p->channel != NULL &&
           p->net.place.sandbox4.family != 0 &&
           (p->state == SANDBOX_STARTING || p->state == SANDBOX_RUNNING ||
            p->state == SANDBOX_PAUSED || p->state == SANDBOX_STOPPING);
}

/* These have another meaning in the hosts file. */
static bool is_taken_name(const char *name)
{
    static const char below[] = ".localhost";
    const size_t len = strlen(name);

    return strcmp(name, "localhost") == 0 || strcmp(name, "host.rind.internal") == 0 ||
           (len >= sizeof(below) - 1 && strcmp(name + len - (sizeof(below) - 1), below) == 0);
}

static bool list_has_name(const char *list, const char *name, size_t len)
{
    for (const char *p = list; *p != '\0';) {
        const size_t n = strcspn(p, " ");

        if (n == len && strncasecmp(p, name, n) == 0)
            return true;
        p += n + (p[n] == ' ');
    }
    return false;
}

/* The length of the name without ".NETWORK" behind it, or without anything. */
static size_t name_length(const char *name, const char *network)
{
    const size_t len = strlen(name), tail = strlen(network);

    return len > tail + 1 && name[len - tail - 1] == '.' &&
                   strcasecmp(name + len - tail, network) == 0
               ? len - tail - 1
               : len;
}

static bool shares_network(const struct sandbox *s, const struct sandbox *p)
{
    const char *network;

    for (size_t i = 0; (network = spec_net(p->spec, i, NULL)) != NULL; i++)
        if (spec_has_net(s->spec, network))
            return true;
    return false;
}

/* True if the member p has this name in one of the networks of s. */
static bool member_has_name(const struct sandbox *s, const struct sandbox *p, const char *name)
{
    const char *network;

    for (size_t i = 0; (network = spec_net(p->spec, i, NULL)) != NULL; i++) {
        auto_free char *names = NULL;
        const size_t lengths[] = {strlen(name), name_length(name, network)};

        if (!spec_has_net(s->spec, network) ||
            sandbox_net_names(p->id, p->spec, i, &names, NULL) < 0)
            continue;
        for (size_t k = 0; k < 2; k++)
            if (list_has_name(sandbox_hostname(p), name, lengths[k]) ||
                (names != NULL && list_has_name(names, name, lengths[k])))
                return true;
    }
    return false;
}

static bool names_by_name(struct sandbox *s, const char *name, struct dns_local *ret)
{
    bool found = false;

    for (const struct sandbox *p = s->sup->sandboxes; p != NULL; p = p->all.next) {
        if (!sandbox_is_member(p) || !member_has_name(s, p, name))
            continue;
        found = true;
        if (ret->count < DNS_LOCAL_MAX)
            ret->addresses[ret->count++] = networks_address(p, s);
    }
    return found;
}

static bool member_has_address(const struct sandbox *p, const struct sandbox *reader,
                               const struct net_addr *a)
{
    const struct net_addr known = networks_address(p, reader);

    return memcmp(known.bytes, a->bytes, 4) == 0 ||
           memcmp(p->net.place.sandbox4.bytes, a->bytes, 4) == 0;
}

/* The first name in a network of both is the member's own name, where that can be one. */
static bool names_by_address(const struct sandbox *s, const struct net_addr *a,
                             struct dns_local *ret)
{
    const char *network;

    for (const struct sandbox *p = s->sup->sandboxes; p != NULL; p = p->all.next) {
        if (!sandbox_is_member(p) || !member_has_address(p, s, a))
            continue;
        for (size_t i = 0; (network = spec_net(p->spec, i, NULL)) != NULL; i++) {
            auto_free char *names = NULL;

            if (!spec_has_net(s->spec, network) ||
                sandbox_net_names(p->id, p->spec, i, &names, NULL) < 0)
                continue;
            (void)snprintf(ret->name, sizeof(ret->name), "%.*s",
                           names != NULL ? (int)strcspn(names, " ") : SPEC_HOST_NAME_MAX,
                           names != NULL ? names : sandbox_hostname(p));
            return ret->name[0] != '\0';
        }
    }
    return false;
}

/* Lines of its own hosts file, for programs that do not read it. */
static bool names_of_hosts(const struct sandbox *s, const char *name, struct dns_local *ret)
{
    for (size_t i = 0; i < s->spec->host_count; i++) {
        const struct extra_host *h = &s->spec->hosts[i];

        if (strcasecmp(h->name, name) == 0 && ret->count < DNS_LOCAL_MAX)
            ret->addresses[ret->count++] = h->addr.family != 0 ? h->addr : s->net.place.gateway4;
    }
    if (strcmp(name, "host.rind.internal") == 0 && s->spec->access.port_count > 0)
        ret->addresses[ret->count++] = s->net.place.gateway4;
    return ret->count > 0;
}

/* A link's other name for a member, which the sandbox has to share a network with. */
static bool names_of_links(struct sandbox *s, const char *name, struct dns_local *ret)
{
    const char *links = s->spec->net_links != NULL ? s->spec->net_links : "";

    for (const char *p = links; *p != '\0' && ret->count == 0;) {
        const size_t n = strcspn(p, " "), key = strcspn(p, ":");
        char target[SPEC_NAME_MAX + 1];

        (void)snprintf(target, sizeof(target), "%.*s", (int)key, p);
        if (key + 1 + strlen(name) == n && strncasecmp(p + key + 1, name, strlen(name)) == 0) {
            const struct sandbox *other = sandbox_find_beside(s, target);

            if (other != NULL && sandbox_is_member(other) && shares_network(s, other))
                ret->addresses[ret->count++] = networks_address(other, s);
        }
        p += n + (p[n] == ' ');
    }
    return ret->count > 0;
}

/* Programs that share a network ask through its owner's sockets. */
bool names_local(struct sandbox *s, const struct dns_question *q, struct dns_local *ret)
{
    struct net_addr a;

    if (s->spec->net_name == NULL)
        return false;
    if (names_of_hosts(s, q->name, ret))
        return true;
    if (is_taken_name(q->name))
        return false;
    if (names_of_links(s, q->name, ret))
        return true;
    if (q->type == DNS_TYPE_PTR)
        return dns_question_address4(q, &a) && names_by_address(s, &a, ret);
    return names_by_name(s, q->name, ret);
}

/* ---- other names ---- */

/* A socket that was asked for. */
struct names_socket {
    struct sandbox *s; /* a reference */
    dns_socket_fn *cb; /* NULL = cancelled */
    void *who;
};

static void on_names_socket(void *data, int r, const struct launch_reply *reply, int *fds,
                            const struct err *err)
{
    struct names_socket *o = data;

    (void)reply;
    if (r == 0 && fds[0] < 0)
        r = -EPROTO;
    if (o->s->parts.names != NULL && o->s->parts.names->sockets > 0)
        o->s->parts.names->sockets--;
    if (o->cb != NULL)
        o->cb(o->who, r, r == 0 ? take_fd(&fds[0]) : FD_NONE, err);
    sandbox_unref(o->s);
    free(o);
}

static int names_server(void *data, unsigned index, bool udp, dns_socket_fn *cb, void *who,
                        void **ret_handle, struct err *err)
{
    struct name_server *n = data;
    auto_buf struct buf b = BUF_INIT(0);
    struct names_socket *o;
    int r;

    if (index >= NET_DNS_MAX)
        return err_set(err, -ENOENT, "names: no name server %u", index);
    if (n->sockets >= ASKING_MAX)
        return err_set(err, -EAGAIN, "names: %d sockets are being made", ASKING_MAX);
    launch_begin(&b, LAUNCH_ASK);
    launch_put_string(&b, TAG_ID, n->s->id);
    launch_put_number(&b, TAG_INDEX, index);
    if (udp)
        launch_put_number(&b, TAG_UDP, 1);
    r = launch_end(&b);
    o = r == 0 ? calloc(1, sizeof(*o)) : NULL;
    if (o == NULL)
        return err_errno(err, -ENOMEM, "names");
    *o = (struct names_socket){.s = n->s, .cb = cb, .who = who};
    r = launcher_client_send(n->s->sup->launcher, &b, on_names_socket, o, err);
    if (r < 0) {
        free(o);
        return r;
    }
    sandbox_ref(n->s);
    n->sockets++;
    *ret_handle = o;
    return 0;
}

static void names_cancel(void *handle)
{
    struct names_socket *o = handle;

    o->cb = NULL; /* on_names_socket frees it */
}

static enum egress_answer names_policy(void *data, const char *name)
{
    (void)data;
    (void)name;
    return EGRESS_ANSWER_ASK;
}

static bool names_stand_in(void *data, const char *name, int family, struct net_addr *ret)
{
    (void)data;
    (void)name;
    (void)family;
    (void)ret;
    return false;
}

static void names_learned(void *data, const char *name, const struct net_addr *a, uint32_t ttl)
{
    (void)data;
    (void)name;
    (void)a;
    (void)ttl;
}

static void names_trouble(void *data, const char *what)
{
    struct name_server *n = data;
    const int64_t now = clock_mono_ms();

    if (n->told != 0 && now - n->told < TROUBLE_MS)
        return;
    n->told = now;
    log_warn("names", "id=%s too many %s (said once a minute)", n->s->id, what);
}

static bool names_ops_local(void *data, const struct dns_question *q, struct dns_local *ret)
{
    struct name_server *n = data;

    return names_local(n->s, q, ret);
}

static const struct dns_ops names_ops = {.local = names_ops_local,
                                         .plain = true,
                                         .policy = names_policy,
                                         .stand_in = names_stand_in,
                                         .server = names_server,
                                         .cancel = names_cancel,
                                         .learned = names_learned,
                                         .trouble = names_trouble};

/* ---- opening ---- */

static void names_free(struct name_server *n)
{
    struct sandbox *s = n->s;

    s->parts.names = NULL;
    deadline_clear(&n->again);
    listener_close(n->tcp);
    dns_close(n->dns);
    free(n);
}

static void on_names_client(void *data, int fd, const struct sockaddr *peer)
{
    struct name_server *n = data;

    (void)peer;
    dns_adopt(n->dns, fd);
}

static int names_listen(struct name_server *n, int *tcp, int *udp, struct err *err)
{
    struct evloop *loop = gateway_evloop(n->s->sup->gateway);
    int r = dns_new(loop, &names_ops, n, n->s->sup->limits.egress_queries, &n->dns, err);

    if (r == 0)
        r = dns_serve(n->dns, *udp, err);
    if (r == 0)
        *udp = FD_NONE;
    if (r == 0)
        r = listener_new(loop, *tcp, on_names_client, n, &n->tcp, err);
    if (r == 0)
        *tcp = FD_NONE;
    return r;
}

/* The end of opening. A reference of the sandbox is dropped. */
static void names_opened(struct name_server *n, int r, const struct err *err)
{
    void (*done)(void *data) = n->done;
    void *done_data = n->done_data;
    const bool starts = n->starts;
    struct sandbox *s = n->s;
    struct err own = ERR_NONE;

    if (n->closing)
        r = err_set(&own, -ECANCELED, "sandbox %s is ended", sandbox_name(s));
    else if (r < 0 && err != NULL)
        own = *err;
    n->starts = false;
    n->done = NULL;
    if (r < 0)
        names_free(n);
    if (starts)
        sandbox_part_done(s, r, &own);
    else if (r < 0 && r != -ECANCELED)
        log_error("names", "id=%s has no name server: %s", s->id, own.msg);
    if (done != NULL)
        done(done_data);
    sandbox_unref(s);
}

static void names_ask(struct name_server *n);

static void on_names_again(struct deadline *d)
{
    names_ask((struct name_server *)(void *)((char *)d - offsetof(struct name_server, again)));
}

static void on_names_reply(void *data, int r, const struct launch_reply *reply, int *fds,
                           const struct err *err)
{
    struct name_server *n = data;
    struct err own = ERR_NONE;

    (void)reply;
    n->asking = false;
    if (r == -EADDRINUSE && !n->closing && clock_mono_ms() < n->until) {
        deadline_set(gateway_evloop(n->s->sup->gateway), &n->again, RETRY_MS, on_names_again);
        return;
    }
    if (r == 0 && !n->closing) {
        r = fds[0] < 0 || fds[1] < 0 ? err_set(&own, -EPROTO, "names: no sockets came")
                                     : names_listen(n, &fds[0], &fds[1], &own);
        err = &own;
    }
    names_opened(n, r, err);
}

static void names_ask(struct name_server *n)
{
    auto_buf struct buf b = BUF_INIT(0);
    struct err err = ERR_NONE;
    int r;

    launch_begin(&b, LAUNCH_NAMES);
    launch_put_string(&b, TAG_ID, n->s->id);
    r = launch_end(&b);
    if (r == 0)
        r = launcher_client_send_due(n->s->sup->launcher, &b, on_names_reply, n, &err);
    n->asking = r == 0;
    if (r < 0)
        names_opened(n, r, &err);
}

static bool names_wanted(const struct sandbox *s)
{
    return s->spec->net_name != NULL && s->spec->net_container == NULL &&
           s->net.place.sandbox4.family != 0 && s->parts.names == NULL;
}

static int names_open(struct sandbox *s, bool starts, unsigned wait_ms, struct err *err)
{
    struct name_server *n = calloc(1, sizeof(*n));
    auto_buf struct buf b = BUF_INIT(0);
    int r;

    if (n == NULL)
        return err_errno(err, -ENOMEM, "names");
    *n = (struct name_server){.s = s, .starts = starts, .until = clock_mono_ms() + wait_ms};
    launch_begin(&b, LAUNCH_NAMES);
    launch_put_string(&b, TAG_ID, s->id);
    r = launch_end(&b);
    if (r == 0)
        r = launcher_client_send_due(s->sup->launcher, &b, on_names_reply, n, err);
    if (r < 0) {
        free(n);
        return r;
    }
    n->asking = true;
    s->parts.names = n;
    sandbox_ref(s);
    return 0;
}

int names_start(struct sandbox *s, struct err *err)
{
    return names_wanted(s) ? names_open(s, true, 0, err) : 1;
}

/* The sandbox does not wait for it: without it names are not answered, but its processes may run.
 */
int names_reopen(struct sandbox *s, struct err *err)
{
    int r = names_wanted(s) ? names_open(s, false, WAIT_MS, err) : 0;

    if (r < 0)
        log_error("names", "id=%s has no name server: %s", s->id, err->msg);
    return 1;
}

bool names_follow(struct sandbox *s, void (*done)(void *data), void *data)
{
    struct err err = ERR_NONE;

    if (s->channel != NULL && s->spec->net_name != NULL)
        (void)names_reopen(s, &err);
    else if (s->spec->net_name == NULL)
        names_close(s);
    if (s->parts.names == NULL || s->parts.names->dns != NULL || s->parts.names->closing)
        return false;
    s->parts.names->done = done;
    s->parts.names->done_data = data;
    return true;
}

void names_close(struct sandbox *s)
{
    struct name_server *n = s->parts.names;

    if (n == NULL)
        return;
    if (n->dns != NULL && !n->asking) {
        names_free(n);
        return;
    }
    n->closing = true;
    if (n->asking)
        return; /* on_names_reply goes on */
    names_opened(n, -ECANCELED, NULL);
}
