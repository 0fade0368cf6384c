#pragma once

/*
 * A reverse proxy for HTTP/1.1: requests of clients go to servers inside sandboxes, replies come
 * back, bodies are streamed in both directions with the slower side in charge. Both are hostile:
 * what is passed on is written anew from what was read (message.h), and a server's connection is
 * used again only where nothing of one exchange can be taken for part of the next.
 *
 * An upgrade that the server answers with 101 becomes a relay.
 *
 * Who a request is for, and how its server is reached, others know:
 */

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "gateway/poller.h"

struct err;
struct message;
struct proxy;
struct proxy_conn;
struct relay_hub;

enum {
    PROXY_KEY_MAX = 96, /* bytes of "<sandbox>/<port>"; the sandbox is a hexadecimal number, and the
                           group of the relays that its upgrades become */
    PROXY_PEER_MAX = 64, /* bytes of a client's address as text */
};

/* Limits: each has a name, its default here, and its error when it is hit. */
enum {
    PROXY_MAX = 16384,             /* connections of clients; more: closed at once */
    PROXY_HEAD = 64 << 10,         /* bytes of a head: 431; of a reply's: 502 */
    PROXY_HEADERS = 128,           /* lines: 431, 502 */
    PROXY_URL = 16 << 10,          /* bytes: 414 */
    PROXY_QUEUE = 64 << 10,        /* bytes that wait for either side before the other is made to */
    PROXY_IDLE_MS = 75 * 1000,     /* between requests */
    PROXY_HEAD_MS = 30 * 1000,     /* from a head's first byte to its last: 408 */
    PROXY_REPLY_MS = 300 * 1000,   /* until a server begins to answer: 504 */
    PROXY_STREAM_MS = 3600 * 1000, /* without a byte in either direction: reset */
    PROXY_POOL = 256,              /* servers' connections kept for the next request, */
    PROXY_POOL_KEY = 16,           /* of one port, */
    PROXY_POOL_MS = 4 * 1000,      /* and how long: less than servers wait (5 s is usual) */
    PROXY_INTERIM = 16,            /* interim replies (1xx) to a request: 502 */
};

struct proxy_config {
    unsigned max, head_bytes, headers, url_bytes;
    unsigned idle_ms, head_ms, reply_ms, stream_ms, pool, pool_key, pool_ms;
    bool outbound; /* to servers of others: nothing is said about who asks */
};
void proxy_config_init(struct proxy_config *config);

struct proxy_ops {
    /* Whom this request is for: 0 and its key, or the HTTP status of a refusal with its JSON body.
     */
    int (*route)(void *data, struct proxy_conn *c, const struct message *req,
                 char key[PROXY_KEY_MAX], struct buf *body);
    /* A client's connection is for key now: 0, or -EAGAIN and err (it is answered 503). It is until
     * leave, or until the relay that it becomes has ended, which the hub's `left` tells. Both may
     * be NULL. */
    int (*enter)(void *data, const char *key, struct err *err);
    void (*leave)(void *data, const char *key);
    /* Connects to what key names: *ret_fd is the connection, or -1, and proxy_connected follows
     * once, not from within. Negative errno: it does not. */
    int (*connect)(void *data, const char *key, struct proxy_conn *c, void **ret_handle,
                   int *ret_fd, struct err *err);
    /* proxy_connected does not follow any more. */
    void (*cancel)(void *handle);
    /* A plain connection has become a tunnel (101), and both sockets are taken; NULL: a relay of
     * the group that the key begins with. `closed` follows all the same. */
    void (*upgraded)(void *data, void *context, int client, int server);
    /* The connection is over; may be NULL. bytes: that came from the client, and that it was sent,
     * before any upgrade. */
    void (*closed)(void *data, void *context, const uint64_t bytes[2]);
    /* A client's or server's message was refused; may be NULL. key: whose server it was; "" = the
     * client's. */
    void (*refused)(void *data, const char *key, const char *peer, int status, const char *why);
};

/* poller, hub, ops: borrowed. config may be NULL. */
int proxy_new(struct poller *poller, struct relay_hub *hub, const struct proxy_config *config,
              const struct proxy_ops *ops, void *data, struct proxy **ret, struct err *err);
/* Resets every connection. NULL is fine. */
void proxy_close(struct proxy *p);
/* Resets the connections whose context `is` says yes to. Not from within an op. */
void proxy_end(struct proxy *p, bool (*is)(const void *context, const void *data),
               const void *data);
/* Whether it was upgraded (101): its bytes are nobody's requests any more. */
bool proxy_is_tunnel(const struct proxy_conn *c);
unsigned proxy_count(const struct proxy *p);
/* Connections of servers that wait for the next request. */
unsigned proxy_pooled(const struct proxy *p);

/* How a connection of the connect op came out: fd (taken; connected, TCP) or r and err.
 * -ECONNABORTED: the client is reset without an answer. */
void proxy_connected(struct proxy_conn *c, int r, int fd, const struct err *err);

struct proxy_client {
    SSL *ssl;          /* taken in any case; NULL = plain */
    const char *peer;  /* its address, or "" */
    bool trusted;      /* a proxy of this machine could be there (message.h) */
    const char *key;   /* not NULL: every request is for this one, and there is one request only */
    const char *early; /* read of it already */
    size_t early_len;
    void *context; /* for the ops: proxy_context */
};
void *proxy_context(const struct proxy_conn *c);
/* Serves a client; fd is taken on success. -EAGAIN: limit maxGatewayConnections. */
int proxy_adopt(struct proxy *p, int fd, const struct proxy_client *client, struct err *err);
