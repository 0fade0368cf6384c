#pragma once

/* The HTTP/1.1 server, on libuv and llhttp. It knows routes, requests and replies, but no
 * resources. Everything here runs in one loop's thread.
 *
 * Contract of a handler: it is called once per request (when the body is complete; at once for
 * ROUTE_STREAM) and owes exactly one end: http_reply, http_end or http_abort, now or later. The
 * request stays valid until then, and is freed by it. If the client goes away first, `gone` is
 * set and on_gone is called once, from the loop, never from within a call of the handler. The
 * end is still owed (and may be made within on_gone); nothing is sent. So an asynchronous
 * operation may keep the pointer, and a long one sets on_gone to stop when no client waits.
 *
 * A client on a unix socket is gone when it has closed its socket. If it has only half-closed,
 * it still gets its answer; on TCP the two cannot be told apart until something is written. A
 * request that arrived whole before the close is carried out all the same.
 *
 *     static void get_thing(struct http_request *req)
 *     {
 *         req->data = thing;
 *         thing_load(thing, on_loaded, req);          calls back exactly once, later
 *     }
 *     static void on_loaded(void *data, int r, const struct err *err)
 *     {
 *         struct http_request *req = data;
 *         if (r < 0)
 *             reply_error(req, err);                  (reply.h)
 *         else
 *             reply_json(req, 200, encode_thing(req->data));
 *     } */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/buf.h"
#include "http/head.h"

struct err;
struct http_conn;
struct http_request;
struct http_server;
struct route;
struct route_set;

/* ---- limits ---- */

/* Each limit has a name, its default here, and an error. */
enum {
    HTTP_MAX_CONNECTIONS = 1024,    /* more: accepted, answered 503, closed */
    HTTP_MAX_CONNECTIONS_UID = 768, /* per user of a unix socket, not root: 503 */
    HTTP_MAX_HEAD = 192 << 10, /* bytes of request line and headers: 431; of chunk framing: 400 */
    HTTP_MAX_HEADERS = 128,    /* lines: 431 */
    HTTP_MAX_URL = 128 << 10,  /* bytes: 414; large because dockerode sends whole bodies there */
    HTTP_MAX_BODY = 1 << 20,   /* bytes of a buffered body, unless the route sets its own: 413 */
    HTTP_MAX_LARGE_BODY = 6 << 20, /* HTTP_MAX_BODY for ROUTE_LARGE */
    HTTP_MAX_BUFFERED = 256 << 20, /* bytes of heads, bodies, output and replies of all
                                    * connections: 503, or the connection with the most unread
                                    * output is broken */
    HTTP_MAX_PIPELINE =
        64 << 10, /* bytes read ahead while a request is answered; above it reading pauses */
    HTTP_QUEUE_PAUSE = 256 << 10, /* unread reply bytes at which http_write returns true */
    HTTP_QUEUE_MAX = 32 << 20,    /* unread reply bytes at most; more breaks the connection */
    HTTP_IDLE_MS = 75 * 1000,     /* between requests and before the first byte: closed */
    HTTP_HEAD_MS = 30 * 1000,     /* from a head's first byte to its last: 408 */
    HTTP_BODY_MS = 60 * 1000,     /* for a buffered body: 408; between two reads of a streamed body:
                                   * gone */
    HTTP_WRITE_MS = 60 * 1000,    /* for an ended reply without progress: closed */
    /* HTTP_WRITE_MS for an ended stream: its client may have reasons not to read. */
    HTTP_STREAM_WRITE_MS = 3600 * 1000,
    HTTP_MAX_PARAMS = 6, /* names in one pattern */
    HTTP_MAX_LISTENERS = 8,
    HTTP_MAX_GROUPS = 65536, /* the kernel's own bound on supplementary groups */
};

struct http_config {
    unsigned max_connections, max_connections_uid;
    size_t max_head, max_headers, max_url, max_body, max_large_body, max_buffered, max_pipeline;
    size_t queue_pause, queue_max;
    unsigned idle_ms, head_ms, body_ms, write_ms, stream_write_ms;
};

/* Sets the defaults above. */
void http_config_init(struct http_config *config);

/* ---- server ---- */

/* Makes a server without listeners. `sets` (borrowed, ended by {0}) are route tables, searched
 * in order; config may be NULL. -ENOMEM, or -EINVAL for an invalid pattern. */
int http_server_new(uv_loop_t *loop, const struct http_config *config, const struct route_set *sets,
                    struct http_server **ret, struct err *err);
/* Accepts on fd, a listening unix or TCP socket, owned by the server on success. May be called
 * for several. */
int http_server_listen(struct http_server *s, int fd, struct err *err);
/* Serves one connected stream socket, owned by the server on success. */
int http_server_adopt(struct http_server *s, int fd, struct err *err);
/* Stops accepting. Connections without request end at once, the others when answered or after
 * grace_ms. Calls on_closed (may be NULL) when everything including the server is freed: after
 * every handler has made its end, and never before this function returns. To be called once. */
void http_server_close(struct http_server *s, unsigned grace_ms, void (*on_closed)(void *data),
                       void *data);
/* Returns the number of connections in memory, including those whose client is gone but whose
 * handler owes its end. */
size_t http_server_connections(const struct http_server *s);

/* ---- requests ---- */

/* The peer of a unix socket, as of its connect(2). */
struct http_peer {
    bool known; /* false on TCP */
    pid_t pid;
    uid_t uid;
    gid_t gid;
    const gid_t *groups; /* supplementary; belongs to the connection */
    size_t group_count;
};

struct http_param {
    const char *name; /* in the pattern: not NUL-terminated */
    size_t name_len;
    const char *value;
};

typedef void http_body_fn(struct http_request *req, const char *data, size_t len);
typedef void http_event_fn(struct http_request *req);

struct http_request {
    /* For handlers to read. Strings live as long as the request. */
    const char *method;  /* as sent; "HEAD" may be answered by a GET route */
    const char *path;    /* as sent, not decoded, without the query: for messages */
    const char *version; /* "1.41" if the set takes a version prefix and there was one, else NULL */
    const struct route *route;
    const struct http_header *headers;
    size_t header_count;
    int64_t content_length; /* -1: unknown (chunked) or no body */
    struct buf body; /* ROUTE_BODY: the complete body, NUL-terminated; data is NULL if empty */
    bool head;       /* a HEAD request: body bytes written by the handler are dropped */
    bool upgrade;  /* ROUTE_UPGRADE, and the client requests a protocol: http_upgrade may be used */
    bool gone;     /* the client is gone; nothing reaches it */
    void *context; /* the route set's context */

    /* For the handler's own use. */
    void *data;
    http_event_fn *on_drain; /* called when the queue is below HTTP_QUEUE_PAUSE again, after a write
                              * returned true */
    http_event_fn *on_gone;  /* see above; set before the handler returns to the loop */

    /* For route_set.replied: the status of the reply, 0 if the client has gone without one; and the
     * errno of the failure, 0 if there is none. */
    int status, error;
    /* For audit.c: what the request is about. */
    char about[320];
    bool noted;

    /* For lease.c: the object that the request is answered for, and the right to it. */
    char lease[24];
    unsigned lease_right;

    /* For the server's own use. */
    struct http_conn *conn;      /* never NULL */
    size_t size;                 /* of the allocation; counted in the connection's budget */
    const struct route_set *set; /* NULL until a path was parsed */
    struct http_param params[HTTP_MAX_PARAMS];
    size_t param_count;
    char *query; /* decoded in place by http_query; NULL: none */
    char *store; /* room for the decoded path */
    http_body_fn *on_body;
    int64_t reply_left; /* of the Content-Length set by the handler; -1: none */
    bool http10, keep_alive, expect_continue;
    bool patient; /* a stream: HTTP_STREAM_WRITE_MS applies at its end */
    bool dispatched, started, chunked, bodiless, upgraded, ended;
    bool body_done, body_paused, end_told, gone_told, want_drain, told;
    int told_error;
};

/* True while the server closes: a client that is gone now did not leave on its own. */
bool http_closing(const struct http_request *req);
/* Returns the value of the first header of this name (any case), or NULL. */
const char *http_header(const struct http_request *req, const char *name);
/* Returns a decoded part of the path by its name, which must be in the pattern. */
const char *http_param(const struct http_request *req, const char *name);
/* Returns the peer; asks the kernel once per connection. Unreadable groups count as none. */
const struct http_peer *http_peer(struct http_request *req);
/* True if the client has closed its unix socket, although the loop may not have said so yet. */
bool http_client_left(const struct http_request *req);
/* Returns the connection's fd, as proof of the peer's identity; borrowed, -1 if gone. */
int http_peer_fd(const struct http_request *req);
uv_loop_t *http_loop(const struct http_request *req);
/* Calls fn for each request of this server whose handler owes its end, req included. fn must end
 * none. */
void http_each_request(struct http_request *req, void (*fn)(struct http_request *req, void *data),
                       void *data);
/* Breaks the connection from outside its handler, which sees a client that is gone. */
void http_break(struct http_request *req);

/* ---- replies ---- */

/* Sends a complete reply and ends the request. `headers` (may be NULL) ends with {0}. The server
 * adds Date, Server, Connection, Content-Length and Transfer-Encoding. `type` may be NULL (no
 * body, or in headers). The body is copied if it must be queued. */
void http_reply(struct http_request *req, int status, const struct http_header *headers,
                const char *type, const void *body, size_t len);

/* Starts a reply whose body is written piece by piece: chunked, or with the handler's
 * Content-Length header (which must then be kept), or ended by closing for HTTP/1.0. http_write
 * takes all bytes, and returns true if the handler should pause until on_drain or on_gone. */
void http_start(struct http_request *req, int status, const struct http_header *headers,
                const char *type);
bool http_write(struct http_request *req, const void *data, size_t len);
/* Returns the number of bytes queued for the client. */
size_t http_queued(const struct http_request *req);
/* Completes the reply. The request is freed. */
void http_end(struct http_request *req);
/* Breaks the connection, because the reply cannot be completed. The request is freed. */
void http_abort(struct http_request *req);

/* ---- streamed bodies ---- */

/* ROUTE_STREAM: the body is not read, nor "100 Continue" sent, before this call. Then the loop
 * calls on_body for each piece, and with (NULL, 0) once at its end. A truncated body leads to
 * on_gone. The reply may end first. */
void http_body_start(struct http_request *req, http_body_fn *on_body);
/* Pauses and resumes on_body; while paused the client gets back-pressure. Callable from
 * anywhere. */
void http_body_pause(struct http_request *req);
void http_body_resume(struct http_request *req);

/* ---- upgrades ---- */

/* ROUTE_UPGRADE: sends 101 with `Upgrade: protocol` (req->upgrade must be set), or for protocol
 * NULL a plain 200, as Docker does for clients that do not request an upgrade. Then the
 * connection is a raw stream. on_body gets the client's bytes, including those received with the
 * head (pause and resume as above), and (NULL, 0) at its half-close; writing remains possible.
 * http_write writes raw bytes, http_write_pipe bytes from a pipe. http_end closes
 * behind queued bytes, http_abort at once.
 *
 * http_write_pipe writes len bytes that the pipe holds and that no other process reads; if it
 * has fewer the connection breaks. Bytes for which the socket has room are not copied until the
 * client reads: a process that wrote them by reference (splice, vmsplice) can still change them,
 * and its pages stay pinned. So it is for clients that have read everything before
 * (http_all_taken): then a socket pins no more pages than a pipe. */
void http_upgrade(struct http_request *req, const char *protocol, const struct http_header *headers,
                  http_body_fn *on_body);
/* After http_upgrade: output stays queued until the client has read the head, at most
 * HTTP_HEAD_UNREAD_MS. For clients that read the head through a buffer and the stream past it
 * (docker-py): they would lose bytes that arrive with the head. No effect if the kernel cannot
 * tell what a client has read. */
void http_wait_for_head(struct http_request *req);
bool http_write_pipe(struct http_request *req, int pipe, size_t len);
/* True if the client has read all written bytes; false if the kernel cannot tell. */
bool http_all_taken(const struct http_request *req);

/* Like http_upgrade, but returns the connection's fd, which the caller owns, for a relay.
 * *unsent: bytes to send first, including the 101; *unread: bytes received behind the request.
 * The request is freed, and the server forgets the connection. -ENOMEM, -E2BIG: nothing was
 * changed. */
int http_give_away(struct http_request *req, const char *protocol, struct buf *unsent,
                   struct buf *unread);

/* ROUTE_STREAM, only from within the handler: returns the connection's fd, which the caller
 * owns, for another HTTP server, with `target` in place of the request's. *early: the request's
 * head, rewritten, and all bytes received behind it. The request is freed, and the server
 * forgets the connection. -ENOMEM, -E2BIG: nothing was changed. */
int http_detach(struct http_request *req, const char *target, struct buf *early);
