#pragma once

/* proxy.c: what all connections share, and servers' connections that wait; proxy-conn.c: one
 * client's connection. */

#include "gateway/endpoint.h"
#include "gateway/message.h"
#include "gateway/proxy.h"

enum {
    PROXY_FLUSH_MS = 60 * 1000, /* a reply of the proxy's own of which the client takes nothing */
    PROXY_LINGER_MS = 2000,     /* how long what a client still sends is thrown away after its last
                                   reply: closing earlier could destroy it on its way */
    PROXY_LINGER_MAX = 4 << 20, /* and how much */
    PROXY_ROUNDS = 64,          /* steps of a connection before others get their turn */
};

/*
 * HEAD      reads a request's head; idle when no byte of it is there
 * CONNECT   the request has been read and routed; its server is being connected
 * EXCHANGE  bodies and the reply are on their way
 * TUNNEL    after a 101: bytes
 * FLUSH     a reply of our own is written
 * LINGER    our direction is shut; what still comes is thrown away
 * OVER      to be freed
 */
enum proxy_phase {
    PHASE_HEAD,
    PHASE_CONNECT,
    PHASE_EXCHANGE,
    PHASE_TUNNEL,
    PHASE_FLUSH,
    PHASE_LINGER,
    PHASE_OVER,
    PHASES
};

struct proxy_conn {
    struct proxy *proxy;
    struct proxy_conn *next, **link;
    enum proxy_phase phase;
    struct endpoint client, server; /* server.fd -1: none */
    struct reader request, reply;
    struct message req;           /* between its head and the end of its exchange */
    struct buf head;              /* of the request as it goes on; kept until the reply begins */
    void *connecting;             /* handle of ops->connect */
    void *context;                /* the adopter's */
    enum msg_framing out_framing; /* of the reply's body towards the client */
    char key[PROXY_KEY_MAX], peer[PROXY_PEER_MAX];

    bool once;    /* one request only, for this key */
    bool entered; /* ops->enter */
    bool trusted;
    bool keep;        /* another request may follow */
    bool reused;      /* the server's connection has served others */
    bool replying;    /* the head of the final reply has been passed on */
    bool server_keep; /* the server lets its connection be used again */
    bool deaf;        /* the server takes no more of the request */
    bool reset;       /* the client is to see that the reply broke off */
    unsigned interim;
    size_t discarded;
    struct deadline clock;
    unsigned clock_ms; /* that it was set with; 0 = not */
};

struct idle_server {
    struct endpoint server; /* first */
    struct proxy *proxy;
    struct idle_server *next, **link;
    struct deadline clock;
    char key[PROXY_KEY_MAX];
};

struct proxy {
    struct poller *poller;
    struct relay_hub *hub;
    struct proxy_config config;
    const struct proxy_ops *ops;
    void *data;
    struct proxy_conn *conns;
    unsigned count;
    struct idle_server *idle;
    unsigned idle_count;
};

/* proxy.c */
/* A waiting connection to key, out of the pool; -1: none. */
int pool_get(struct proxy *p, const char *key);
/* Takes fd; closes it where there is no room. */
void pool_put(struct proxy *p, const char *key, int fd);

/* proxy-conn.c */
void conn_begin(struct proxy_conn *c);
void conn_destroy(struct proxy_conn *c);
int on_request_data(void *data, const char *at, size_t len);
int on_reply_data(void *data, const char *at, size_t len);
void on_client_event(struct watch *w, unsigned events);
