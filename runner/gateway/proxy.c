#include "gateway/proxy.h"

#include <errno.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/list.h"
#include "gateway/proxy-internal.h"
#include "gateway/relay.h"

void proxy_config_init(struct proxy_config *config)
{
    *config = (struct proxy_config){.max = PROXY_MAX,
                                    .head_bytes = PROXY_HEAD,
                                    .headers = PROXY_HEADERS,
                                    .url_bytes = PROXY_URL,
                                    .idle_ms = PROXY_IDLE_MS,
                                    .head_ms = PROXY_HEAD_MS,
                                    .reply_ms = PROXY_REPLY_MS,
                                    .stream_ms = PROXY_STREAM_MS,
                                    .pool = PROXY_POOL,
                                    .pool_key = PROXY_POOL_KEY,
                                    .pool_ms = PROXY_POOL_MS};
}

/* ---- the pool of idle server connections ---- */

static void idle_unlink(struct idle_server *s)
{
    deadline_clear(&s->clock);
    list_remove(s);
    s->proxy->idle_count--;
}

static void idle_drop(struct idle_server *s)
{
    idle_unlink(s);
    endpoint_close(&s->server, false);
    free(s);
}

static void on_pool_timeout(struct deadline *d)
{
    idle_drop((struct idle_server *)(void *)((char *)d - offsetof(struct idle_server, clock)));
}

/* An idle server connection only has an event when its server closes it, or breaks the protocol. */
static void on_pool_event(struct fd_watch *w, unsigned events)
{
    if ((events & ~(unsigned)EPOLLOUT) != 0)
        idle_drop((struct idle_server *)(void *)w);
}

/* The server's event may be pending in the current batch. */
static bool idle_is_readable(const struct idle_server *s)
{
    char byte;

    return recv(s->server.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN;
}

int pool_get(struct proxy *p, const char *key)
{
    for (struct idle_server *s = p->idle, *next; s != NULL; s = next) {
        int fd;

        next = s->next;
        if (strcmp(s->key, key) != 0)
            continue;
        if (idle_is_readable(s)) {
            idle_drop(s);
            continue;
        }
        idle_unlink(s);
        fd = endpoint_take_fd(&s->server);
        free(s);
        return fd;
    }
    return FD_NONE;
}

static unsigned pool_count(const struct proxy *p, const char *key)
{
    unsigned n = 0;

    for (const struct idle_server *s = p->idle; s != NULL; s = s->next)
        n += strcmp(s->key, key) == 0;
    return n;
}

void pool_put(struct proxy *p, const char *key, int fd)
{
    struct idle_server *s;

    if (p->idle_count >= p->config.pool || pool_count(p, key) >= p->config.pool_key ||
        (s = calloc(1, sizeof(*s))) == NULL) {
        (void)close(fd);
        return;
    }
    if (endpoint_open(&s->server, p->evloop, fd, NULL, on_pool_event, s) < 0) {
        (void)close(fd);
        free(s);
        return;
    }
    s->proxy = p;
    (void)snprintf(s->key, sizeof(s->key), "%s", key);
    list_add(&p->idle, s);
    p->idle_count++;
    deadline_set(p->evloop, &s->clock, p->config.pool_ms, on_pool_timeout);
}

/* ---- clients ---- */

static int conn_open_client(struct proxy_conn *c, int fd, const struct proxy_client *client)
{
    int r;

    reader_init(&c->request, false, on_request_data, c);
    reader_init(&c->reply, true, on_reply_data, c);
    c->head = (struct buf)BUF_INIT(ENDPOINT_OUT_MAX / 2);
    c->server.fd = FD_NONE;
    c->trusted = client->trusted;
    c->once = client->key != NULL;
    c->context = client->context;
    (void)snprintf(c->peer, sizeof(c->peer), "%s", client->peer);
    if (client->key != NULL)
        (void)snprintf(c->key, sizeof(c->key), "%s", client->key);
    r = endpoint_open(&c->client, c->proxy->evloop, fd, client->ssl, on_client_event, c);
    if (r == 0 && client->early_len > 0)
        r = buf_append(&c->client.in, client->early, client->early_len);
    if (r < 0 && c->client.fd >= 0)
        (void)endpoint_take_fd(&c->client);
    return r;
}

static int proxy_check_room(const struct proxy *p, struct err *err)
{
    if (p->count < p->config.max)
        return 0;
    return err_set(err, -EAGAIN, "limit maxGatewayConnections: %u connections are open", p->count);
}

int proxy_adopt(struct proxy *p, int fd, const struct proxy_client *client, struct err *err)
{
    struct proxy_conn *c = NULL;
    int r;

    r = proxy_check_room(p, err);
    if (r < 0) {
        SSL_free(client->ssl);
        return r;
    }
    c = calloc(1, sizeof(*c));
    if (c == NULL) {
        SSL_free(client->ssl);
        return err_errno(err, -ENOMEM, "a connection of the gateway");
    }
    c->proxy = p;
    r = conn_open_client(c, fd, client);
    if (r < 0) {
        free(c);
        return err_errno(err, r, "a connection of the gateway");
    }
    relay_tune(fd);
    list_add(&p->conns, c);
    p->count++;
    conn_begin(c);
    return 0;
}

/* ---- life ---- */

int proxy_new(struct evloop *evloop, struct relay_hub *hub, const struct proxy_config *config,
              const struct proxy_ops *ops, void *data, struct proxy **ret, struct err *err)
{
    struct proxy *p = calloc(1, sizeof(*p));

    if (p == NULL)
        return err_errno(err, -ENOMEM, "the gateway");
    *p = (struct proxy){.evloop = evloop, .hub = hub, .ops = ops, .data = data};
    if (config != NULL)
        p->config = *config;
    else
        proxy_config_init(&p->config);
    *ret = p;
    return 0;
}

void proxy_close(struct proxy *p)
{
    if (p == NULL)
        return;
    while (p->conns != NULL) {
        p->conns->reset = true;
        conn_destroy(p->conns);
    }
    while (p->idle != NULL)
        idle_drop(p->idle);
    free(p);
}

void *proxy_context(const struct proxy_conn *c)
{
    return c->context;
}

void proxy_end(struct proxy *p, bool (*is)(const void *context, const void *data), const void *data)
{
    for (struct proxy_conn *c = p->conns, *next; c != NULL; c = next) {
        next = c->next;
        if (!is(c->context, data))
            continue;
        c->reset = true;
        conn_destroy(c);
    }
}

bool proxy_is_tunnel(const struct proxy_conn *c)
{
    return c->phase == PHASE_TUNNEL;
}

unsigned proxy_count(const struct proxy *p)
{
    return p->count;
}

unsigned proxy_pooled(const struct proxy *p)
{
    return p->idle_count;
}
