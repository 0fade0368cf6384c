#pragma once

/* Shared by the files of the HTTP server:
 *
 *   server.c           listeners, accepting, limits on connections, closing
 *   server-conn.c      one connection: states, time-outs, reading, calling handlers
 *   server-request.c   parses a head into a request: llhttp, plus own checks
 *   server-body.c      request bodies: llhttp, limits, pausing
 *   server-reply.c     replies, upgrades
 *   server-out.c       the queue of bytes that the client has not read
 *   server-peer.c      the peer of a unix socket
 *
 * Sockets are watched by an evloop and read and written here, not by uv_stream. So a half-close
 * can be told from a closed client, a write that the socket takes at once allocates nothing, and
 * a slow client costs one bounded queue. */

#include <llhttp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <uv.h>

#include "base/budget.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/evloop.h"
#include "http/head.h"
#include "http/server.h"

#define HTTP_NO_ROOM_FOR_HEAD "limit maxBufferedBytes: no room for this head now"

enum {
    HTTP_READ_SIZE = 64 << 10, /* bytes of one read of a body or raw stream */
    HTTP_READ_FIRST = 4 << 10, /* bytes of one read of a head; the buffer of an idle connection */
    HTTP_DRAIN_MAX =
        64 << 10, /* bytes of an unwanted body that are read to keep the connection alive */
    HTTP_LINGER_MS = 2000, /* how long a client's further bytes are discarded after our last one */
    HTTP_LINGER_MAX = 4 << 20,      /* and how many; closing earlier could destroy the reply */
    HTTP_HEAD_UNREAD_MS = 1000,     /* how long output waits until the client has read an upgrade's
                                     * head */
    HTTP_REFUSED_MAX = 64,          /* connections above the limit that are being answered 503 */
    HTTP_ACCEPT_BATCH = 64,         /* connections accepted before other handles are served */
    HTTP_ACCEPT_PAUSE_MS = 100,     /* when no fd is left */
    HTTP_REPLY_HEAD_MAX = 64 << 10, /* bytes of a reply's head */
};

/* HEAD    reads a head; no request. Idle while no byte of it has arrived.
 * BODY    buffers a request's body before its handler is called.
 * HANDLE  the handler was called and owes an end. Pipelined bytes are read ahead, a streamed
 *         body is delivered.
 * RAW     as HANDLE, after an upgrade.
 * FINISH  the reply has ended and the request is freed. Queued bytes are written, the rest of
 *         the body is read and discarded.
 * LINGER  our direction is shut down; input is discarded.
 * CLOSED  without fd; waits for close callbacks, and for the end that a handler owes. */
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

/* Bytes from pos to len are valid. The used front is dropped when all is used or room is needed. */
struct bytes {
    char *data; /* owned */
    size_t pos, len, cap;
    struct budget *budget; /* borrowed, or NULL; cap counts against it */
};

struct http_conn {
    struct fd_watch watch; /* first: cast from its address */
    struct http_server *server;
    struct http_conn *next, **link; /* in server->conns */
    enum conn_state state;
    int fd; /* owned */
    struct deadline clock;
    unsigned busy;     /* > 0: within conn_run, which does the remaining work when it unwinds */
    unsigned write_ms; /* in FINISH: time-out without progress */
    bool readable;     /* the socket may hold input that no event announces again */
    bool half_closed;  /* the end of the input has arrived; it may not have been read */
    bool hung_up;      /* both directions are closed; what had arrived may not have been read */
    bool out_awaited;  /* an event follows when the socket has room */
    bool eof;          /* the client has shut down its direction */
    bool broken;       /* conn_run is to tear it down */
    bool keep;         /* another request may follow FINISH */
    bool refused;      /* above a limit on connections */
    struct head_scan scan;
    struct bytes in, out;
    llhttp_t parser;
    bool in_head;     /* the parser reads a head, not a body and its trailers */
    const char *mark; /* parsed bytes before it are accounted for */
    size_t framing;   /* bytes of chunk framing since the last body byte */
    size_t body_seen; /* bytes of the current body */
    int body_error;   /* negative errno: the body could not be buffered */
    size_t discarded; /* bytes discarded in FINISH and LINGER */
    bool message_done;
    bool head_clock;          /* head_ms runs */
    bool no_room;             /* the budget is exhausted within a head */
    bool raw;                 /* upgraded */
    bool head_unread;         /* the client has not read the head of a 101: out waits */
    uint64_t head_deadline;   /* until this time of the loop's clock at most */
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
    /* Memory for heads, bodies, output and queued replies of all connections, and the share for
     * connections of other users than root. So root always has some room left. */
    struct budget held, held_by_users;
    size_t held_most;      /* bytes of `held` at most since memory was given back to the kernel */
    struct evloop *evloop; /* owned; of the connections */
    uv_timer_t retry;      /* resumes accepting */
    uv_timer_t grace;      /* ends the grace period of close() */
    uv_timer_t heads;      /* polls whether clients have read their heads: the kernel has no event
                            * for it */
    size_t heads_unread;   /* number of connections with head_unread */
    unsigned handles;
    int spare_fd; /* owned; closed for a moment to accept and refuse a client when no fd is left */
    bool closing;
    void (*on_closed)(void *data);
    void *closed_data;
    struct buf scratch; /* the head of a reply being built */
    time_t date_at;
    char date[32];
};

/* server.c */
/* Frees room in c's budget by breaking the connection with the most unread output. False: that
 * is c itself, or nothing can be freed. */
bool server_make_room(struct http_conn *c);
/* Sets c->head_unread and polls until the client has read the head. */
void server_watch_head(struct http_conn *c);
/* Removes a closed connection from the server's list and frees it. */
void conn_free(struct http_conn *c);

/* server-conn.c */
/* Watches a new connection. 0 or a negative errno. */
int conn_start(struct http_conn *c);
/* Does all work that is possible now; alone calls handlers. May free c. */
void conn_run(struct http_conn *c);
/* Makes the loop call conn_run soon. */
void conn_kick(struct http_conn *c);
/* Called after http_end or http_abort: does at once what calls no handler, the rest from the
 * loop. May free c. */
void conn_settle(struct http_conn *c);
/* Marks the connection as broken; the loop tears it down. */
void conn_break(struct http_conn *c);
/* Ends the request by giving away the fd, which the caller then owns. May free c. */
int conn_detach(struct http_conn *c);
/* Makes the loop call for what the state can do: read, write. */
void conn_watch(struct http_conn *c);
/* Answers an error on a connection, which may not have a request yet. May free c. */
void conn_refuse(struct http_conn *c, int status, int code, const char *message);
/* For closing the server: breaks an idle connection, or with `force` any. */
void conn_shut_down(struct http_conn *c, bool force);

/* server-request.c */
/* Makes c->req from a complete, scanned head; c->parser is left at the body's start. Negative
 * errno with *status set; c->req may exist then, too. */
int request_parse(struct http_conn *c, const char *head, size_t len, size_t lines, int *status,
                  struct err *err);
/* Makes an empty c->req to answer an unparsable request. -ENOMEM, -EAGAIN. */
int request_blank(struct http_conn *c);
void request_free(struct http_request *req);
/* Ends the request with an error in the format of its route set. code: an errno. */
void request_fail(struct http_request *req, int status, int code, const char *message,
                  const char *allow);

/* server-body.c */
extern const llhttp_settings_t http_parser_settings;
int request_on_value_complete(llhttp_t *parser);
int request_on_headers(llhttp_t *parser);
/* Sets err to why a body is refused: -EINVAL (none is allowed) or -E2BIG. */
int body_refusal(const struct http_request *req, struct err *err);
/* Feeds c->in to the body's parser; may call on_body. 0, or -EBADMSG, -E2BIG, -EINVAL, -EAGAIN,
 * -ENOMEM. */
int body_feed(struct http_conn *c, struct err *err);

/* server-out.c */
/* Writes at once what the socket takes and queues the rest. */
void out_send(struct http_conn *c, const struct iovec *iov, size_t count);
/* Like out_send, for len bytes held by a pipe. */
void out_send_pipe(struct http_conn *c, int pipe, size_t len);
/* True while output waits for the client to read an upgrade's head. */
bool out_waits(struct http_conn *c);
/* Ends the wait of out_waits. */
void out_release(struct http_conn *c);
/* Writes queued bytes. True if any were written. */
bool out_flush(struct http_conn *c);

/* server-reply.c */
void reply_continue(struct http_conn *c);
/* Calls route_set.replied, unless it was called. status: of the reply; 0: there is none. */
void reply_tell(struct http_request *req, int status);

/* server-peer.c */
void peer_ask(struct http_conn *c);

static inline size_t bytes_left(const struct bytes *b)
{
    return b->len - b->pos;
}
/* Makes room for `more` bytes. -ENOMEM; -EAGAIN: the budget is exhausted. */
int bytes_reserve(struct bytes *b, size_t more);
void bytes_use(struct bytes *b, size_t n);
void bytes_done(struct bytes *b);
