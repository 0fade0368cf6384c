#pragma once

/*
 * What the files of the HTTP front share.
 *
 *   http-server.c    listeners, accepting, limits on connections, closing
 *   http-conn.c      one connection: its states, its clocks, reading, handing requests to handlers
 *   http-request.c   a head into a request: llhttp, and the checks that are ours
 *   http-body.c      a request's body: llhttp, limits, pausing
 *   http-reply.c     replies, upgrades
 *   http-out.c       the queue of bytes that the client has not taken
 *   http-peer.c      the peer of a unix socket
 *
 * The sockets are watched by uv_poll and read and written here, not through uv_stream: so a
 * half-close can be told from a client that is gone, nothing is allocated for a write that the
 * socket takes at once, and what a slow client costs is one queue that we bound.
 */

#include <llhttp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <uv.h>

#include "api/http.h"
#include "base/budget.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/http-head.h"

struct head_parse;

#define HTTP_NO_ROOM_FOR_HEAD "limit maxBufferedBytes: no room for this head now"

enum {
    HTTP_READ_SIZE = 64 << 10, /* one read of a body or a raw stream */
    HTTP_READ_FIRST =
        4 << 10, /* one read where a head is expected; what an idle connection keeps */
    HTTP_DRAIN_MAX =
        64 << 10, /* bytes of an unwanted body that are read for the sake of keep-alive */
    HTTP_LINGER_MS =
        2000, /* how long what a client still sends is thrown away after our last byte, */
    HTTP_LINGER_MAX =
        4 << 20, /* and how much: closing earlier could destroy the reply on its way */
    HTTP_HEAD_UNREAD_MS = 1000, /* how long output waits for a client to read an upgrade's head */
    HTTP_REFUSED_MAX = 64,      /* connections above the limit that are being told so */
    HTTP_ACCEPT_BATCH = 64,     /* connections accepted before others get their turn */
    HTTP_ACCEPT_PAUSE_MS = 100, /* when there is no descriptor left for a connection */
    HTTP_REPLY_HEAD_MAX = 64 << 10, /* bytes of a reply's head */
};

/*
 * HEAD    reads a head; no request. Idle when no byte of it is there.
 * BODY    has a request whose body comes in before its handler is called.
 * HANDLE  the handler has been called and owes its end; pipelined bytes are read ahead, a streamed
 * body is delivered. RAW     as HANDLE, after an upgrade. FINISH  the reply is ended and the
 * request freed; queued bytes are written, the rest of the body is read away. LINGER  our direction
 * is shut; what still comes is thrown away. CLOSED  no descriptor any more; waits for close
 * callbacks, and for the end that a handler owes.
 */
enum conn_state {
    CONN_HEAD,
    CONN_BODY,
    CONN_HANDLE,
    CONN_RAW,
    CONN_FINISH,
    CONN_LINGER,
    CONN_CLOSED,
    CONN_STATES
};

/* Bytes between pos and len are there; the front is given up when everything is used. */
struct bytes {
    char *data; /* owned */
    size_t pos, len, cap;
    struct budget *budget; /* borrowed, or NULL: what cap counts against */
};

struct http_conn {
    struct http_server *server;
    struct http_conn *next, **link; /* in server->conns */
    struct http_conn *kick_next;    /* in server->kicked */
    enum conn_state state;
    int fd; /* owned */
    uv_poll_t poll;
    uv_timer_t timer;
    unsigned handles;  /* not closed yet */
    int events;        /* what poll waits for */
    unsigned busy;     /* > 0: inside of conn_run, which does what is left to do when it unwinds */
    unsigned write_ms; /* in FINISH: how long the client may take nothing */
    bool kicked;
    bool eof;     /* the client has half-closed */
    bool broken;  /* to be torn down by conn_run */
    bool keep;    /* after FINISH another request may come */
    bool refused; /* above the limit on connections */
    struct head_scan scan;
    struct bytes in, out;
    llhttp_t parser;
    struct head_parse *head; /* while a head is parsed, on request_parse's stack */
    const char *mark;        /* up to where the bytes that are being parsed are accounted for */
    size_t framing;          /* bytes of chunk framing since the last byte of a body */
    size_t body_seen;        /* bytes of this body */
    int body_error;          /* why no more of it could be kept: an errno, negative */
    size_t discarded;        /* bytes thrown away in FINISH and LINGER */
    bool message_done;
    bool head_clock;          /* a head has begun: its time runs */
    bool no_room;             /* the budget has none for the rest of a head */
    bool raw;                 /* was upgraded */
    bool head_unread;         /* the head of a 101 is in the socket: out waits until the client has
                                 read it, */
    uint64_t head_deadline;   /* at most until this time of the loop's clock */
    struct http_request *req; /* owned; NULL in HEAD, FINISH and LINGER */
    struct http_peer peer;
    gid_t *groups; /* owned */
    bool peer_asked, groups_asked;
};

struct http_listener {
    struct http_server *server;
    int fd; /* owned */
    uv_poll_t poll;
};

struct http_server {
    uv_loop_t *loop;
    struct http_config config;
    const struct route_set *sets;
    struct http_listener listeners[HTTP_MAX_LISTENERS];
    size_t listener_count;
    struct http_conn *conns;
    size_t conn_count, refused_count;
    /* What all connections hold of heads, bodies, outputs and queued replies; and the share of
     * those that are not root's, which leaves root some room whatever the others do. */
    struct budget held, held_by_users;
    struct http_conn *kicked;
    uv_idle_t kick;      /* runs while connections are kicked */
    uv_timer_t retry;    /* accepts again */
    uv_timer_t grace;    /* ends what close() waits for */
    uv_timer_t heads;    /* looks whether clients have read their heads: no event tells */
    size_t heads_unread; /* connections with head_unread */
    unsigned handles;
    int spare_fd; /* owned: given up for a moment to tell a client that there are no descriptors */
    bool closing;
    void (*on_closed)(void *data);
    void *closed_data;
    struct buf scratch; /* a reply's head while it is made */
    time_t date_at;
    char date[32];
};

/* http-server.c */
/* Has the kicked connections run from the loop. */
void server_kick(struct http_server *s);
/* Makes room in c's budget by cutting the connection whose client lets most wait; false: c itself
 * is that one, or nothing is to be had. */
bool server_make_room(struct http_conn *c);
/* Sets c->head_unread, and has it looked at until it is false again. */
void server_watch_head(struct http_conn *c);
/* Takes a closed connection out of the server's list and frees it. */
void conn_free(struct http_conn *c);

/* http-conn.c */
/* Sets up the handles of a new connection. On failure those that are in c->handles are to be
 * closed. */
int conn_start(struct http_conn *c);
/* Does everything that can be done now; the only place that calls handlers. May free c. */
void conn_run(struct http_conn *c);
/* Has conn_run called from the loop soon. */
void conn_kick(struct http_conn *c);
/* After http_end or http_abort: now what calls no handler, the rest from the loop. May free c. */
void conn_settle(struct http_conn *c);
/* Marks the connection as lost; it is torn down from the loop. */
void conn_break(struct http_conn *c);
/* Its request has been answered by giving the descriptor away, which is returned. May free c. */
int conn_detach(struct http_conn *c);
/* Asks poll for what the state needs. */
void conn_watch(struct http_conn *c);
/* Answers a connection that may not have a request. May free c. */
void conn_refuse(struct http_conn *c, int status, int code, const char *message);
/* For server close: ends an idle connection, or (force) any. */
void conn_shut_down(struct http_conn *c, bool force);

/* http-request.c */
/* A request from a complete, scanned head; c->parser is left where the body starts. -EBADMSG and
 * others with *status. */
int request_parse(struct http_conn *c, const char *head, size_t len, size_t lines, int *status,
                  struct err *err);
/* One without content, to answer what could not be parsed. */
int request_blank(struct http_conn *c);
void request_free(struct http_request *req);
/* The front's own answer: ends the request in the shape of its route set. code: an errno. */
void request_fail(struct http_request *req, int status, int code, const char *message,
                  const char *allow);

/* http-body.c */
extern const llhttp_settings_t http_parser_settings;
int request_on_url(llhttp_t *parser, const char *at, size_t len);
int request_on_field(llhttp_t *parser, const char *at, size_t len);
int request_on_value(llhttp_t *parser, const char *at, size_t len);
int request_on_headers(llhttp_t *parser);
/* Why the body is not taken: -EINVAL (none is) or -E2BIG. */
int body_refusal(const struct http_request *req, struct err *err);
/* Feeds what is in c->in to the body's parser; may call on_body. 0, or -EBADMSG, -E2BIG, -EINVAL,
 * -ENOMEM. */
int body_feed(struct http_conn *c, struct err *err);

/* http-out.c */
/* Writes at once what the socket takes and queues the rest. */
void out_send(struct http_conn *c, const struct iovec *iov, size_t count);
/* The same of len bytes that a pipe holds. */
void out_send_pipe(struct http_conn *c, int pipe, size_t len);
/* Whether output waits for the client to read an upgrade's head; finds out when it has. */
bool out_waits(struct http_conn *c);
/* Output waits no more. */
void out_release(struct http_conn *c);
/* Writes from the queue; true when anything went. */
bool out_flush(struct http_conn *c);

/* http-reply.c */
void reply_continue(struct http_conn *c);

/* http-peer.c */
void peer_ask(struct http_conn *c);

static inline size_t bytes_left(const struct bytes *b)
{
    return b->len - b->pos;
}
/* -ENOMEM; -EAGAIN: the budget has no room. */
int bytes_reserve(struct bytes *b, size_t more);
void bytes_use(struct bytes *b, size_t n);
void bytes_done(struct bytes *b);
