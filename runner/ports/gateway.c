#include "ports/gateway.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/evloop.h"
#include "base/file.h"
#include "base/log.h"
#include "base/number.h"
#include "gateway/fd-passing.h"
#include "gateway/listener.h"
#include "gateway/preview.h"
#include "gateway/proxy.h"
#include "gateway/relay.h"
#include "gateway/tls.h"
#include "http/message.h"
#include "launch/request.h"
#include "ports/exposure.h"
#include "ports/port.h"
#include "sandbox/launcher-client.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/shared.h"

enum { REFUSED_LOG_MS = 1000 /* at most one log line about refused messages in this time */ };

struct gateway {
    struct supervisor *sup;
    const struct proxy_config *config; /* borrowed; NULL = the defaults */
    struct evloop *evloop;
    struct relay_hub *hub;
    struct fd_passing_hub *handovers;
    struct proxy *proxy;
    unsigned most;             /* limit of connections of each kind: maxGatewayConnections */
    struct listener *listener; /* for preview URLs; NULL = none */
    SSL_CTX *tls;              /* owned; NULL = none */
    uint64_t refused_at;       /* when a refusal was last logged; uv_now */
    unsigned refused_since;    /* refusals since then, not logged */
};

/* ---- routing ---- */

static const char denied[] =
    "{\"error\":\"Access denied: Invalid token or port not exposed\",\"code\":\"INVALID_TOKEN\"}";
static const char no_host[] =
    "{\"error\":{\"code\":\"EBADMSG\",\"message\":\"Host is no host name\"}}";

static void gateway_key(const struct sandbox *s, unsigned port, char key[PROXY_KEY_MAX])
{
    (void)snprintf(key, PROXY_KEY_MAX, "%s/%u", s->id, port);
}

/*
 * Answers 404 for every host that leads nowhere, so that clients cannot find out which sandboxes
 * exist.
 */
static int gateway_route(void *data, struct proxy_conn *c, const struct message *req,
                         char key[PROXY_KEY_MAX], struct buf *body)
{
    struct gateway *g = data;
    struct preview p;
    struct sandbox *s;
    int r;

    (void)c;
    r = preview_parse(req->host, &p);
    if (r == -EBADMSG) {
        (void)buf_append_str(body, no_host);
        return 400;
    }
    s = r == 0 ? exposure_open(g->sup, &p) : NULL;
    if (s == NULL) {
        (void)buf_append_str(body, denied);
        return 404;
    }
    sandbox_touch(s);
    gateway_key(s, p.port, key);
    return 0;
}

/* ---- connecting to the server ---- */

static void sandbox_id_of_key(const char *key, char id[SANDBOX_ID_LEN + 1])
{
    (void)snprintf(id, SANDBOX_ID_LEN + 1, "%s",
                   key); /* stops at the slash, as an id has SANDBOX_ID_LEN characters */
}

struct connecting {
    struct proxy_conn *conn;
    struct port_connect *port;
};

static void on_port_connected(void *data, int r, int fd, const struct err *err)
{
    struct connecting *c = data;
    struct proxy_conn *conn = c->conn;

    free(c);
    proxy_connected(conn, r, fd, err);
}

static int start_connect(void *data, const char *key, struct proxy_conn *conn, void **ret_handle,
                         int *ret_fd, struct err *err)
{
    struct gateway *g = data;
    const char *slash = strchr(key, '/');
    char id[SANDBOX_ID_LEN + 1];
    struct connecting *c;
    struct sandbox *s;
    int r;

    sandbox_id_of_key(key, id);
    s = sandbox_by_id(g->sup, id);
    if (s == NULL)
        return err_set(err, -EBUSY, "the sandbox is gone");
    c = calloc(1, sizeof(*c));
    if (c == NULL)
        return err_errno(err, -ENOMEM, "port %s", slash + 1);
    c->conn = conn;
    r = port_connect(s, (uint16_t)number_whole(slash + 1, 5), on_port_connected, c, &c->port,
                     ret_fd, err);
    if (r < 0 || *ret_fd >= 0) {
        free(c);
        return r;
    }
    *ret_handle = c;
    return 0;
}

static void cancel_connect(void *handle)
{
    struct connecting *c = handle;

    port_connect_cancel(c->port);
    free(c);
}

static int gateway_enter(void *data, const char *key, struct err *err)
{
    struct gateway *g = data;
    char id[SANDBOX_ID_LEN + 1];
    struct sandbox *s;

    sandbox_id_of_key(key, id);
    s = sandbox_by_id(g->sup, id);
    return s != NULL ? port_enter(s, err) : err_set(err, -EBUSY, "the sandbox is gone");
}

static void gateway_leave(void *data, const char *key)
{
    struct gateway *g = data;
    char id[SANDBOX_ID_LEN + 1];

    sandbox_id_of_key(key, id);
    port_leave(g->sup, id);
}

/* Callback of the relay hub; a group is a sandbox. */
static void on_relay_ended(void *data, uint64_t group)
{
    struct gateway *g = data;
    char id[SANDBOX_ID_LEN + 1];

    (void)snprintf(id, sizeof(id), "%016" PRIx64, group);
    port_leave(g->sup, id);
}

/* Rate-limited: a hostile client must not be able to fill the log. */
static void on_proxy_refused(void *data, const char *key, const char *peer, int status,
                             const char *why)
{
    struct gateway *g = data;
    uint64_t now = uv_now(g->sup->loop);

    if (g->refused_at != 0 && now - g->refused_at < REFUSED_LOG_MS) {
        g->refused_since++;
        return;
    }
    log_warn("gateway", "%s%s%speer=%s refused with %d: %s (and %u others before)",
             *key != '\0' ? "id=" : "", key, *key != '\0' ? " " : "", *peer != '\0' ? peer : "api",
             status, why, g->refused_since);
    g->refused_at = now;
    g->refused_since = 0;
}

static const struct proxy_ops ops = {
    .route = gateway_route,
    .enter = gateway_enter,
    .leave = gateway_leave,
    .connect = start_connect,
    .cancel = cancel_connect,
    .refused = on_proxy_refused,
};

/* ---- clients ---- */

static void on_listener_client(void *data, int fd, const struct sockaddr *peer)
{
    struct gateway *g = data;
    char text[LISTENER_ADDRESS_MAX];
    struct proxy_client client = {.peer = text, .trusted = address_is_loopback(peer)};
    struct err err = ERR_NONE;

    address_text(peer, text);
    if (gateway_room(g, false, &err) == 0) {
        client.ssl = g->tls != NULL ? tls_accept(g->tls) : NULL;
        if (g->tls != NULL && client.ssl == NULL)
            (void)err_errno(&err, -ENOMEM, "TLS");
        else if (proxy_adopt(g->proxy, fd, &client, &err) == 0)
            return;
    }
    on_proxy_refused(g, "", text, 503, err.msg);
    (void)close(fd);
}

/* ---- the certificate ---- */

static int read_pem(int fd, char **ret, size_t *ret_len, struct err *err)
{
    if (fd < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return err_set(err, -EPROTO, "the launcher sent no file");
    return file_read_fd(fd, TLS_PEM_MAX, ret, ret_len, err);
}

static void on_launcher_certificate(void *data, int r, const struct launch_reply *reply, int fds[2],
                                    const struct err *err)
{
    struct supervisor *sup = data;
    auto_free char *chain = NULL, *key = NULL;
    struct err own = r < 0 ? *err : (struct err)ERR_NONE;
    size_t chain_len = 0, key_len = 0;
    SSL_CTX *tls = NULL;

    (void)reply;
    if (sup->gateway == NULL)
        return; /* the supervisor is stopping */
    if (r == 0)
        r = read_pem(fds[0], &chain, &chain_len, &own);
    if (r == 0)
        r = read_pem(fds[1], &key, &key_len, &own);
    if (r == 0)
        r = tls_context(chain, chain_len, key, key_len, &tls, &own);
    if (key != NULL)
        explicit_bzero(key, key_len);
    if (r < 0) {
        log_error("gateway", "certificate: %s; the one before stays", own.msg);
        return;
    }
    SSL_CTX_free(sup->gateway->tls); /* connections that use the old one hold references */
    sup->gateway->tls = tls;
    log_info("gateway", "has a new certificate");
}

void gateway_renew(struct gateway *g)
{
    auto_buf struct buf b = BUF_INIT(0);
    struct err err = ERR_NONE;
    int r;

    if (g->tls == NULL)
        return;
    launch_begin(&b, LAUNCH_CERTIFICATE);
    r = launch_end(&b);
    if (r == 0)
        r = launcher_client_send_due(g->sup->launcher, &b, on_launcher_certificate, g->sup, &err);
    if (r < 0)
        log_error("gateway", "certificate: %s; the one before stays", err.msg);
}

int gateway_listen(struct gateway *g, int fd, SSL_CTX *tls, struct err *err)
{
    g->tls = tls;
    return listener_new(g->evloop, fd, on_listener_client, g, &g->listener, err);
}

int gateway_take(struct gateway *g, struct sandbox *s, uint16_t port, int fd, const char *early,
                 size_t early_len, struct err *err)
{
    char key[PROXY_KEY_MAX];
    const struct proxy_client client = {
        .peer = "", .trusted = true, .key = key, .early = early, .early_len = early_len};

    gateway_key(s, port, key);
    return proxy_adopt(g->proxy, fd, &client, err);
}

int gateway_room(const struct gateway *g, bool owner, struct err *err)
{
    const unsigned http = proxy_count(g->proxy);
    const unsigned raw = relay_count(g->hub) + fd_passing_count(g->handovers);
    /*
     * The last quarter is reserved for API clients that are the owner. Clients of preview URLs and
     * published ports, and members of the group, cannot use it up. Their HTTP and raw connections
     * count together, because an HTTP connection may be upgraded. The owner's are counted for each
     * kind separately.
     */
    const unsigned open = !owner ? http + raw : http > raw ? http : raw;
    const unsigned most = owner ? g->most : g->most - g->most / 4;

    if (open < most)
        return 0;
    return err_set(err, -EAGAIN, "limit maxGatewayConnections: %u connections are open", open);
}

/* ---- lifecycle ---- */

int gateway_new(struct supervisor *sup, const struct proxy_config *config, struct gateway **ret,
                struct err *err)
{
    struct gateway *g = calloc(1, sizeof(*g));
    struct relay_config relays = {.max = RELAY_MAX,
                                  .pipes = RELAY_PIPES,
                                  .idle_ms = RELAY_IDLE_MS,
                                  .rest_ms = RELAY_REST_MS,
                                  .left = on_relay_ended,
                                  .data = g};
    int r;

    if (g == NULL)
        return err_errno(err, -ENOMEM, "gateway");
    g->sup = sup;
    g->config = config;
    g->most = config != NULL ? config->max : RELAY_MAX;
    if (config != NULL) {
        relays.max = config->max;
        relays.idle_ms = config->stream_ms;
    }
    r = evloop_new(sup->loop, &g->evloop, err);
    if (r == 0)
        r = relay_hub_new(g->evloop, &relays, &g->hub, err);
    if (r == 0 && (r = fd_passing_hub_new(g->evloop, &g->handovers)) < 0)
        (void)err_errno(err, r, "gateway");
    if (r == 0)
        r = proxy_new(g->evloop, g->hub, config, &ops, g, &g->proxy, err);
    if (r < 0) {
        gateway_close(g);
        return r;
    }
    *ret = g;
    return 0;
}

void gateway_close(struct gateway *g)
{
    if (g == NULL)
        return;
    listener_close(g->listener);
    proxy_close(g->proxy);
    relay_hub_close(g->hub);
    fd_passing_hub_close(g->handovers);
    evloop_close(g->evloop);
    SSL_CTX_free(g->tls);
    free(g);
}

const struct proxy_config *gateway_config(const struct gateway *g)
{
    return g->config;
}

struct evloop *gateway_evloop(struct gateway *g)
{
    return g->evloop;
}

struct relay_hub *gateway_hub(struct gateway *g)
{
    return g->hub;
}

struct fd_passing_hub *gateway_handovers(struct gateway *g)
{
    return g->handovers;
}
