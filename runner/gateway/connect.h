#pragma once

/* HTTP's CONNECT as far as egress needs it: the request to a handler and its answer, the request
 * of an explicit proxy's client, and the Host header of a plain request. The functions only
 * parse or write; the caller consumes the bytes. Pure: no I/O, no state. */

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

/* The contents of a CONNECT request to a handler. */
struct connect_request {
    const struct address *to; /* destination of the client's connection; family 0: `name`, asked
                               * of a proxy */
    const char *client;       /* the sandbox's address */
    const char *name;         /* the Host or the resolved name, or NULL */
    const char *sni;          /* NULL: no TLS, or a ClientHello without SNI */
    const char *protocol;     /* "http", "https", "tcp" */
    const char *sandbox;      /* the sandbox's API id */
};
int connect_write(const struct connect_request *c, struct buf *out);

/* Parses the head of a handler's answer. Returns its length and the status, 0 if the head is
 * incomplete, or -EBADMSG or -E2BIG with err set. */
long connect_reply(const char *data, size_t len, int *ret_status, struct err *err);

/* Classes of a connection's first bytes. */
enum connect_looks {
    LOOKS_UNKNOWN, /* too few bytes to decide */
    LOOKS_OTHER,
    LOOKS_TLS,
    LOOKS_HTTP,
    LOOKS_CONNECT, /* HTTP with the method CONNECT */
};
enum connect_looks connect_look(const char *data, size_t len);

struct connect_head {
    char method[16];
    char target[512];               /* "/ca", "example.com:443" */
    char host[EGRESS_NAME_MAX + 1]; /* of Host, lower case without port; "" none, or an address */
    char to[ADDRESS_TEXT_MAX];      /* X-Dst-Addr */
    size_t length;                  /* Content-Length; SIZE_MAX: chunked */
};
/* Parses a request's head. Lenient: only what egress needs is checked. Return value as of
 * connect_reply. */
long connect_head(const char *data, size_t len, struct connect_head *ret, struct err *err);

/* Parses "example.com:443", "192.0.2.1:80" or "[2001:db8::1]:80" into a name or an address; the
 * other is empty. The port is mandatory. -EINVAL if malformed. */
int connect_target(const char *text, char name[EGRESS_NAME_MAX + 1], struct address *ret);
