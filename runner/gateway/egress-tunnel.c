/* Terminates TLS of a client inside and forwards plain bytes to a handler: a sidecar (workerd).
 *
 * Runs in the supervisor's loop thread; called by egress-conn.c. */
#include <errno.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/list.h"
#include "gateway/ca.h"
#include "gateway/egress-internal.h"
#include "gateway/endpoint.h"

enum {
    QUEUE = 64 << 10, /* bytes queued for one side before reading from the other stops */
    ROUNDS = 64,      /* per event, before other watches are served */
};

struct egress_tunnel {
    struct egress_ctx *ctx;
    struct egress_tunnel *next, **link;
    struct endpoint client, server;
    struct address to;
    struct deadline idle;
    char name[EGRESS_NAME_MAX + 1];
};

static void tunnel_free(struct egress_tunnel *t, bool reset)
{
    struct egress_event e = {.protocol = "https",
                             .host = t->name,
                             .to = &t->to,
                             .verdict = "handler",
                             .sent = t->client.received,
                             .received = t->client.sent};

    egress_tell(t->ctx, &e);
    endpoint_close(&t->client, reset);
    endpoint_close(&t->server, reset);
    deadline_clear(&t->idle);
    list_remove(t);
    egress_count(t->ctx, -1);
    free(t);
}

static void on_tunnel_idle(struct deadline *d)
{
    tunnel_free((struct egress_tunnel *)(void *)((char *)d - offsetof(struct egress_tunnel, idle)),
                true);
}

static void tunnel_step(struct egress_tunnel *t)
{
    bool moved = false, any = true;
    int rounds = 0;

    while (any && rounds++ < ROUNDS && !t->client.failed && !t->server.failed) {
        any = endpoint_pump(&t->client, &t->server, QUEUE);
        any = endpoint_pump(&t->server, &t->client, QUEUE) || any;
        moved = moved || any;
    }
    if (t->client.failed || t->server.failed) {
        tunnel_free(t, true);
        return;
    }
    if (t->client.shut && t->server.shut) {
        tunnel_free(t, false);
        return;
    }
    if (any)
        watch_again(&t->client.watch);
    if (moved)
        deadline_set(t->ctx->hub->evloop, &t->idle, t->ctx->hub->idle_ms, on_tunnel_idle);
}

static void on_tunnel_event(struct fd_watch *w, unsigned events)
{
    struct endpoint *e = (struct endpoint *)(void *)w;

    endpoint_event(e, events);
    tunnel_step(e->owner);
}

void egress_tunnel(struct egress_ctx *b, int client, const char *sni, const struct address *to,
                   int server)
{
    struct egress_tunnel *t = calloc(1, sizeof(*t));
    struct err err = ERR_NONE;
    SSL *ssl = t != NULL ? ca_accept(b->hub->ca, sni, &err) : NULL;

    if (ssl == NULL ||
        endpoint_open(&t->client, b->hub->evloop, client, ssl, on_tunnel_event, t) < 0) {
        free(t);
        egress_reset(client);
        (void)close(server);
        egress_trouble(b, "TLS could not be ended for a handler", err.code < 0 ? err.msg : NULL);
        return;
    }
    t->ctx = b;
    t->to = *to;
    (void)snprintf(t->name, sizeof(t->name), "%s", sni);
    list_add(&b->tunnels, t);
    egress_count(b, 1);
    deadline_set(b->hub->evloop, &t->idle, EGRESS_HELLO_MS, on_tunnel_idle);
    t->server.fd = FD_NONE;
    if (endpoint_open(&t->server, b->hub->evloop, server, NULL, on_tunnel_event, t) < 0) {
        (void)close(server);
        tunnel_free(t, true);
    }
}

void egress_tunnels_close(struct egress_ctx *b)
{
    while (b->tunnels != NULL)
        tunnel_free(b->tunnels, true);
}
