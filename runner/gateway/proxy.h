#pragma once

/* A reverse proxy for HTTP/1.1: forwards requests of clients to servers inside sandboxes and
 * streams bodies both ways with back-pressure. Both sides are hostile: heads and framing are
 * written anew from what was parsed (http/message.h). A server's connection is reused only if no
 * byte of one exchange can be taken for part of the next.
 *
 * A 101 reply turns the connection into a relay.
 *
 * The owner's proxy_ops route requests and connect to servers. Runs in the supervisor's loop
 * thread. */

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/evloop.h"

struct err;
struct message;
struct proxy;
struct proxy_conn;
struct relay_hub;

enum {
    PROXY_KEY_MAX = 96,  /* bytes of "<sandbox>/<port>". The sandbox is a hexadecimal number,
                          * which is also the relay group of its upgraded connections */
    PROXY_PEER_MAX = 64, /* bytes of a client's address as text */
};

/* Limits, their defaults, and the errors when they are reached. */
enum {
    PROXY_MAX = 16384,             /* client connections; more are closed at once */
    PROXY_HEAD = 64 << 10,         /* bytes of a head: 431; of a reply's head: 502 */
    PROXY_HEADERS = 128,           /* header lines: 431, 502 */
    PROXY_URL = 16 << 10,          /* bytes: 414 */
    PROXY_QUEUE = 64 << 10,        /* bytes queued for one side before reading from the other
                                    * stops */
    PROXY_IDLE_MS = 75 * 1000,     /* between requests */
    PROXY_HEAD_MS = 30 * 1000,     /* from a head's first byte to its last: 408 */
    PROXY_REPLY_MS = 300 * 1000,   /* until the reply begins: 504 */
    PROXY_STREAM_MS = 3600 * 1000, /* without a byte in either direction: reset */
    PROXY_POOL = 256,              /* idle server connections */
    PROXY_POOL_KEY = 16,           /* idle server connections per port */
    PROXY_POOL_MS = 4 * 1000,      /* how long they stay idle: less than servers wait (5 s is
                                    * usual) */
    PROXY_INTERIM = 16,            /* interim replies (1xx) per request: 502 */
};

struct proxy_config {
    unsigned max, head_bytes, headers, url_bytes;
    unsigned idle_ms, head_ms, reply_ms, stream_ms, pool, pool_key, pool_ms;
    bool outbound; /* egress: adds no information about the client */
    bool previews; /* clients without a key come by preview URLs: their cookies are kept apart */
};
void proxy_config_init(struct proxy_config *config);

struct proxy_ops {
    /* Routes a request. 0: key is set; otherwise the HTTP status of a refusal, with its JSON
     * body. */
    int (*route)(void *data, struct proxy_conn *c, const struct message *req,
                 char key[PROXY_KEY_MAX], struct buf *body);
    /* Counts a client connection for key. 0, or -EAGAIN with err set (answered 503). The count
     * ends with `leave`, or with the relay that the connection becomes (relay_config.left). Both
     * may be NULL. */
    int (*enter)(void *data, const char *key, struct err *err);
    void (*leave)(void *data, const char *key);
    /* Connects to the server of key. Either *ret_fd is the connection, or it is -1 and
     * proxy_connected follows once, never from within. Negative errno: failed, no call follows. */
    int (*connect)(void *data, const char *key, struct proxy_conn *c, void **ret_handle,
                   int *ret_fd, struct err *err);
    /* Cancels a pending connect: proxy_connected is not called. */
    void (*cancel)(void *handle);
    /* A plain connection has become a tunnel (101); the callee takes both sockets. NULL: a relay
     * of the key's group is made. `closed` follows in any case. */
    void (*upgraded)(void *data, void *context, int client, int server);
    /* The connection has ended. bytes: received from and sent to the client, before an upgrade.
     * May be NULL. */
    void (*closed)(void *data, void *context, const uint64_t bytes[2]);
    /* A message was refused. key: of the server that sent it, "" = the client sent it. May be
     * NULL. */
    void (*refused)(void *data, const char *key, const char *peer, int status, const char *why);
};

/* poller, hub and ops are borrowed. config may be NULL. 0 or a negative errno. */
int proxy_new(struct evloop *evloop, struct relay_hub *hub, const struct proxy_config *config,
              const struct proxy_ops *ops, void *data, struct proxy **ret, struct err *err);
/* Resets every connection and frees p. NULL is allowed. */
void proxy_close(struct proxy *p);
/* Resets the connections for whose context `is` returns true. Not to be called from within an
 * op. */
void proxy_end(struct proxy *p, bool (*is)(const void *context, const void *data),
               const void *data);
/* True if the connection was upgraded (101) and carries no more requests. */
bool proxy_is_tunnel(const struct proxy_conn *c);
unsigned proxy_count(const struct proxy *p);
/* Returns the number of idle server connections. */
unsigned proxy_pooled(const struct proxy *p);

/* Completes a pending ops->connect with fd (taken; connected, TCP) or an error. -ECONNABORTED:
 * the client is reset without an answer. */
void proxy_connected(struct proxy_conn *c, int r, int fd, const struct err *err);

struct proxy_client {
    SSL *ssl;          /* always taken; NULL = plain */
    const char *peer;  /* the client's address as text, or "" */
    bool trusted;      /* the client may be a proxy on this machine (http/message.h) */
    const char *key;   /* if not NULL: serve a single request, for this key */
    const char *early; /* bytes already read from the client */
    size_t early_len;
    void *context; /* for the ops, see proxy_context */
};
void *proxy_context(const struct proxy_conn *c);
/* Serves a client; takes fd on success. -EAGAIN: limit maxGatewayConnections. */
int proxy_adopt(struct proxy *p, int fd, const struct proxy_client *client, struct err *err);
