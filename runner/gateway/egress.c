#include "gateway/egress.h"

#include <errno.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/hash.h"
#include "gateway/egress-internal.h"
#include "gateway/listener.h"

enum { STAND_NET = 19 /* 198.19.0.0/16: reserved for tests (RFC 2544), used by no network */ };

static uint64_t now_of(const struct egress_ctx *b)
{
    return uv_now(evloop_uv(b->hub->evloop));
}

/* ---- telling ---- */

void egress_trouble(struct egress_ctx *b, const char *what, const char *why)
{
    struct said *oldest = &b->said[0];
    uint64_t now = now_of(b);

    for (size_t i = 0; i < TROUBLE_MAX; i++) {
        struct said *s = &b->said[i];

        if (s->what != NULL && strcmp(s->what, what) == 0) {
            if (now - s->at < EGRESS_SAID_MS)
                return;
            oldest = s;
            break;
        }
        if (s->what == NULL || (oldest->what != NULL && s->at < oldest->at))
            oldest = s;
    }
    oldest->what = what;
    oldest->at = now;
    b->hub->ops->trouble(b->data, what, why);
}

void egress_tell(struct egress_ctx *b, struct egress_event *e)
{
    uint64_t now = now_of(b);

    if (now - b->told_since >= 1000) {
        b->told_since = now;
        b->told = 0;
    }
    if (b->told >= EGRESS_EVENTS) {
        b->left_out++;
        return;
    }
    b->told++;
    e->left_out = b->left_out;
    b->left_out = 0;
    b->hub->ops->event(b->data, e);
}

const char *egress_verdict(enum egress_action action)
{
    return action == EGRESS_ALLOW ? "allow" : action == EGRESS_HANDLE ? "handler" : "deny";
}

enum egress_action egress_failed_as(enum egress_action action, int r)
{
    return action == EGRESS_ALLOW && r == -EACCES ? EGRESS_DENY : action;
}

struct net_addr egress_addr(const struct address *a)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    struct net_addr n = {.family = (uint8_t)a->family};

    (void)memcpy(n.bytes, a->bytes, a->family == 4 ? 4 : 16);
    /* The kernel connects ::ffff:10.0.0.1 to 10.0.0.1. */
    if (a->family == 6 && memcmp(a->bytes, mapped, sizeof(mapped)) == 0) {
        n = (struct net_addr){.family = 4};
        (void)memcpy(n.bytes, a->bytes + sizeof(mapped), 4);
    }
    return n;
}

/* ---- limits ---- */

void egress_count(struct egress_ctx *b, int more)
{
    b->count += (unsigned)more;
    b->hub->count += (unsigned)more;
}

bool egress_is_full(const struct egress_ctx *b)
{
    return b->count >= b->hub->limits.connections ||
           (b->hub->count >= EGRESS_CONNECTIONS_ALL && b->count >= EGRESS_CONNECTIONS_SHARE);
}

/* ---- decisions ---- */

struct by_names {
    const struct egress_rules *rules;
    const struct egress_rule *best;
    enum egress_kind kind;
    uint16_t port;
};

static void match_name(void *data, const char *name)
{
    struct by_names *n = data;

    n->best = egress_first(n->best, egress_match(n->rules, n->kind, name, NULL, n->port));
}

/* A connection that shows no name is matched by the names that its address was given out for. */
static const struct egress_rule *match_rule(struct egress_ctx *b, enum egress_kind kind,
                                            const char *name, const struct net_addr *a,
                                            uint16_t port)
{
    struct by_names by = {.rules = b->rules, .kind = kind, .port = port};

    by.best = egress_match(b->rules, kind, name, a, port);
    if (name == NULL && a->family != 0)
        names_each(b->names, a, now_of(b), match_name, &by);
    return by.best;
}

struct decision egress_decide(struct egress_ctx *b, enum egress_kind kind, const char *name,
                              const struct address *to, bool open)
{
    const struct net_addr a = egress_addr(to);
    struct decision d = {.action = b->rules->open ? EGRESS_ALLOW : EGRESS_DENY};

    d.rule = match_rule(b, kind, name, &a, to->port);
    if (d.rule == NULL && kind != EGRESS_TCP)
        d.rule = match_rule(b, EGRESS_TCP, name, &a, to->port);
    if (d.rule == NULL) {
        d.reason = d.action == EGRESS_DENY ? "no rule allows it" : NULL;
        return d;
    }
    d.action = d.rule->action;
    d.handler = d.rule->handler;
    /* The client chooses the name that it shows. If it could also choose the address, an allowed
     * name would open any server. */
    if (d.action == EGRESS_ALLOW && d.rule->by_name && !d.rule->any && name != NULL && !open &&
        !b->rules->open && !names_has(b->names, name, &a, now_of(b))) {
        d.action = EGRESS_DENY;
        d.reason = "the address is none of that name's";
    }
    return d;
}

/* ---- names ---- */

static enum egress_answer dns_policy(void *data, const char *name)
{
    struct egress_ctx *b = data;
    enum egress_answer answer;

    if (!b->is_sidecar)
        return egress_answer(b->rules, name);
    answer = b->sidecar.dns ? egress_answer(b->rules, name) : EGRESS_ANSWER_ASK;
    if (b->sidecar.internet)
        return answer == EGRESS_ANSWER_STAND ? answer : EGRESS_ANSWER_ASK;
    return answer == EGRESS_ANSWER_STAND ? EGRESS_ANSWER_OWN : EGRESS_ANSWER_NO;
}

/* The stand-in address is a hash of the name, so nothing has to be stored. Two names may share
 * one; the name that the connection shows tells them apart. */
static bool dns_stand_in(void *data, const char *name, int family, struct net_addr *ret)
{
    static const struct net_addr sidecar4 = {.family = 4, .bytes = {11, 0, 0, 1}};
    static const struct net_addr sidecar6 = {.family = 6, .bytes = {0xfd, [15] = 1}};
    const struct egress_ctx *b = data;
    uint32_t h;

    if (b->is_sidecar) {
        *ret = family == 4 ? sidecar4 : sidecar6;
        return true;
    }
    if (family != 4)
        return false; /* the sandbox may have no IPv6 route, and clients would wait for a
                       * time-out */
    h = hash_bytes(HASH_BEGIN, name, strlen(name));
    h ^= h >> 16;
    *ret = (struct net_addr){
        .family = 4, .bytes = {198, STAND_NET, (uint8_t)(h >> 8), (uint8_t)((h & 0xff) | 1)}};
    return true;
}

static int dns_server(void *data, unsigned index, bool udp, dns_socket_fn *cb, void *who,
                      void **ret_handle, struct err *err)
{
    struct egress_ctx *b = data;
    const struct egress_want want = {.kind = EGRESS_RESOLVER, .index = index, .udp = udp};

    return b->hub->ops->open(b->data, &want, cb, who, ret_handle, err);
}

static bool dns_local(void *data, const struct dns_question *q, struct dns_local *ret)
{
    const struct egress_ctx *b = data;

    return b->hub->ops->local != NULL && b->hub->ops->local(b->data, q, ret);
}

static void dns_learned(void *data, const char *name, const struct net_addr *a, uint32_t ttl)
{
    struct egress_ctx *b = data;
    uint64_t now = now_of(b), most = DNS_TTL_MOST_S;

    names_add(b->names, name, a, now,
              now + (ttl < most ? ttl : most) * UINT64_C(1000) + EGRESS_NAME_MS);
}

static void dns_trouble(void *data, const char *what)
{
    egress_trouble(data, what, NULL);
}

/* ---- per-sandbox contexts ---- */

static void on_listener_client(void *data, int fd, const struct sockaddr *peer)
{
    (void)peer;
    egress_accept(data, fd);
}

int egress_ctx_listen(struct egress_ctx *b, int tcp, int udp, struct err *err)
{
    int r = b->listener_count < 2 ? dns_serve(b->dns, udp, err)
                                  : err_set(err, -E2BIG, "egress: a third family");

    if (r < 0)
        (void)close(udp);
    else
        r = listener_new(b->hub->evloop, tcp, on_listener_client, b,
                         &b->listeners[b->listener_count], err);
    if (r < 0)
        (void)close(tcp);
    else
        b->listener_count++;
    return r;
}

void egress_ctx_place(struct egress_ctx *b, const struct net_addr *gateway,
                      const struct net_addr *own)
{
    b->gateway = *gateway;
    net_addr_format(own, b->own);
}

void egress_ctx_rules(struct egress_ctx *b, struct egress_rules *rules)
{
    struct egress_rules *old = b->rules;

    b->rules = rules;
    b->generation++;
    egress_conns_review(b);
    egress_https_review(b);
    egress_free(old);
}

void egress_ctx_sidecar(struct egress_ctx *b, const struct egress_sidecar *s,
                        struct egress_rules *names)
{
    b->is_sidecar = true;
    b->sidecar = *s;
    if (names == NULL)
        return;
    egress_free(b->rules);
    b->rules = names;
}

void egress_ctx_trouble(struct egress_ctx *b, const char *what)
{
    egress_trouble(b, what, NULL);
}

static struct dns_ops dns_ops_of(const struct egress_hub *h)
{
    return (struct dns_ops){.local = dns_local,
                            .policy = dns_policy,
                            .stand_in = dns_stand_in,
                            .server = dns_server,
                            .cancel = h->ops->cancel,
                            .learned = dns_learned,
                            .trouble = dns_trouble};
}

int egress_ctx_new(struct egress_hub *h, const char *id, struct egress_rules *rules, void *data,
                   struct egress_ctx **ret, struct err *err)
{
    static struct dns_ops dns_ops; /* equal for all sandboxes */
    struct egress_ctx *b = calloc(1, sizeof(*b));
    int r;

    if (b == NULL)
        return err_errno(err, -ENOMEM, "egress");
    dns_ops = dns_ops_of(h);
    b->hub = h;
    b->data = data;
    (void)snprintf(b->id, sizeof(b->id), "%s", id);
    (void)strcpy(b->own, "127.0.0.1");
    b->names = names_new();
    r = b->names == NULL
            ? err_errno(err, -ENOMEM, "egress")
            : dns_new(h->evloop, &dns_ops, b, h->limits.queries_per_second, &b->dns, err);
    if (r < 0) {
        egress_ctx_close(b);
        return r;
    }
    b->rules = rules;
    *ret = b;
    return 0;
}

void egress_ctx_close(struct egress_ctx *b)
{
    if (b == NULL)
        return;
    for (unsigned i = 0; i < b->listener_count; i++)
        listener_close(b->listeners[i]);
    egress_conns_close(b);
    egress_https_close(b);
    egress_tunnels_close(b);
    dns_close(b->dns);
    names_free(b->names);
    egress_free(b->rules);
    free(b);
}

/* ---- the hub ---- */

int egress_hub_new(struct evloop *evloop, struct relay_hub *relays, struct ca *ca,
                   const struct proxy_config *proxy, const struct egress_limits *limits,
                   const struct egress_ops *ops, struct egress_hub **ret, struct err *err)
{
    struct egress_hub *h = calloc(1, sizeof(*h));
    struct proxy_config config;
    int r;

    if (h == NULL)
        return err_errno(err, -ENOMEM, "egress");
    if (proxy != NULL)
        config = *proxy;
    else
        proxy_config_init(&config);
    config.outbound = true;
    *h = (struct egress_hub){.evloop = evloop,
                             .relays = relays,
                             .ca = ca,
                             .limits = *limits,
                             .idle_ms = config.stream_ms,
                             .ops = ops};
    h->probe = client_hello_context();
    r = h->probe == NULL ? err_errno(err, -ENOMEM, "egress")
                         : proxy_new(evloop, relays, &config, &egress_proxy_ops, h, &h->proxy, err);
    if (r < 0) {
        egress_hub_close(h);
        return r;
    }
    *ret = h;
    return 0;
}

void egress_hub_close(struct egress_hub *h)
{
    if (h == NULL)
        return;
    proxy_close(h->proxy);
    SSL_CTX_free(h->probe);
    free(h);
}
