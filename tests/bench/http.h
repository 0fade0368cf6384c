#pragma once

/*
 * A blocking HTTP/1.1 client over a unix socket, as small as one can be: what it costs is the same
 * for every daemon that is measured with it. Any failure ends the program, because a figure from a
 * run that failed is no figure.
 */

#include <stddef.h>
#include <stdint.h>

enum { HTTP_BODY_MAX = 1 << 16 }; /* bytes of an answer that is kept; longer ones are a failure */

struct http {
    const char *path; /* borrowed: the daemon's socket */
    int fd;           /* kept alive between requests; -1 = not connected */
    char in[1 << 18]; /* received, not yet used: from at to end */
    size_t at, end;
    char body[HTTP_BODY_MAX + 1]; /* of the last answer, NUL-terminated */
};

__attribute__((noreturn, format(printf, 1, 2))) void fail(const char *format, ...);

void http_init(struct http *h, const char *path);
void http_close(struct http *h);

/* One request and its whole answer, on the kept connection. Returns the status; body NULL = none.
 */
int http_ask(struct http *h, const char *method, const char *target, const char *body);

/* A request that the connection is given up for: `upgrade` is the protocol's name. Its frames
 * follow; the connection is closed by http_close. */
void http_upgrade(struct http *h, const char *target, const char *upgrade, const char *body);

/*
 * The next frame of an upgraded connection: type, three zero bytes, length (4 bytes, big-endian),
 * payload. The payload comes in pieces: each call returns one (*ret_len bytes, valid until the
 * next call), *ret_type its frame's type, *left what is missing of it. *left must be 0 before the
 * first call. NULL at the end of the connection between two frames.
 */
const char *http_frame(struct http *h, int *ret_type, size_t *ret_len, size_t *left);

/* The value of the first "key":"…" in the last body, up to its closing quote; ends the program when
 * there is none. */
void http_string(const struct http *h, const char *key, char *ret, size_t size);
/* The same for a number. */
long http_number(const struct http *h, const char *key);
