#pragma once

/*
 * The HTTP/1.1 front: a server on libuv and llhttp that knows routes, requests and replies, and
 * nothing of what the resources behind them are. Everything here runs on one loop's thread.
 *
 * A handler's contract. A route's handler is called once for a request (when its body is there; at
 * once for ROUTE_STREAM) and owes exactly one end: http_reply, http_end or http_abort, now or
 * later. Until then the request stays valid, whatever the client does; after it the pointer is
 * dead. When the client vanishes first, `gone` is set and on_gone is called once, from the loop,
 * never from inside a call of the handler's; the end is still owed (it goes nowhere) and may be
 * made inside of on_gone. So an asynchronous operation may keep the pointer without a table of who
 * is alive, and a long one sets on_gone to be told that nobody waits any more.
 *
 * A client of a unix socket is gone when it has closed. One that has half-closed still gets its
 * answer; on TCP the two look alike until something is written.
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
 *     }
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/buf.h"

struct err;
struct http_conn;
struct http_request;
struct http_server;
struct route;
struct route_set;

/* ---- limits ---- */

/* Every limit has a name, its default here, and its error when it is hit. */
enum {
    HTTP_MAX_CONNECTIONS = 1024,    /* more: accepted, answered 503, closed */
    HTTP_MAX_CONNECTIONS_UID = 768, /* of one user of a unix socket (not root): 503 */
    HTTP_MAX_HEAD =
        192 << 10, /* bytes of request line and headers: 431; of a chunked body's framing: 400 */
    HTTP_MAX_HEADERS = 128,   /* lines: 431 */
    HTTP_MAX_URL = 128 << 10, /* bytes: 414; dockerode sends whole bodies there, too */
    HTTP_MAX_BODY = 1 << 20,  /* bytes of a buffered body, where the route names no other: 413 */
    HTTP_MAX_LARGE_BODY = 6 << 20, /* the same for ROUTE_LARGE */
    HTTP_MAX_BUFFERED = 256 << 20, /* bytes of heads, bodies, outputs and replies that are held, all
                                      connections together: 503, or the one that has most is cut */
    HTTP_MAX_PIPELINE =
        64 << 10, /* bytes read ahead while a request is being answered; then reading waits */
    HTTP_QUEUE_PAUSE =
        256 << 10,             /* reply bytes that wait for the client: http_write says "pause" */
    HTTP_QUEUE_MAX = 32 << 20, /* reply bytes that wait at all; more ends the connection */
    HTTP_IDLE_MS = 75 * 1000,  /* between requests, and before the first byte: closed */
    HTTP_HEAD_MS = 30 * 1000,  /* from the first byte of a head to its last: 408 */
    HTTP_BODY_MS = 60 * 1000,  /* a buffered body: 408; two reads of a streamed one: gone */
    HTTP_WRITE_MS = 60 * 1000, /* an ended reply of which the client takes nothing: closed */
    /* The same for what is left of an ended stream: its client may have reasons not to read. */
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

/* Fills in the defaults above. */
void http_config_init(struct http_config *config);

/* ---- server ---- */

/*
 * A server without listeners. `sets` (borrowed, ended by {0}) are the tables of routes, asked in
 * order; config may be NULL. -ENOMEM, -EINVAL (a pattern that is none).
 */
int http_server_new(uv_loop_t *loop, const struct http_config *config, const struct route_set *sets,
                    struct http_server **ret, struct err *err);
/* Accepts on fd, a listening unix or TCP socket; the server owns it from success on. May be called
 * for several. */
int http_server_listen(struct http_server *s, int fd, struct err *err);
/* Serves one connected stream socket, which the server owns from success on. */
int http_server_adopt(struct http_server *s, int fd, struct err *err);
/*
 * Stops accepting; ends connections without a request at once, the others when they are answered or
 * after grace_ms. Calls on_closed (may be NULL) once everything is freed, the server itself
 * included: never before every handler has made its end. Once only; never calls back before it has
 * returned.
 */
void http_server_close(struct http_server *s, unsigned grace_ms, void (*on_closed)(void *data),
                       void *data);
/* Connections that hold memory now, those included whose client is gone but whose handler owes its
 * end. */
size_t http_server_connections(const struct http_server *s);

/* ---- requests ---- */

struct http_header {
    const char *name, *value; /* NUL-terminated, no control bytes */
};

/* Who is at the other end of a unix socket, as of its connect(2). */
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
    const char *method; /* as sent; "HEAD" may be answered by a GET route */
    const char *path;   /* as sent, not decoded, without the query: for messages */
    const char
        *version; /* "1.41" where the set takes a version prefix and there was one, else NULL */
    const struct route *route;
    const struct http_header *headers;
    size_t header_count;
    int64_t content_length; /* -1: not said (chunked, or no body) */
    struct buf
        body;      /* ROUTE_BODY: all of it, NUL-terminated when not empty (data NULL when empty) */
    bool head;     /* a HEAD request: what is written of a body is dropped */
    bool upgrade;  /* ROUTE_UPGRADE, and the client asks for a protocol: http_upgrade may be used */
    bool gone;     /* the client is; nothing reaches it */
    void *context; /* the route set's */

    /* The handler's own. */
    void *data;
    http_event_fn
        *on_drain; /* the queue is below HTTP_QUEUE_PAUSE again after a write said "pause" */
    http_event_fn *on_gone; /* see above; set before the handler returns to the loop */

    /* The front's own. */
    struct http_conn *conn;      /* never NULL */
    size_t size;                 /* of its allocation, as the connection's budget has it */
    const struct route_set *set; /* NULL until a path has been read */
    struct http_param params[HTTP_MAX_PARAMS];
    size_t param_count;
    char *query; /* decoded in place by http_query; NULL: none */
    char *store; /* room for the decoded path */
    http_body_fn *on_body;
    int64_t reply_left; /* of a Content-Length that the handler promised; -1: none */
    bool http10, keep_alive, expect_continue;
    bool patient; /* a stream: HTTP_STREAM_WRITE_MS at its end */
    bool dispatched, started, chunked, bodiless, upgraded, ended;
    bool body_done, body_paused, end_told, gone_told, want_drain;
};

/* The server is being closed: a client that is gone now did not leave of its own will. */
bool http_closing(const struct http_request *req);
/* A header's value by its name in any case; the first one; NULL when there is none. */
const char *http_header(const struct http_request *req, const char *name);
/* A part of the path by its name in the pattern, decoded. The name must be in the pattern. */
const char *http_param(const struct http_request *req, const char *name);
/* The peer; asks the kernel once for each connection. Groups that cannot be read are none. */
const struct http_peer *http_peer(struct http_request *req);
/* The connection itself, as a proof of who that is; borrowed, -1 when it is gone. */
int http_peer_fd(const struct http_request *req);
uv_loop_t *http_loop(const struct http_request *req);

/* ---- replies ---- */

/*
 * A whole reply. `headers` (may be NULL) ends with {0}; the front itself adds Date, Server,
 * Connection, Content-Length and Transfer-Encoding. `type` may be NULL (no body, or in headers).
 * The body is copied as far as it must wait.
 */
void http_reply(struct http_request *req, int status, const struct http_header *headers,
                const char *type, const void *body, size_t len);

/*
 * A reply whose body comes piece by piece: chunked, or with a Content-Length header of the caller's
 * (which must then be kept), or ended by closing for HTTP/1.0. http_write takes everything, and
 * returns true when the caller should write no more until on_drain (or on_gone).
 */
void http_start(struct http_request *req, int status, const struct http_header *headers,
                const char *type);
bool http_write(struct http_request *req, const void *data, size_t len);
/* Bytes that wait for the client. */
size_t http_queued(const struct http_request *req);
/* The reply is whole. The request is dead afterwards. */
void http_end(struct http_request *req);
/* The reply cannot be finished: the client sees the connection break. The request is dead
 * afterwards. */
void http_abort(struct http_request *req);

/* ---- bodies that are streamed ---- */

/*
 * ROUTE_STREAM: nothing of the body is read until the handler calls this (also "100 Continue" waits
 * for it); then on_body gets it piece by piece from the loop, and (NULL, 0) once at its end. A body
 * that breaks off is on_gone. Ending the reply first is allowed.
 */
void http_body_start(struct http_request *req, http_body_fn *on_body);
/* No on_body until resumed: the client is made to wait. Both may be called from anywhere. */
void http_body_pause(struct http_request *req);
void http_body_resume(struct http_request *req);

/* ---- upgrades ---- */

/*
 * ROUTE_UPGRADE: sends 101 with `Upgrade: protocol` (req->upgrade must be set), or without a
 * protocol a plain 200, as Docker does for clients that do not ask, and hands over the raw stream
 * in both directions. on_body gets what the client sends (from what came in the same packet on;
 * pause and resume as above) and (NULL, 0) at its half-close, after which writing goes on.
 * http_write writes raw bytes, http_write_pipe those that a pipe has, http_end closes the
 * connection behind what is queued, http_abort at once.
 *
 * http_write_pipe is http_write of len bytes that the pipe holds and nobody else reads; one that
 * has less breaks the connection. Those for which the socket has room are not copied until the
 * client reads: whoever wrote them by reference (splice, vmsplice) can change them until then, and
 * has their pages held. So it is for who has taken everything before (http_all_taken): then a
 * socket holds no more of them than a pipe does.
 */
void http_upgrade(struct http_request *req, const char *protocol, const struct http_header *headers,
                  http_body_fn *on_body);
/*
 * After http_upgrade: what is written from now on stays in the queue until the client has read the
 * head, at most HTTP_HEAD_UNREAD_MS. It is for clients that take the head through a buffer and the
 * stream past it (docker-py), and so lose what comes with the head. Without effect where the kernel
 * cannot say what a client has read.
 */
void http_wait_for_head(struct http_request *req);
bool http_write_pipe(struct http_request *req, int pipe, size_t len);
/* Whether the client has read all that has been written; false where the kernel cannot say. */
bool http_all_taken(const struct http_request *req);

/*
 * As http_upgrade, but gives the connection itself away, to somebody who only moves bytes: returns
 * the descriptor, which is the caller's. *unsent: what has to go to the client first, the 101
 * included; *unread: what has come from it behind its request. The request is dead afterwards, and
 * this server knows nothing of the connection any more. -ENOMEM, -E2BIG: nothing has happened.
 */
int http_give_away(struct http_request *req, const char *protocol, struct buf *unsent,
                   struct buf *unread);

/*
 * ROUTE_STREAM, and from within the handler only: gives the whole connection to somebody who speaks
 * HTTP, for `target` instead of the request's own. *early: the request's head, written anew, and
 * what has been read behind it. The descriptor, which is the caller's. The request is dead
 * afterwards, and this server knows nothing of the connection any more. -ENOMEM, -E2BIG: nothing
 * has happened.
 */
int http_detach(struct http_request *req, const char *target, struct buf *early);
