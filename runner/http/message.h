#pragma once

/* HTTP/1.x messages as a proxy must read them: requests and replies, both possibly hostile. A
 * message that can be read in two ways is refused, because the next reader could choose the
 * other one. Framing is never copied: it is parsed here and written anew.
 *
 * A reader parses consecutive messages of a byte stream:
 *
 *     n = reader_head(&r, data, len, &limits, &msg, &status, &err);
 *         > 0: a head of n bytes; 0: incomplete
 *     n = reader_body(&r, data + n, …, &err);
 *         bytes used; r.done at the end
 *
 * llhttp (strict) parses the same bytes and must agree. Pure: no I/O. */

#include <llhttp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "http/head.h"

struct err;

enum {
    MESSAGE_TRAILERS_MAX = 16 << 10, /* bytes of trailers, and of chunk framing between two bytes
                                      * of a body */
    MESSAGE_REASON_MAX = 256,        /* bytes of a reply's reason phrase */
};

enum msg_framing {
    FRAMING_NONE,   /* no body */
    FRAMING_LENGTH, /* Content-Length bytes */
    FRAMING_CHUNKED,
    FRAMING_CLOSE, /* reply: the body ends with the connection */
};

struct message {
    /* Request: target in origin form ("/x?y", or "*"); host from the absolute form or the header
     * Host, "" if HTTP/1.0 sent none. */
    const char *method, *target, *host;
    bool expect_continue;
    /* Reply. */
    int status;
    const char *reason;

    bool http10;
    bool keep_alive; /* another message may follow on the connection, and the end of this one is
                      * certain */
    enum msg_framing framing;
    uint64_t length;     /* of FRAMING_LENGTH */
    const char *upgrade; /* the value of Upgrade, if Connection names it and no body follows */
    struct http_header *headers;
    size_t header_count;
    char *text; /* owned; holds all strings */
};

void message_done(struct message *m);
/* Returns the value of the first header of this name (any case), or NULL. Borrowed from m. */
const char *message_header(const struct message *m, const char *name);

typedef int reader_data_fn(void *data, const char *at, size_t len);

struct reader {
    bool response, head_of_get; /* head_of_get: the reply belongs to a HEAD request */
    reader_data_fn *on_data;    /* gets body bytes; a negative errno aborts reading */
    void *data;

    bool in_body; /* a head was parsed, its body is not complete */
    bool done;
    struct buf trailers; /* "Name: value\r\n" lines, valid once done */

    /* Private. */
    struct head_scan scan;
    llhttp_t parser;
    bool in_head, cr;
    size_t framing;
    const char *mark;
    size_t header_count;
    struct buf name, value;
    int error;
};

void reader_init(struct reader *r, bool response, reader_data_fn *on_data, void *data);
void reader_done(struct reader *r);
/* Parses a head. Returns its length, 0 if incomplete, or a negative errno: -E2BIG too long
 * (431), -ENAMETOOLONG URL too long (414), -EPROTONOSUPPORT other version (505), -EOPNOTSUPP
 * (CONNECT: 405), -EINVAL (Expect: 417), -EBADMSG malformed (400), -ENOMEM (503). *ret_status is
 * the status for the client, always 502 for a reply. On success the caller owns *ret
 * (message_done). */
long reader_head(struct reader *r, const char *data, size_t len, const struct head_limits *limits,
                 struct message *ret, int *ret_status, struct err *err);
/* Parses body bytes. Returns the bytes used, fewer than len only when the message is done, or
 * -EBADMSG, -E2BIG or the error of on_data. */
long reader_body(struct reader *r, const char *data, size_t len, struct err *err);
/* Called at EOF. 0 if the body ends with the connection, otherwise -EBADMSG: it is truncated. */
int reader_eof(struct reader *r, struct err *err);

/* ---- writing ---- */

/* Fields that the proxy adds to a request's head. */
struct forward {
    const char *peer;  /* the client's address, or "" */
    const char *proto; /* "http", "https" */
    bool trusted;      /* the client is a proxy on this machine: its X-Forwarded fields are kept */
    bool outbound;     /* egress: nothing is added, the client's own fields stay */
};

/* Writes a request's head for the server. upgrade: the server may answer 101. */
int message_forward_request(const struct message *m, const struct forward *f, bool upgrade,
                            struct buf *out);
/* Writes a reply's head for the client. framing: of the body as it will be written. close: the
 * connection ends after it. preview: by a preview URL, so cookies are of its own host alone. */
int message_forward_reply(const struct message *m, enum msg_framing framing, bool close,
                          bool preview, struct buf *out);
/* Writes one chunk of a body; chunk_end writes the last, with trailers ("" or lines). */
int chunk_write(struct buf *out, const char *data, size_t len);
int chunk_end(struct buf *out, const struct buf *trailers);
