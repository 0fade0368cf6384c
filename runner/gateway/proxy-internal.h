#pragma once

/* The parts of proxy.h: proxy.c shared state and the pool of server connections; proxy-conn.c
 * one client connection. */

#include "gateway/endpoint.h"
#include "gateway/proxy.h"
#include "http/message.h"

enum {
    PROXY_FLUSH_MS = 60 * 1000, /* while the client reads nothing of the proxy's last reply */
    PROXY_LINGER_MS = 2000,     /* how long a client's further bytes are discarded after its last
                                 * reply: closing earlier could send a RST that destroys the
                                 * reply */
    PROXY_LINGER_MAX = 4 << 20, /* and how many bytes */
    PROXY_ROUNDS = 64,          /* steps of a connection before other watches are served */
};

/* HEAD      reads a request's head; idle while no byte of it has arrived
 * CONNECT   the request is routed, its server is being connected
 * EXCHANGE  bodies and the reply are forwarded
 * TUNNEL    after a 101: raw bytes
 * FLUSH     the last reply is written out
 * LINGER    our direction is shut down; input is discarded
 * OVER      to be freed */
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
    struct message req;           /* valid from its head to the end of its exchange */
    struct buf head;              /* the request's head as forwarded; kept until the reply begins */
    void *connecting;             /* handle of ops->connect */
    void *context;                /* set by proxy_adopt's caller */
    enum msg_framing out_framing; /* of the reply's body as written to the client */
    char key[PROXY_KEY_MAX], peer[PROXY_PEER_MAX];

    bool once;    /* serves a single request, for this key */
    bool entered; /* ops->enter was called without ops->leave */
    bool trusted;
    bool keep;        /* another request may follow */
    bool reused;      /* the server's connection comes from the pool */
    bool replying;    /* the final reply's head has been forwarded */
    bool server_keep; /* the server allows another request on its connection */
    bool deaf;        /* the server reads no more of the request */
    bool reset;       /* close with RST: the reply is truncated */
    unsigned interim;
    size_t discarded;
    struct deadline clock;
    unsigned clock_ms; /* the clock's duration; 0 = not set */
};

struct idle_server {
    struct endpoint server; /* first */
    struct proxy *proxy;
    struct idle_server *next, **link;
    struct deadline clock;
    char key[PROXY_KEY_MAX];
};

struct proxy {
    struct evloop *evloop;
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
/* Takes an idle connection to key from the pool; the caller owns it. -1: none. */
int pool_get(struct proxy *p, const char *key);
/* Puts fd into the pool, or closes it if the pool is full. */
void pool_put(struct proxy *p, const char *key, int fd);

/* proxy-conn.c */
void conn_begin(struct proxy_conn *c);
void conn_destroy(struct proxy_conn *c);
int on_request_data(void *data, const char *at, size_t len);
int on_reply_data(void *data, const char *at, size_t len);
void on_client_event(struct fd_watch *w, unsigned events);
