#pragma once

/* Egress of sandboxes: connections that the kernel redirected to listeners inside their network
 * namespaces, and DNS questions. One hub, and one egress_ctx per sandbox; the listener tells
 * which sandbox a connection belongs to. The rules (policy/egress.h) decide where it goes. For
 * that its first bytes are peeked at (TLS's SNI, HTTP's Host), only briefly on ports where a
 * server may speak first.
 *
 *   deny     reset
 *   allow    joined to a socket in the sandbox's namespace that its nft table lets through: the
 *            host's firewall still applies. A host name opens only the addresses that the
 *            resolver has given out for it, and only while they live
 *   handler  asked by HTTP CONNECT. Any answer but 200 in time is a reset, never a bypass. TLS
 *            is terminated here with a certificate of the CA, and the handler gets plain bytes
 *
 * HTTP is read request by request (proxy.h), plain or inside TLS: each request is decided by the
 * rules of that moment.
 *
 * With a sidecar (egress_ctx_sidecar) one handler gets every connection. It answers 200 (TLS is
 * terminated), 202 (raw bytes) or an error.
 *
 * Runs in the supervisor's loop thread. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/evloop.h"
#include "gateway/dns.h"
#include "policy/egress.h"

struct ca;
struct egress_ctx;
struct egress_hub;
struct err;
struct proxy_config;
struct relay_hub;

/* Limits and their defaults. */
enum {
    EGRESS_CONNECTIONS = 1024,     /* per sandbox; more are reset (maxEgressConnections) */
    EGRESS_CONNECTIONS_ALL = 8192, /* of all sandboxes; above it a sandbox gets no more */
    EGRESS_CONNECTIONS_SHARE = 64, /* than this many */
    EGRESS_PEEK_MS = 100,          /* for the first byte, where the server may speak first */
    EGRESS_HELLO_MS = 10 * 1000,   /* for the rest of the first bytes, and where clients speak
                                    * first */
    EGRESS_DIAL_MS = 10 * 1000,    /* to connect to a server */
    EGRESS_HANDLER_MS = 30 * 1000, /* for a handler's answer (egressHandlerTimeoutMs) */
    EGRESS_NAME_MS = 60 * 1000,    /* least time that an address stays open for its name, beyond its
                                    * time to live: clients cache it, too */
    EGRESS_EVENTS = 20,            /* reported per second and sandbox; the rest is counted */
    EGRESS_SAID_MS = 60 * 1000,    /* a message is logged once in this time */
};

struct egress_limits {
    unsigned connections, handler_ms, queries_per_second;
};

enum egress_socket {
    EGRESS_DIRECT,   /* in the sandbox's namespace, of this family, not connected */
    EGRESS_HANDLER,  /* connected to this handler */
    EGRESS_RESOLVER, /* connected to name server number `index` of the host */
};

struct egress_want {
    enum egress_socket kind;
    int family;
    const char *handler;
    unsigned index;
    bool udp;
};

struct egress_event {
    const char *protocol; /* "http", "https", "tcp" */
    const char *host;     /* or NULL */
    const struct address *to;
    const char *verdict; /* "allow", "deny", "handler" */
    const char *rule;    /* the rule's text; NULL = the default applied */
    const char *reason;  /* NULL: no failure */
    uint64_t sent, received;
    unsigned left_out; /* events dropped since the last reported one */
};

struct egress_ops {
    /* As dns_ops.local: names that are answered whatever the rules say. May be NULL. */
    bool (*local)(void *data, const struct dns_question *q, struct dns_local *ret);
    /* Opens a socket. cb follows once, never from within, unless cancelled. 0 or a negative
     * errno. */
    int (*open)(void *data, const struct egress_want *want, dns_socket_fn *cb, void *who,
                void **ret_handle, struct err *err);
    /* Returns a spare EGRESS_DIRECT socket, which the caller then owns, or -1: `open` makes one. */
    int (*spare)(void *data, int family);
    void (*cancel)(void *handle);
    void (*event)(void *data, const struct egress_event *e);
    /* A problem that the operator should know, rate-limited. why: detail, or NULL. */
    void (*trouble)(void *data, const char *what, const char *why);
};

/* poller, relays, ca and proxy are borrowed. */
int egress_hub_new(struct evloop *evloop, struct relay_hub *relays, struct ca *ca,
                   const struct proxy_config *proxy, const struct egress_limits *limits,
                   const struct egress_ops *ops, struct egress_hub **ret, struct err *err);
/* Every egress_ctx is closed before. NULL is allowed. */
void egress_hub_close(struct egress_hub *h);

/* id: the sandbox's id, a hexadecimal number. Takes rules on success. data is passed to the ops. */
int egress_ctx_new(struct egress_hub *h, const char *id, struct egress_rules *rules, void *data,
                   struct egress_ctx **ret, struct err *err);
/* Resets all connections and frees b. NULL is allowed. */
void egress_ctx_close(struct egress_ctx *b);

/* Serves the TCP listener and UDP socket of one family. Always takes both. */
int egress_ctx_listen(struct egress_ctx *b, int tcp, int udp, struct err *err);
/* Sets the addresses of the link: `gateway`, whose EGRESS_PROXY_PORT is the explicit proxy, and
 * the sandbox's own. Without this call the sandbox has no link. */
void egress_ctx_place(struct egress_ctx *b, const struct net_addr *gateway,
                      const struct net_addr *own);

/* Replaces the rules (taken). Connections that the new rules deny or send elsewhere are reset;
 * open HTTP connections are decided anew with each request. */
void egress_ctx_rules(struct egress_ctx *b, struct egress_rules *rules);

struct egress_sidecar {
    char handler[ADDRESS_TEXT_MAX]; /* destination of every connection */
    bool tls, dns, internet;
};
/* Switches to sidecar mode. names: the names that its DNS handles, taken; NULL: unchanged. */
void egress_ctx_sidecar(struct egress_ctx *b, const struct egress_sidecar *s,
                        struct egress_rules *names);

/* Reports a problem by ops->trouble, rate-limited. what: a string literal. */
void egress_ctx_trouble(struct egress_ctx *b, const char *what);
