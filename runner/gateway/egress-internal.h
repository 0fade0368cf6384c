#pragma once

/* The parts of egress.h:
 *
 *   egress.c         hub, per-sandbox contexts, decisions
 *   egress-conn.c    a connection until its destination is known
 *   egress-dial.c    connecting to the destination
 *   egress-http.c    HTTP, decided per request
 *   egress-tunnel.c  TLS terminated here and forwarded as plain bytes
 *
 * All run in the supervisor's loop thread. */

#include <openssl/types.h>

#include "gateway/egress.h"
#include "gateway/names.h"
#include "gateway/proxy.h"
#include "gateway/relay.h"
#include "gateway/tls-client-hello.h"

struct egress_conn;
struct egress_tunnel;
struct listener;
struct said;

enum { TROUBLE_MAX = 16 /* distinct messages that are rate-limited separately */ };

struct egress_hub {
    struct evloop *evloop;
    struct relay_hub *relays;
    struct ca *ca;
    struct proxy *proxy; /* owned */
    SSL_CTX *probe;      /* owned */
    struct egress_limits limits;
    unsigned idle_ms; /* idle time-out of a tunnel, as of a relay */
    const struct egress_ops *ops;
    uint64_t serial;
    unsigned count; /* connections of all sandboxes */
};

/* A message that was logged, and when. */
struct said {
    const char *what; /* a string literal; compared by strcmp */
    uint64_t at;
};

struct egress_ctx {
    struct egress_hub *hub;
    void *data;
    char id[32];
    struct egress_rules *rules; /* owned; with a sidecar: the names it handles */
    uint64_t generation;        /* counts changes of the rules */
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
    unsigned told, left_out; /* events reported and dropped in this second */
    uint64_t told_since;
};

/* egress.c */
struct decision {
    const struct egress_rule *rule; /* valid until the rules change; NULL = the default applied */
    enum egress_action action;
    const char *handler; /* of the rule */
    const char *reason;  /* for a denial without a rule */
};
/* Decides about a connection. name: what the connection shows, or NULL. open: the client did not
 * resolve the name, so an allowed name need not have been resolved to this address. */
struct decision egress_decide(struct egress_ctx *b, enum egress_kind kind, const char *name,
                              const struct address *to, bool open);
/* Adds `more` (1 or -1) to the connection counts of the sandbox and the hub. */
void egress_count(struct egress_ctx *b, int more);
/* True if the sandbox may open no more connections. The hub's limit is shared: above
 * EGRESS_CONNECTIONS_ALL in total, only sandboxes below EGRESS_CONNECTIONS_SHARE get new ones. */
bool egress_is_full(const struct egress_ctx *b);
/* Reports a problem by ops->trouble, each `what` at most once in EGRESS_SAID_MS. what: a string
 * literal; why: detail, or NULL. */
void egress_trouble(struct egress_ctx *b, const char *what, const char *why);
/* Reports a finished or refused connection by ops->event, rate-limited; sets e->left_out. */
void egress_tell(struct egress_ctx *b, struct egress_event *e);
const char *egress_verdict(enum egress_action action);
/* The action to report for a failed dial: EGRESS_DENY if the rules denied the dialled address. */
enum egress_action egress_failed_as(enum egress_action action, int r);
struct net_addr egress_addr(const struct address *a);

/* egress-conn.c */
void egress_accept(struct egress_ctx *b, int fd);
/* Joins two connected sockets whose destination is already decided. Always takes both. */
struct joined {
    enum egress_kind kind;
    const char *name, *handler, *rule; /* or NULL */
    struct address to;
    enum egress_action action;
    bool explicit_proxy;
};
void egress_join(struct egress_ctx *b, int client, int server, const struct joined *j);
void egress_conns_close(struct egress_ctx *b);
void egress_conns_review(struct egress_ctx *b);
void egress_reset(int fd);
/* Stores the peer address of fd in *to: the one of the name's addresses that was reached. */
void egress_dialled_to(int fd, struct address *to);
/* True if decision d equals an earlier one with this action and handler (or NULL). */
bool egress_stands(const struct decision *d, enum egress_action action, const char *handler);
/* Replaces an owned string, or clears it with NULL. False: out of memory. */
bool egress_copy(char **to, const char *from);

/* egress-dial.c */
enum {
    DIAL_ADDRESSES = 8, /* addresses of a name that are tried */
    DIAL_TRY_MS = 1000, /* for each but the last */
};
struct egress_dial;
struct dial_request {
    const char *handler; /* NULL: connect to `to` itself */
    const char *resolve; /* the name to look up, or NULL. Its addresses are tried if `to` has
                          * none, or if `to` was given out for the name and is unreachable. */
    struct address to;
    enum egress_kind kind;  /* each address is decided as this kind */
    const char *name, *sni; /* sent to a handler */
    const char *protocol;
};
/* r < 0: err describes the failure of the first address. status: a handler's answer, 200 to 299;
 * 0 without handler. The callee owns fd. */
typedef void dial_fn(void *who, int r, int fd, int status, const struct err *err);
/* Tries the addresses in turn, IPv4 first, each only if the rules allow it: so an allowed name
 * does not open a denied address. cb follows once, never from within. Strings are copied. */
int egress_dial(struct egress_ctx *b, const struct dial_request *q, dial_fn *cb, void *who,
                struct egress_dial **ret, struct err *err);
void egress_dial_cancel(struct egress_dial *d);

/* egress-http.c */
extern const struct proxy_ops egress_proxy_ops;
/* Hands a connection to the proxy; takes fd on success. sni: TLS is terminated here for this
 * name; NULL: plain. explicit_proxy: the client addresses the gateway as a proxy. 0 or a
 * negative errno. */
int egress_http(struct egress_ctx *b, int fd, const struct address *to, const char *sni,
                bool explicit_proxy, struct err *err);
/* Ends the tunnels (101) that changed rules no longer allow. */
void egress_https_review(struct egress_ctx *b);
void egress_https_close(struct egress_ctx *b);

/* egress-tunnel.c */
/* Terminates the client's TLS for `sni` and forwards plain bytes to server. Always takes both
 * sockets. */
void egress_tunnel(struct egress_ctx *b, int client, const char *sni, const struct address *to,
                   int server);
void egress_tunnels_close(struct egress_ctx *b);
