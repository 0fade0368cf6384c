/* Owns one connection from inside from accept to its end: peeks at the first bytes until the
 * protocol is known, decides by the rules, dials, and joins both sockets by a relay.
 *
 * Runs in the supervisor's loop thread; called by egress.c. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/list.h"
#include "base/socket.h"
#include "gateway/connect.h"
#include "gateway/egress-internal.h"
#include "policy/egress-net.h"

enum {
    ORIGINAL_DST = 80, /* SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST; their headers conflict with
                        * netinet's */
    PEEKS_MAX = 64,    /* reads of first bytes that arrive in small pieces */
    DNS_PORT = 53,
    HTTP_PORT = 80,
    HTTPS_PORT = 443,
};

/* PEEK    the first bytes are examined
 * DIAL    the destination is known, the server is being connected
 * JOINED  a relay owns both sockets */
enum conn_phase { CONN_PEEK, CONN_DIAL, CONN_JOINED };

struct egress_conn {
    struct fd_watch watch; /* first */
    struct egress_ctx *ctx;
    struct egress_conn *next, **link;
    enum conn_phase phase;
    int fd; /* owned */
    struct address to;
    bool explicit_proxy; /* the client uses the gateway as HTTP proxy */
    bool tunnel;         /* its CONNECT was answered: the bytes are for the named host */
    bool heard;          /* a first byte has arrived */
    bool tls;            /* the first byte is that of a TLS record */
    bool end_tls;        /* after a handler's 200, TLS ends here */
    unsigned peeks;
    struct deadline clock;
    struct egress_dial *dial;
    struct relay *relay;
    /* Learnt from the first bytes, and the decision for it. */
    enum egress_kind kind;
    char name[EGRESS_NAME_MAX + 1];
    bool has_name, from_tls;
    enum egress_action action;
    char *handler; /* owned */
    char *rule;    /* owned; the rule's text */
};

void egress_reset(int fd)
{
    socket_reset_on_close(fd);
    (void)close(fd);
}

static void conn_free(struct egress_conn *c, bool reset)
{
    egress_dial_cancel(c->dial);
    watch_remove(&c->watch);
    deadline_clear(&c->clock);
    if (c->fd >= 0 && reset)
        egress_reset(c->fd);
    else if (c->fd >= 0)
        (void)close(c->fd);
    list_remove(c);
    egress_count(c->ctx, -1);
    free(c->handler);
    free(c->rule);
    free(c);
}

/* ---- telling ---- */

static void conn_report(struct egress_conn *c, enum egress_action action, const char *reason,
                        const uint64_t bytes[2])
{
    struct egress_event e = {.protocol = c->kind == EGRESS_HTTPS  ? "https"
                                         : c->kind == EGRESS_HTTP ? "http"
                                                                  : "tcp",
                             .host = c->has_name ? c->name : NULL,
                             .to = &c->to,
                             .verdict = egress_verdict(action),
                             .rule = c->rule,
                             .reason = reason,
                             .sent = bytes != NULL ? bytes[0] : 0,
                             .received = bytes != NULL ? bytes[1] : 0};

    egress_tell(c->ctx, &e);
}

static void conn_refuse(struct egress_conn *c, const char *reason)
{
    conn_report(c, EGRESS_DENY, reason, NULL);
    conn_free(c, true);
}

/* ---- joined ---- */

static void on_relay_end(void *data, const struct relay_result *result)
{
    static const char *const reasons[] = {[RELAY_FINISHED] = NULL,
                                          [RELAY_RESET] = NULL,
                                          [RELAY_IDLE] = "idle",
                                          [RELAY_CLOSED] = "the rules have changed, or it ended"};
    struct egress_conn *c = data;

    c->relay = NULL;
    conn_report(c, c->action, reasons[result->end], result->bytes);
    conn_free(c, true);
}

static void conn_join(struct egress_conn *c, int server)
{
    struct err err = ERR_NONE;
    int client;

    watch_remove(&c->watch);
    deadline_clear(&c->clock);
    client = take_fd(&c->fd);
    c->phase = CONN_JOINED;
    relay_tune(client);
    relay_tune(server);
    if (relay_start(c->ctx->hub->relays, client, server, relay_group(c->ctx->id), on_relay_end, c,
                    &c->relay, &err) == 0)
        return;
    egress_reset(client);
    (void)close(server);
    egress_trouble(c->ctx, "connections of the gateway", err.msg);
    conn_refuse(c, err.msg);
}

/* ---- dialling ---- */

static void conn_end_tls(struct egress_conn *c, int server)
{
    int client;

    watch_remove(&c->watch);
    client = take_fd(&c->fd);
    egress_tunnel(c->ctx, client, c->name, &c->to, server);
    conn_free(c, false);
}

void egress_dialled_to(int fd, struct address *to)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof(peer);

    if (getpeername(fd, (struct sockaddr *)(void *)&peer, &len) == 0)
        (void)address_from_socket((struct sockaddr *)(void *)&peer, to);
}

static void on_conn_dialled(void *who, int r, int fd, int status, const struct err *err)
{
    struct egress_conn *c = who;

    c->dial = NULL;
    if (r == 0 && c->handler == NULL)
        egress_dialled_to(fd, &c->to);
    if (r < 0) {
        if (c->action == EGRESS_HANDLE)
            egress_trouble(c->ctx, "a handler did not take a connection", err->msg);
        conn_report(c, egress_failed_as(c->action, r), err->msg, NULL);
        conn_free(c, true);
    } else if (c->end_tls && status == 200) {
        conn_end_tls(c, fd);
    } else if (c->ctx->is_sidecar || status == 0 || status == 200) {
        conn_join(c, fd);
    } else {
        (void)close(fd);
        conn_refuse(c, "the handler's answer is none");
    }
}

static void conn_dial(struct egress_conn *c, const char *resolve)
{
    const struct dial_request q = {.handler = c->handler,
                                   .resolve = resolve,
                                   .to = c->to,
                                   .kind = c->kind,
                                   .name = c->has_name && !c->from_tls ? c->name : NULL,
                                   .sni = c->has_name && c->from_tls ? c->name : NULL,
                                   .protocol = c->kind == EGRESS_HTTPS  ? "https"
                                               : c->kind == EGRESS_HTTP ? "http"
                                                                        : "tcp"};
    struct err err = ERR_NONE;

    c->phase = CONN_DIAL;
    deadline_clear(&c->clock);
    if (egress_dial(c->ctx, &q, on_conn_dialled, c, &c->dial, &err) < 0)
        conn_refuse(c, err.msg);
}

/* ---- deciding ---- */

bool egress_copy(char **to, const char *from)
{
    free(*to);
    *to = from != NULL ? strdup(from) : NULL;
    return from == NULL || *to != NULL;
}

static bool conn_take_decision(struct egress_conn *c, const struct decision *d)
{
    c->action = d->action;
    return egress_copy(&c->handler, d->action == EGRESS_HANDLE ? d->handler : NULL) &&
           egress_copy(&c->rule, d->rule != NULL ? d->rule->to : NULL);
}

/* The name comes from CONNECT and was not resolved inside. */
static bool conn_is_unresolved(const struct egress_conn *c)
{
    return c->explicit_proxy && c->has_name && !c->from_tls;
}

static void conn_decide(struct egress_conn *c)
{
    struct decision d =
        egress_decide(c->ctx, c->kind, c->has_name ? c->name : NULL, &c->to, conn_is_unresolved(c));

    if (!conn_take_decision(c, &d))
        conn_refuse(c, "out of memory");
    else if (d.action == EGRESS_DENY)
        conn_refuse(c, d.reason);
    else
        conn_dial(c, d.action == EGRESS_ALLOW && c->has_name ? c->name : NULL);
}

/* Hands the connection to the HTTP proxy, which decides per request. */
static void conn_give_to_proxy(struct egress_conn *c, const char *sni)
{
    struct err err = ERR_NONE;
    int r;

    watch_remove(&c->watch);
    deadline_clear(&c->clock);
    r = egress_http(c->ctx, c->fd, &c->to, sni, c->explicit_proxy && sni == NULL, &err);
    if (r < 0) {
        conn_refuse(c, err.msg);
        return;
    }
    c->fd = FD_NONE;
    conn_free(c, false);
}

/* For a TLS rule with a handler the proxy decrypts; for a TCP rule the handler gets the raw
 * bytes. */
static void conn_decide_tls(struct egress_conn *c)
{
    struct decision d = egress_decide(c->ctx, EGRESS_HTTPS, c->has_name ? c->name : NULL, &c->to,
                                      conn_is_unresolved(c));
    char address[ADDRESS_TEXT_MAX];

    if (d.action == EGRESS_HANDLE && (d.rule->protocols & EGRESS_HTTPS) != 0) {
        address_format_host(&c->to, address);
        conn_give_to_proxy(c, c->has_name ? c->name : address);
        return;
    }
    conn_decide(c);
}

static void conn_decide_sidecar(struct egress_conn *c)
{
    const struct decision d = {.action = EGRESS_HANDLE, .handler = c->ctx->sidecar.handler};

    c->end_tls = c->from_tls && c->has_name && c->ctx->sidecar.tls;
    if (!conn_take_decision(c, &d))
        conn_refuse(c, "out of memory");
    else
        conn_dial(c, NULL);
}

static void conn_decide_any(struct egress_conn *c)
{
    if (c->ctx->is_sidecar)
        conn_decide_sidecar(c);
    else if (c->kind == EGRESS_HTTPS)
        conn_decide_tls(c);
    else
        conn_decide(c);
}

/* ---- the explicit proxy ---- */

/* On ports of HTTP and TLS the client speaks first, so its bytes are awaited. On other ports a
 * client that sends nothing, or no complete line, is delayed for EGRESS_PEEK_MS only. */
static bool conn_is_strict(const struct egress_conn *c)
{
    return (c->explicit_proxy && !c->tunnel) || c->to.port == HTTP_PORT ||
           c->to.port == HTTPS_PORT ||
           (!c->ctx->is_sidecar && egress_is_web(c->ctx->rules, c->to.port));
}

static void on_conn_silent(struct deadline *d);

/* True if the rules allow at least one protocol to this destination. */
static bool conn_any_kind_allowed(struct egress_conn *c, const char **ret_reason)
{
    static const enum egress_kind kinds[] = {EGRESS_HTTP, EGRESS_HTTPS, EGRESS_TCP};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct decision d = egress_decide(c->ctx, kinds[i], c->has_name ? c->name : NULL, &c->to,
                                          conn_is_unresolved(c));

        if (d.action != EGRESS_DENY)
            return true;
        *ret_reason = d.reason;
    }
    return false;
}

/* Answers "CONNECT host:port" first, so that the client shows its protocol; then the bytes are
 * examined like those of a direct connection. So CONNECT bypasses neither the rules for HTTP and
 * HTTPS nor those for another name at the same address. */
static void conn_explicit_connect(struct egress_conn *c, const char *data, size_t len)
{
    static const char ok[] = "HTTP/1.1 200 Connection established\r\n\r\n";
    static char scratch[CONNECT_HEAD_MAX];
    struct connect_head head;
    const char *reason = NULL;
    struct err err = ERR_NONE;
    long n = connect_head(data, len, &head, &err);
    int r;

    if (n == 0)
        return;
    r = n < 0 ? -EBADMSG : connect_target(head.target, c->name, &c->to);
    if (r < 0 || recv(c->fd, scratch, (size_t)n, MSG_DONTWAIT) != n) {
        conn_refuse(c, "a CONNECT that names nothing");
        return;
    }
    c->has_name = c->name[0] != '\0';
    if (!conn_any_kind_allowed(c, &reason)) {
        static const char no[] = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n";

        (void)send(c->fd, no, sizeof(no) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        c->kind = c->to.port == HTTPS_PORT ? EGRESS_HTTPS : EGRESS_TCP;
        conn_report(c, EGRESS_DENY, reason, NULL);
        conn_free(c, false);
        return;
    }
    if (send(c->fd, ok, sizeof(ok) - 1, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)sizeof(ok) - 1) {
        conn_refuse(c, "the client does not read");
        return;
    }
    c->tunnel = true;
    c->heard = c->tls = false;
    c->peeks = 0;
    deadline_set(c->ctx->hub->evloop, &c->clock,
                 conn_is_strict(c) ? EGRESS_HELLO_MS : EGRESS_PEEK_MS, on_conn_silent);
    watch_again(&c->watch); /* its first bytes may have arrived already */
}

/* ---- first bytes ---- */

static void conn_look_tls(struct egress_conn *c, const uint8_t *data, size_t len)
{
    struct hello hello;
    int r = client_hello_read(c->ctx->hub->probe, data, len, &hello);

    if (r == 0 && ++c->peeks < PEEKS_MAX)
        return;
    if (r < 0 && data[0] == CLIENT_HELLO_FIRST && len > 1 && data[1] != CLIENT_HELLO_SECOND)
        r = 2; /* begins with TLS's first byte, but is not TLS */
    if (r <= 0) {
        egress_trouble(c->ctx, "a TLS hello that is none", NULL);
        c->kind = EGRESS_HTTPS;
        conn_refuse(c, "a TLS hello that is none");
        return;
    }
    if (r == 1)
        c->kind = EGRESS_HTTPS;
    if (r == 1 && conn_is_unresolved(c)) {
        if (hello.has_name && strcmp(hello.name, c->name) != 0) {
            conn_refuse(c, "TLS is for another name than CONNECT");
            return;
        }
    } else if (r == 1) {
        c->from_tls = true;
        c->has_name = hello.has_name;
        (void)snprintf(c->name, sizeof(c->name), "%s", hello.name);
    }
    conn_decide_any(c);
}

/* For a sidecar only the Host of a plain request matters. */
static void conn_look_http_sidecar(struct egress_conn *c, const char *data, size_t len)
{
    struct connect_head head;
    long n = connect_head(data, len, &head, NULL);

    if (n == 0 && len < CONNECT_HEAD_MAX && ++c->peeks < PEEKS_MAX)
        return;
    if (n > 0 && head.host[0] != '\0') {
        c->has_name = true;
        (void)snprintf(c->name, sizeof(c->name), "%s", head.host);
        c->kind = EGRESS_HTTP;
    }
    conn_decide_any(c);
}

/* True for a client of the explicit proxy that has not named its destination yet. */
static bool conn_asks_proxy(const struct egress_conn *c)
{
    return c->explicit_proxy && !c->tunnel;
}

/* `bytes`: relay the connection as raw bytes if the rules for HTTP allow it. On HTTP's own ports
 * it is always proxied: requests after a CONNECT that the server ignored would otherwise reach
 * the server unchecked. */
static void conn_look_http(struct egress_conn *c, const char *data, size_t len, bool bytes)
{
    if (c->ctx->is_sidecar) {
        conn_look_http_sidecar(c, data, len);
        return;
    }
    c->kind = EGRESS_HTTP;
    if (bytes)
        conn_decide_any(c);
    else
        conn_give_to_proxy(c, NULL);
}

static void conn_look(struct egress_conn *c, const char *data, size_t len)
{
    switch (connect_look(data, len)) {
    case LOOKS_UNKNOWN:
        return;
    case LOOKS_TLS:
        if (conn_asks_proxy(c))
            conn_refuse(c, "the proxy speaks plain HTTP");
        else
            conn_look_tls(c, (const uint8_t *)data, len);
        return;
    case LOOKS_CONNECT:
        if (conn_asks_proxy(c))
            conn_explicit_connect(c, data, len);
        else
            conn_look_http(c, data, len,
                           !conn_is_strict(c)); /* possibly meant for a proxy outside */
        return;
    case LOOKS_HTTP:
        conn_look_http(c, data, len, false);
        return;
    case LOOKS_OTHER:
    default:
        if (conn_asks_proxy(c))
            conn_refuse(c, "no HTTP");
        else
            conn_decide_any(c);
    }
}

/* The client waits for the server to speak first, or sends nothing. */
static void on_conn_silent(struct deadline *d)
{
    struct egress_conn *c =
        (struct egress_conn *)(void *)((char *)d - offsetof(struct egress_conn, clock));

    if ((c->heard && !c->ctx->is_sidecar && (conn_is_strict(c) || c->tls)) || conn_asks_proxy(c)) {
        egress_trouble(c->ctx, "a connection whose first bytes did not come in time", NULL);
        conn_refuse(c, "its first bytes did not come in time");
    } else {
        conn_decide_any(c);
    }
}

static void on_conn_event(struct fd_watch *w, unsigned events)
{
    static char scratch[CLIENT_HELLO_MAX];
    struct egress_conn *c = (struct egress_conn *)(void *)w;
    ssize_t n;

    if (c->phase != CONN_PEEK ||
        (events != 0 && (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) == 0))
        return;
    n = recv(c->fd, scratch, sizeof(scratch), MSG_DONTWAIT | MSG_PEEK);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n < 0) {
        conn_free(c, true);
        return;
    }
    if (n == 0) {
        conn_decide_any(c); /* EOF from the client; the server may still send */
        return;
    }
    if (!c->heard) {
        c->tls = (unsigned char)scratch[0] == CLIENT_HELLO_FIRST;
        deadline_set(c->ctx->hub->evloop, &c->clock,
                     c->tls || conn_is_strict(c) ? EGRESS_HELLO_MS : EGRESS_PEEK_MS,
                     on_conn_silent);
    }
    c->heard = true;
    if ((events & EPOLLRDHUP) != 0 && connect_look(scratch, (size_t)n) == LOOKS_UNKNOWN)
        conn_decide_any(c); /* EOF: no more bytes to decide by */
    else
        conn_look(c, scratch, (size_t)n);
}

/* ---- the beginning ---- */

/* Reads the destination before the kernel's redirect. False: the client connected to the gateway
 * itself. */
static bool conn_original_dst(const struct egress_ctx *b, int fd, struct address *ret)
{
    struct sockaddr_storage to, here;
    socklen_t len = sizeof(to), here_len = sizeof(here);
    struct address own;
    struct net_addr a;

    if (getsockname(fd, (struct sockaddr *)(void *)&here, &here_len) < 0 ||
        !address_from_socket((struct sockaddr *)(void *)&here, &own))
        return false;
    if (here.ss_family == AF_INET6 ? getsockopt(fd, IPPROTO_IPV6, ORIGINAL_DST, &to, &len) < 0
                                   : getsockopt(fd, IPPROTO_IP, ORIGINAL_DST, &to, &len) < 0)
        return false;
    if (!address_from_socket((struct sockaddr *)(void *)&to, ret))
        return false;
    a = egress_addr(ret);
    if (ret->port == EGRESS_PROXY_PORT && b->gateway.family == a.family &&
        memcmp(b->gateway.bytes, a.bytes, sizeof(a.bytes)) == 0)
        return false;
    return ret->port != own.port || memcmp(ret->bytes, own.bytes, sizeof(own.bytes)) != 0;
}

static struct egress_conn *conn_new(struct egress_ctx *b, int fd)
{
    struct egress_conn *c = calloc(1, sizeof(*c));

    if (c == NULL) {
        egress_reset(fd);
        return NULL;
    }
    *c = (struct egress_conn){.ctx = b, .fd = fd, .kind = EGRESS_TCP};
    list_add(&b->conns, c);
    egress_count(b, 1);
    return c;
}

void egress_join(struct egress_ctx *b, int client, int server, const struct joined *j)
{
    struct egress_conn *c = conn_new(b, client);

    if (c == NULL) {
        (void)close(server);
        return;
    }
    c->kind = j->kind;
    c->to = j->to;
    c->action = j->action;
    c->explicit_proxy = c->tunnel = j->explicit_proxy;
    c->has_name = j->name != NULL;
    if (j->name != NULL)
        (void)snprintf(c->name, sizeof(c->name), "%s", j->name);
    if (egress_copy(&c->handler, j->handler) && egress_copy(&c->rule, j->rule)) {
        conn_join(c, server);
        return;
    }
    (void)close(server);
    conn_refuse(c, "out of memory");
}

void egress_accept(struct egress_ctx *b, int fd)
{
    struct egress_conn *c;
    struct address to;
    bool redirected = conn_original_dst(b, fd, &to);

    if (redirected && to.port == DNS_PORT && !b->is_sidecar) {
        dns_adopt(b->dns, fd);
        return;
    }
    if (!redirected && b->is_sidecar) {
        egress_reset(fd); /* workerd gets everything, and offers no explicit proxy */
        return;
    }
    if (egress_is_full(b)) {
        egress_trouble(b, "limit maxEgressConnections", NULL);
        egress_reset(fd);
        return;
    }
    c = conn_new(b, fd);
    if (c == NULL)
        return;
    c->explicit_proxy = !redirected;
    if (redirected)
        c->to = to;
    if (watch_add(b->hub->evloop, &c->watch, fd, on_conn_event) < 0) {
        conn_free(c, true);
        return;
    }
    deadline_set(b->hub->evloop, &c->clock, conn_is_strict(c) ? EGRESS_HELLO_MS : EGRESS_PEEK_MS,
                 on_conn_silent);
}

/* ---- all of them ---- */

void egress_conns_close(struct egress_ctx *b)
{
    while (b->conns != NULL)
        if (b->conns->relay != NULL)
            relay_stop(b->conns->relay); /* on_relay_end frees it */
        else
            conn_free(b->conns, true);
}

bool egress_stands(const struct decision *d, enum egress_action action, const char *handler)
{
    const char *now = d->action == EGRESS_HANDLE ? d->handler : NULL;

    return d->action == action &&
           (now == NULL || handler == NULL ? now == handler : strcmp(now, handler) == 0);
}

void egress_conns_review(struct egress_ctx *b)
{
    for (struct egress_conn *c = b->conns, *next; c != NULL; c = next) {
        struct decision d;

        next = c->next;
        if (c->phase == CONN_PEEK)
            continue;
        /* The client of an explicit proxy did not resolve the name; the dialled address counts
         * all the same. */
        d = egress_decide(b, c->kind, c->has_name ? c->name : NULL, &c->to, conn_is_unresolved(c));
        if (egress_stands(&d, c->action, c->handler))
            continue;
        if (c->relay != NULL)
            relay_stop(c->relay);
        else
            conn_refuse(c, "the rules have changed");
    }
}
