#pragma once

/*
 * What leaves sandboxes: connections that the kernel has redirected to listeners inside their
 * namespaces, and questions for names. One hub for all, one box for each sandbox; whose a
 * connection is, the listener says. Where it goes, the rules say (policy/egress.h): a connection's
 * first bytes are looked at without taking them (TLS's name, HTTP's host), for a short while where
 * a server may be the one who speaks first.
 *
 *   deny     reset
 *   allow    joined to a socket of the sandbox's own namespace that its table lets through: the
 *            host's firewall still decides. A host name opens the addresses that the resolver has
 *            given out for it, while they live, and no others
 *   handler  asked by HTTP CONNECT; anything but 200 in time is a reset, never a way around it.
 *            TLS is ended here, with a certificate of the CA's, and the handler sees plain bytes
 *
 * HTTP is read request by request (proxy.h), plain as well as from within TLS: each one goes where
 * the rules say at that moment.
 *
 * As a sidecar (box_sidecar) all of that is left to one handler, which answers 200 (TLS is ended),
 * 202 (bytes as they are) or an error for every connection.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "gateway/dns.h"
#include "gateway/poller.h"
#include "policy/egress.h"

struct ca;
struct egress_box;
struct egress_hub;
struct err;
struct proxy_config;
struct relay_hub;

/* Limits; each has its default here. */
enum {
    EGRESS_CONNECTIONS = 1024,     /* of one sandbox; more are reset (maxEgressConnections) */
    EGRESS_CONNECTIONS_ALL = 8192, /* of all sandboxes; beyond it, those that have more than */
    EGRESS_CONNECTIONS_SHARE = 64, /* this many get no more */
    EGRESS_PEEK_MS = 100,          /* for the first byte, where the server may speak first */
    EGRESS_HELLO_MS = 10 * 1000,   /* for the rest of it, and where clients speak first */
    EGRESS_DIAL_MS = 10 * 1000,    /* for a server's connection */
    EGRESS_HANDLER_MS = 30 * 1000, /* for a handler's answer (egressHandlerTimeoutMs) */
    EGRESS_NAME_MS = 60 * 1000, /* that an address lives for its name at least, and beyond its time
                                   to live: clients keep it as well */
    EGRESS_EVENTS = 20,         /* told in a second of one sandbox; the rest is counted */
    EGRESS_SAID_MS = 60 * 1000, /* the same trouble is logged once in this time */
};

struct egress_limits {
    unsigned connections, handler_ms, queries_per_second;
};

enum egress_socket {
    EGRESS_DIRECT,   /* of the sandbox's namespace and this family, not connected */
    EGRESS_HANDLER,  /* to this handler */
    EGRESS_RESOLVER, /* to the index'th name server of the host's */
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
    const char *rule;    /* as it was written; NULL = the default */
    const char *reason;  /* NULL where nothing went wrong */
    uint64_t sent, received;
    unsigned left_out; /* events before this one that were not told */
};

struct egress_ops {
    /* A socket for what is to be connected; cb follows once, not from within, unless cancelled. */
    int (*open)(void *data, const struct egress_want *want, dns_socket_fn *cb, void *who,
                void **ret_handle, struct err *err);
    /* One for EGRESS_DIRECT that is there already, the caller's; or -1: then `open` gets one. */
    int (*spare)(void *data, int family);
    void (*cancel)(void *handle);
    void (*event)(void *data, const struct egress_event *e);
    /* Something that whoever runs the daemon should know, once in a while; why: or NULL. */
    void (*trouble)(void *data, const char *what, const char *why);
};

/* poller, relays, ca, proxy: borrowed. */
int egress_hub_new(struct poller *poller, struct relay_hub *relays, struct ca *ca,
                   const struct proxy_config *proxy, const struct egress_limits *limits,
                   const struct egress_ops *ops, struct egress_hub **ret, struct err *err);
/* Every box is gone before. NULL is fine. */
void egress_hub_close(struct egress_hub *h);

/* id: the sandbox's, a hexadecimal number; rules: taken on success. data: for the ops. */
int egress_box_new(struct egress_hub *h, const char *id, struct egress_rules *rules, void *data,
                   struct egress_box **ret, struct err *err);
/* Resets everything. NULL is fine. */
void egress_box_close(struct egress_box *b);

/* The two sockets of one family, both taken in any case. */
int egress_box_listen(struct egress_box *b, int tcp, int udp, struct err *err);
/* Where it is: the address whose EGRESS_PROXY_PORT is redirected here, too (the explicit proxy),
 * and its own. Without this call it has no link. */
void egress_box_place(struct egress_box *b, const struct net_addr *gateway,
                      const struct net_addr *own);

/* Takes rules. Connections that the new ones let go somewhere else, or nowhere, are reset; requests
 * of the others are looked up again one by one. */
void egress_box_rules(struct egress_box *b, struct egress_rules *rules);

struct egress_sidecar {
    char handler[ADDRESS_TEXT_MAX]; /* where every connection goes */
    bool tls, dns, internet;
};
/* From now on a sidecar's; rules: names that its DNS knows (as handled); taken; NULL: as before. */
void egress_box_sidecar(struct egress_box *b, const struct egress_sidecar *s,
                        struct egress_rules *names);

/* Tells of trouble by ops->trouble, once in a while. what: of code. */
void egress_box_trouble(struct egress_box *b, const char *what);
