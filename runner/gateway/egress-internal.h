#pragma once

/* The parts of egress.h: egress.c hub, boxes, decisions; egress-conn.c one connection until it is
 * known where it goes; egress-dial.c the way there; egress-http.c requests, one by one;
 * egress-tunnel.c TLS that is ended here and goes on as plain bytes. */

#include <openssl/types.h>

#include "gateway/egress.h"
#include "gateway/hello.h"
#include "gateway/names.h"
#include "gateway/proxy.h"
#include "gateway/relay.h"

struct egress_conn;
struct egress_tunnel;
struct listener;
struct said;

enum { TROUBLE_MAX = 16 /* different ones that are told apart */ };

struct egress_hub {
    struct poller *poller;
    struct relay_hub *relays;
    struct ca *ca;
    struct proxy *proxy; /* owned */
    SSL_CTX *probe;      /* owned */
    struct egress_limits limits;
    unsigned idle_ms; /* of a tunnel: as a relay's */
    const struct egress_ops *ops;
    uint64_t serial;
    unsigned count; /* connections of all boxes */
};

/* What was logged, and when. */
struct said {
    const char *what; /* of code: compared by its text */
    uint64_t at;
};

struct egress_box {
    struct egress_hub *hub;
    void *data;
    char id[32];
    struct egress_rules *rules; /* owned; as a sidecar: its names */
    uint64_t generation;        /* of the rules */
    bool is_sidecar;
    struct egress_sidecar sidecar;
    struct names *names; /* owned */
    struct dns *dns;     /* owned */
    struct listener *listeners[2];
    unsigned listener_count;
    struct net_addr gateway; /* family 0: none */
    char own[NET_ADDR_TEXT_MAX];
    struct egress_conn *conns;
    struct egress_tunnel *tunnels;
    unsigned count;
    struct said said[TROUBLE_MAX];
    unsigned told, left_out; /* events of this second */
    uint64_t told_since;
};

/* egress.c */
struct decision {
    const struct egress_rule *rule; /* valid until the rules change; NULL = the default */
    enum egress_action action;
    const char *handler; /* of the rule */
    const char *reason;  /* of a denial that no rule asked for */
};
/* name: what the connection shows, or NULL; open: an allowed name needs no address that was given
 * out for it (whoever asked did not resolve it). */
struct decision egress_decide(struct egress_box *b, enum egress_kind kind, const char *name,
                              const struct address *to, bool open);
void egress_count(struct egress_box *b, int more);
/* Whether it has as many connections as it may. What the gateway holds is everybody's: when all
 * sandboxes together have half of that, those with more than their share get no more. */
bool egress_is_full(const struct egress_box *b);
/* what: of code; logged once in a while, with `why` (or NULL) of then. */
void egress_trouble(struct egress_box *b, const char *what, const char *why);
void egress_tell(struct egress_box *b, struct egress_event *e);
const char *egress_verdict(enum egress_action action);
/* What is told of a connection that could not be dialled: its address may have been denied. */
enum egress_action egress_failed_as(enum egress_action action, int r);
struct net_addr egress_addr(const struct address *a);

/* egress-conn.c */
void egress_accept(struct egress_box *b, int fd);
/* One that is connected already, and was decided so: from now on like any. Both are taken. */
struct joined {
    enum egress_kind kind;
    const char *name, *handler, *rule; /* or NULL */
    struct address to;
    enum egress_action action;
    bool explicit_proxy;
};
void egress_join(struct egress_box *b, int client, int server, const struct joined *j);
void egress_conns_close(struct egress_box *b);
void egress_conns_review(struct egress_box *b);
void egress_reset(int fd);
/* The address that it is connected to: of several that the name has. */
void egress_dialled_to(int fd, struct address *to);
/* Whether what was decided so, with this handler (or NULL), would be decided so again. */
bool egress_stands(const struct decision *d, enum egress_action action, const char *handler);
/* Sets an owned text, or NULL; false: out of memory. */
bool egress_copy(char **to, const char *from);

/* egress-dial.c */
enum {
    DIAL_ADDRESSES = 8, /* of one name, that are tried, */
    DIAL_TRY_MS = 1000, /* and how long, where there are more */
};
struct egress_dial;
struct dial_request {
    const char *handler; /* NULL: to `to` itself */
    const char *resolve; /* its name, or NULL: whose addresses are tried where `to` has none, and
                            where that one, given out for the name, cannot be reached */
    struct address to;
    enum egress_kind kind;  /* what each address of a name is decided as */
    const char *name, *sni; /* told to a handler */
    const char *protocol;
};
/* r < 0: err says why, for the first address that was tried. status: a handler's answer, 200 to
 * 299; 0 without one. fd: the callee's. */
typedef void dial_fn(void *who, int r, int fd, int status, const struct err *err);
/* Tries addresses one after the other, those of IPv4 first, each only where the rules let it: with
 * many of them an allowed name is no way to one that is denied. cb follows once, not from within.
 * Strings are copied. */
int egress_dial(struct egress_box *b, const struct dial_request *q, dial_fn *cb, void *who,
                struct egress_dial **ret, struct err *err);
void egress_dial_cancel(struct egress_dial *d);

/* egress-http.c */
extern const struct proxy_ops egress_proxy_ops;
/* Hands a connection to the proxy; fd is taken on success. sni: TLS is ended here for this name;
 * explicit: the client means to talk to a proxy. */
int egress_http(struct egress_box *b, int fd, const struct address *to, const char *sni,
                bool explicit_proxy, struct err *err);
/* The rules have changed: ends those that were upgraded and may not go on where they went. */
void egress_https_review(struct egress_box *b);
void egress_https_close(struct egress_box *b);

/* egress-tunnel.c */
/* Both are taken in any case. */
void egress_tunnel(struct egress_box *b, int client, const char *sni, const struct address *to,
                   int server);
void egress_tunnels_close(struct egress_box *b);
