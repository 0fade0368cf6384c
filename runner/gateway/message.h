#pragma once

/*
 * HTTP/1.x messages as a proxy must read them: requests and replies, from peers that may both be
 * hostile. What has more than one reading is refused, because the next reader could take the other
 * one. Nothing of a message's framing is passed on as it came: it is read here and written anew.
 *
 * A reader takes one message after another from bytes as they come:
 *
 *     n = reader_head(&r, data, len, &limits, &msg, &err);   > 0: a head of n bytes; 0: more
 *     n = reader_body(&r, data + n, …, &err);                bytes used; r.done at the end
 *
 * llhttp (strict) reads along and has to agree about everything.
 */

#include <llhttp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/http-head.h"

struct err;

enum {
    MESSAGE_TRAILERS_MAX = 16 << 10, /* bytes of trailers, and of any other framing in a body
                                        between two of its bytes */
    MESSAGE_REASON_MAX = 256,        /* bytes of a reply's reason */
};

enum msg_framing {
    FRAMING_NONE,   /* no body */
    FRAMING_LENGTH, /* Content-Length bytes */
    FRAMING_CHUNKED,
    FRAMING_CLOSE, /* a reply's: until the connection ends */
};

struct msg_header {
    const char *name, *value; /* NUL-terminated, no control bytes but tabs */
};

struct message {
    /* A request's. target is in origin form ("/x?y", or "*"); host is the authority it is for, of
     * the absolute form or of the header Host; "" when HTTP/1.0 has none. */
    const char *method, *target, *host;
    bool expect_continue;
    /* A reply's. */
    int status;
    const char *reason;

    bool http10;
    bool keep_alive; /* the connection may carry another message after this one, which surely begins
                      * where this one ends */
    enum msg_framing framing;
    uint64_t length;     /* FRAMING_LENGTH */
    const char *upgrade; /* the value of Upgrade where Connection names it and no body comes */
    struct msg_header *headers;
    size_t header_count;
    char *text; /* owned: all of the strings */
};

void message_done(struct message *m);
/* The first of this name (any case), or NULL. */
const char *message_header(const struct message *m, const char *name);

typedef int reader_data_fn(void *data, const char *at, size_t len);

struct reader {
    bool response, head_of_get; /* head_of_get: the reply is to a HEAD request */
    reader_data_fn *on_data;    /* body bytes; negative errno stops reading with it */
    void *data;

    bool in_body; /* a head has been read and its message is not done */
    bool done;
    struct buf trailers; /* "Name: value\r\n" each, once done */

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
/*
 * *ret is to be given to message_done, on success only. -E2BIG a head too long (431),
 * -ENAMETOOLONG (414), -EPROTONOSUPPORT another version (505), -EOPNOTSUPP (CONNECT: 405, Expect:
 * 417 by ret_status), -EBADMSG anything else. ret_status: what a client should be told; for a reply
 * always 502.
 */
long reader_head(struct reader *r, const char *data, size_t len, const struct head_limits *limits,
                 struct message *ret, int *ret_status, struct err *err);
/* Bytes used; less than len when the message is done. -EBADMSG, -E2BIG, or what on_data said. */
long reader_body(struct reader *r, const char *data, size_t len, struct err *err);
/* The connection has ended: 0 when that was the body's end, else -EBADMSG. */
int reader_eof(struct reader *r, struct err *err);

/* ---- writing ---- */

/* What a proxy adds to a request. */
struct forward {
    const char *peer;  /* the client's address, or "" */
    const char *proto; /* "http", "https" */
    bool trusted;      /* the client is a proxy of this machine: what it says of its own is kept */
    bool outbound;     /* nothing is added, and what the client itself says stays as it is */
};

/* The head of a request as it goes on; upgrade: that the server may answer with 101. */
int message_forward_request(const struct message *m, const struct forward *f, bool upgrade,
                            struct buf *out);
/* The head of a reply as it goes on. framing: how its body will be written; close: the connection
 * ends after it. */
int message_forward_reply(const struct message *m, enum msg_framing framing, bool close,
                          struct buf *out);
/* A piece of a chunked body; the end of one with its trailers ("" or lines). */
int chunk_write(struct buf *out, const char *data, size_t len);
int chunk_end(struct buf *out, const struct buf *trailers);
