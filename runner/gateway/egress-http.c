/* Owns the HTTP requests that leave sandboxes: the proxy reads them, and each request is decided
 * by the rules. Provides the proxy_ops of the outbound proxy.
 *
 * Runs in the supervisor's loop thread; called by egress-conn.c and proxy.c. */
#include <errno.h>
#include <inttypes.h>
#include <openssl/sha.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "gateway/ca.h"
#include "gateway/connect.h"
#include "gateway/egress-internal.h"
#include "http/message.h"

enum {
    KEY_DIGEST = 16,     /* bytes of the digest in a pool key */
    KEY_TEXT_MAX = 4096, /* of the hashed text: a name, an address, a socket's path */
};

/* One client connection of the outbound proxy. */
struct egress_http {
    struct egress_ctx *ctx; /* outlives h: egress_https_close ends h first */
    uint64_t serial;
    bool explicit_proxy, tls;
    struct address to; /* the client's destination; explicit proxy: only the port is used */
    char sni[EGRESS_NAME_MAX + 1];
    /* State of the current request. */
    char name[EGRESS_NAME_MAX + 1];
    bool has_name;
    struct address target;
    enum egress_action action;
    char *handler, *rule; /* owned */
    /* State of the current server connection. */
    struct proxy_conn *conn;
    struct egress_dial *dial;
};

static void http_free(struct egress_http *h)
{
    egress_dial_cancel(h->dial);
    egress_count(h->ctx, -1);
    free(h->handler);
    free(h->rule);
    free(h);
}

static void http_report(struct egress_http *h, enum egress_action action, const char *reason,
                        const uint64_t bytes[2])
{
    struct egress_event e = {.protocol = h->tls ? "https" : "http",
                             .host = h->has_name ? h->name : NULL,
                             .to = &h->target,
                             .verdict = egress_verdict(action),
                             .rule = h->rule,
                             .reason = reason,
                             .sent = bytes != NULL ? bytes[0] : 0,
                             .received = bytes != NULL ? bytes[1] : 0};

    egress_tell(h->ctx, &e);
}

/* ---- routing of a request ---- */

static int http_deny(struct egress_http *h, int status, const char *why, struct buf *body)
{
    http_report(h, EGRESS_DENY, why, NULL);
    (void)buf_printf(body,
                     "{\"error\":{\"code\":\"EACCES\",\"message\":\"egress of this sandbox: %s\"}}",
                     why != NULL ? why : "a rule denies it");
    return status;
}

/* Parses the authority of a request: a name or an address, and a port. */
static int http_read_host(struct egress_http *h, const struct message *req)
{
    const char *host = req->host, *colon = strrchr(host, ':');
    size_t len = strlen(host);
    struct address a;
    unsigned long port = 0;

    h->has_name = false;
    h->target = h->to;
    if (h->explicit_proxy)
        h->target = (struct address){.port = 80};
    if (colon != NULL && strchr(colon, ']') == NULL) {
        len = (size_t)(colon - host);
        /* Parsers disagree on "good.test:80@evil.test": it is evil.test to some, and would be
         * good.test here. */
        if (strlen(colon + 1) > 5 || strspn(colon + 1, "0123456789") != strlen(colon + 1))
            return -EINVAL;
        port = strtoul(colon + 1, NULL, 10);
    }
    if (egress_name(host, len, h->name) == 0) {
        h->has_name = true;
    } else if (h->explicit_proxy || len > 0) { /* HTTP/1.0 may have no Host */
        char text[ADDRESS_TEXT_MAX];
        bool brackets = host[0] == '[';

        if (len < (brackets ? 3U : 1U) || len >= sizeof(text) || (brackets && host[len - 1] != ']'))
            return -EINVAL;
        (void)snprintf(text, sizeof(text), "%.*s", (int)(len - (brackets ? 2 : 0)),
                       host + (brackets ? 1 : 0));
        if (address_parse_host(text, &a) < 0)
            return -EINVAL;
        a.port = h->target.port;
        if (h->explicit_proxy)
            h->target = a;
    }
    if (h->explicit_proxy && port > 0 && port <= 65535)
        h->target.port = (uint16_t)port;
    return 0;
}

/* The pool key of a destination, unique per client: a pooled server connection is never used for
 * another client's requests. */
static int http_pool_key(const struct egress_http *h, char key[PROXY_KEY_MAX])
{
    char target[ADDRESS_TEXT_MAX] = "", hex[2 * KEY_DIGEST + 1];
    unsigned char digest[SHA256_DIGEST_LENGTH];
    auto_buf struct buf where = BUF_INIT(KEY_TEXT_MAX);

    if (h->target.family != 0)
        address_format_host(&h->target, target);
    /* A cryptographic digest: the client chooses the names and must not find two that share a
     * key. */
    if (buf_printf(&where, "%" PRIu64 " %d %s %s ", h->ctx->generation, (int)h->action, target,
                   h->has_name ? h->name : "") < 0 ||
        buf_append_str(&where, h->handler != NULL ? h->handler : "") < 0)
        return -ENOMEM;
    (void)SHA256((const unsigned char *)where.data, where.len, digest);
    for (size_t i = 0; i < KEY_DIGEST; i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    (void)snprintf(key, PROXY_KEY_MAX, "%s/%" PRIx64 "/%s/%x", h->ctx->id, h->serial, hex,
                   h->target.port);
    return 0;
}

static struct decision http_decide(const struct egress_http *h)
{
    return egress_decide(h->ctx, h->tls ? EGRESS_HTTPS : EGRESS_HTTP, h->has_name ? h->name : NULL,
                         &h->target, h->explicit_proxy && h->has_name);
}

static int http_route(void *data, struct proxy_conn *c, const struct message *req,
                      char key[PROXY_KEY_MAX], struct buf *body)
{
    struct egress_http *h = proxy_context(c);
    struct decision d;

    (void)data;
    (void)egress_copy(&h->rule, NULL);
    if (http_read_host(h, req) < 0)
        return http_deny(h, 400, "Host is neither a name nor an address", body);
    /* Requests for another host need their own TLS connection (421). */
    if (h->tls && h->has_name && strcmp(h->name, h->sni) != 0)
        return http_deny(h, 421, "Host is not the name that TLS was begun for", body);
    if (h->tls && !h->has_name && strchr(h->sni, ':') == NULL &&
        strspn(h->sni, "0123456789.") != strlen(h->sni))
        return http_deny(h, 421, "Host is not the name that TLS was begun for", body);
    d = http_decide(h);
    h->action = d.action;
    if (!egress_copy(&h->handler, d.action == EGRESS_HANDLE ? d.handler : NULL) ||
        !egress_copy(&h->rule, d.rule != NULL ? d.rule->to : NULL))
        return http_deny(h, 503, "out of memory", body);
    if (d.action == EGRESS_DENY)
        return http_deny(h, 403, d.reason, body);
    /* TLS was terminated for a handler. It cannot be passed through now: the gateway is no TLS
     * client. */
    if (d.action == EGRESS_ALLOW && h->tls)
        return http_deny(h, 421, "the rules have changed: connect again", body);
    return http_pool_key(h, key) == 0 ? 0 : http_deny(h, 503, "out of memory", body);
}

/* ---- connection to the server ---- */

static void on_http_dialled(void *who, int r, int fd, int status, const struct err *err)
{
    struct egress_http *h = who;
    struct err own = ERR_NONE;

    h->dial = NULL;
    if (r == 0 && h->action == EGRESS_ALLOW)
        egress_dialled_to(fd, &h->target);
    if (r == 0 && status != 0 && status != 200) {
        (void)close(fd);
        fd = FD_NONE;
        r = err_set(&own, -EACCES, "handler: answered %d", status);
        err = &own;
    }
    if (r < 0) {
        if (h->action == EGRESS_HANDLE)
            egress_trouble(h->ctx, "a handler did not take a connection", err->msg);
        h->action = egress_failed_as(h->action, r);
        http_report(h, h->action, err->msg, NULL);
        /* The cause lies on the host and is not shown inside: the client gets a reset. */
        if (h->action == EGRESS_HANDLE)
            r = -ECONNABORTED;
    }
    proxy_connected(h->conn, r, fd, err);
}

static int http_connect(void *data, const char *key, struct proxy_conn *c, void **ret_handle,
                        int *ret_fd, struct err *err)
{
    struct egress_http *h = proxy_context(c);
    struct dial_request q;
    int r;

    (void)data;
    (void)key;
    q = (struct dial_request){.handler = h->handler,
                              .to = h->target,
                              .kind = h->tls ? EGRESS_HTTPS : EGRESS_HTTP,
                              .name = h->has_name ? h->name : NULL,
                              .sni = h->tls ? h->sni : NULL,
                              .protocol = h->tls ? "https" : "http"};
    if (h->has_name && h->action == EGRESS_ALLOW)
        q.resolve = h->name;
    h->conn = c;
    *ret_fd = FD_NONE;
    r = egress_dial(h->ctx, &q, on_http_dialled, h, &h->dial, err);
    if (r == 0)
        *ret_handle = h;
    return r;
}

static void http_cancel(void *handle)
{
    struct egress_http *h = handle;

    egress_dial_cancel(h->dial);
    h->dial = NULL;
}

static void on_http_closed(void *data, void *context, const uint64_t bytes[2])
{
    struct egress_http *h = context;

    (void)data;
    if (h->action != EGRESS_DENY) /* each denied request was reported when denied */
        http_report(h, h->action, NULL, bytes);
    http_free(h);
}

/* Upgraded connections (mostly WebSockets) are joined by egress-conn.c, so that they are
 * reviewed when the rules change. */
static void on_http_upgraded(void *data, void *context, int client, int server)
{
    struct egress_http *h = context;
    const struct joined j = {.kind = EGRESS_HTTP,
                             .name = h->has_name ? h->name : NULL,
                             .handler = h->handler,
                             .rule = h->rule,
                             .to = h->target,
                             .action = h->action,
                             .explicit_proxy = h->explicit_proxy};

    (void)data;
    egress_join(h->ctx, client, server, &j);
    h->action = EGRESS_DENY; /* egress-conn.c reports the end */
}

const struct proxy_ops egress_proxy_ops = {.upgraded = on_http_upgraded,
                                           .route = http_route,
                                           .connect = http_connect,
                                           .cancel = http_cancel,
                                           .closed = on_http_closed};

/* ---- start and end ---- */

int egress_http(struct egress_ctx *b, int fd, const struct address *to, const char *sni,
                bool explicit_proxy, struct err *err)
{
    struct egress_http *h = calloc(1, sizeof(*h));
    struct proxy_client client = {.peer = "", .context = h};
    int r;

    if (h == NULL)
        return err_errno(err, -ENOMEM, "egress");
    *h = (struct egress_http){.ctx = b,
                              .serial = ++b->hub->serial,
                              .explicit_proxy = explicit_proxy,
                              .tls = sni != NULL,
                              .to = *to};
    if (sni != NULL) {
        (void)snprintf(h->sni, sizeof(h->sni), "%s", sni);
        client.ssl = ca_accept(b->hub->ca, sni, err);
        if (client.ssl == NULL) {
            free(h);
            return err->code;
        }
    }
    r = proxy_adopt(b->hub->proxy, fd, &client, err);
    if (r < 0) {
        free(h);
        return r;
    }
    egress_count(b, 1);
    return 0;
}

/* True for a tunnel (101) that the new rules no longer allow. Ordinary requests run to their
 * end. */
static bool http_must_end(const void *context, const void *ctx)
{
    const struct egress_http *h = context;
    struct decision d;

    if (h->ctx != ctx || h->conn == NULL || !proxy_is_tunnel(h->conn))
        return false;
    d = http_decide(h);
    return !egress_stands(&d, h->action, h->handler);
}

void egress_https_review(struct egress_ctx *b)
{
    proxy_end(b->hub->proxy, http_must_end, b);
}

static bool http_is_in_box(const void *context, const void *ctx)
{
    const struct egress_http *h = context;

    return h->ctx == ctx;
}

void egress_https_close(struct egress_ctx *b)
{
    proxy_end(b->hub->proxy, http_is_in_box, b);
}
