#pragma once

/*
 * HTTP's CONNECT, as far as egress needs it: what a handler is asked and answers, what a client of
 * the explicit proxy asks, and the Host that a plain request shows. Bytes are only looked at; who
 * calls takes them. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/buf.h"
#include "policy/egress.h"

struct err;

enum {
    CONNECT_HEAD_MAX = 16 << 10, /* bytes of a head */
    CONNECT_LINES_MAX = 64,
};

/* What a handler is told. */
struct connect_request {
    const struct address *to; /* where the client connected to; family 0: to `name`, by a proxy */
    const char *client;       /* the sandbox's own address */
    const char *name;         /* the Host or resolved name, or NULL */
    const char *sni;          /* NULL: no TLS, or none was said */
    const char *protocol;     /* "http", "https", "tcp" */
    const char *sandbox;      /* its id */
};
int connect_write(const struct connect_request *c, struct buf *out);

/* The head's length, and the status; 0: more must come; -EBADMSG, -E2BIG. */
long connect_reply(const char *data, size_t len, int *ret_status, struct err *err);

/* What the first bytes of a connection look like. */
enum connect_looks {
    LOOKS_UNKNOWN, /* too few to tell */
    LOOKS_OTHER,
    LOOKS_TLS,
    LOOKS_HTTP,
    LOOKS_CONNECT, /* HTTP, and that method */
};
enum connect_looks connect_look(const char *data, size_t len);

struct connect_head {
    char method[16];
    char target[512];               /* "/ca", "example.com:443" */
    char host[EGRESS_NAME_MAX + 1]; /* of Host, lower case without port; "" none, or an address */
    char to[ADDRESS_TEXT_MAX];      /* X-Dst-Addr */
    size_t length;                  /* of a body */
};
/* A request's head; lenient about what only a parser of requests need know. As connect_reply. */
long connect_head(const char *data, size_t len, struct connect_head *ret, struct err *err);

/* "example.com:443", "192.0.2.1:80", "[2001:db8::1]:80": name or address (the other is empty), and
 * a port that must be there. -EINVAL. */
int connect_target(const char *text, char name[EGRESS_NAME_MAX + 1], struct address *ret);
