#pragma once

/*
 * Routes: static tables of {method, pattern, handler}.
 *
 * A pattern is a path whose segments are literal or a name in braces: "/v1/sandboxes/{id}/files".
 * The path is split at
 * '/' first and each segment is percent-decoded once after that, so "%2f" never makes a segment:
 *   {name}     one segment; what decodes to "", ".", ".." or holds '/' is refused with 400
 *   {name*}    everything that is left, from its '/' on, as it was sent: neither decoded nor
 *              checked; perhaps nothing. Last in its pattern, for what others read.
 *   {name...}  one or more segments, joined by '/'; "%2F" is as good as '/'; "", "." and ".." among
 * them: 400 Bytes that are not an escape where '%' stands, and %00, are 400. Literal segments are
 * compared after decoding. Where several patterns match, the first in the table is taken. No match
 * at all is 404, another method only is 405 with Allow.
 */

#include <stdbool.h>
#include <stddef.h>

enum { ROUTE_SEGMENTS_MAX = 64 /* parts of a path; more is 404 */ };

struct err;
struct http_request;

typedef void http_handler_fn(struct http_request *req);

enum route_flags {
    ROUTE_BODY = 1 << 0, /* a body is taken, buffered before the handler is called */
    ROUTE_STREAM =
        1
        << 1, /* a body is taken by http_body_start; the handler is called when the head is there */
    ROUTE_UPGRADE =
        1 << 2, /* may become a raw stream (http_upgrade); with ROUTE_BODY after the body */
    ROUTE_LARGE = 1 << 3, /* with ROUTE_BODY: the server's larger size of a body counts */
};
/* Without ROUTE_BODY and ROUTE_STREAM the first byte of a body is 400; an empty one (chunked or
 * not) is fine. */

struct route {
    const char *method; /* NULL ends a table. GET answers HEAD too where no row says HEAD */
    const char *pattern;
    http_handler_fn *handler;
    unsigned flags;
    size_t max_body; /* ROUTE_BODY: bytes; 0: the server's */
};

/* One table with what its rows have in common. */
struct route_set {
    const struct route *routes; /* NULL ends the list of sets */
    void *context;              /* becomes req->context */
    bool version_prefix;        /* a first segment "v<digits>.<digits>" is taken off and becomes
                                   req->version */
    /*
     * How errors look that the front finds itself (404, 405, 413, ...) for paths of this set; NULL:
     * reply_failure. `code` is an errno's name. Ends the request.
     */
    void (*failure)(struct http_request *req, int status, const char *code, const char *message,
                    const char *allow);
};

/* Every pattern is well formed, no two rows have the same method and pattern. -EINVAL names the
 * row. */
int route_check(const struct route *routes, struct err *err);

/*
 * Finds the row for req->method and req->path and sets route, set, context, version and params. 0;
 * -ENOENT; -EINVAL (a bad escape, a bad value for a name); -EOPNOTSUPP with the methods that would
 * do in allow ("GET, HEAD"). req->set is set in any case: to the row's, or to the first that could
 * be meant. `store` is where decoded parts go: at least strlen(path) + 1 bytes that live as long as
 * the request.
 */
int route_match(const struct route_set *sets, struct http_request *req, char *store, char *allow,
                size_t allow_size, struct err *err);

/*
 * Percent-decodes len bytes to dst (at least len + 1 bytes; may be src), NUL-terminates and returns
 * the length. -EINVAL for a '%' without two hex digits and for %00. plus: '+' is a space (queries).
 */
int percent_decode(char *dst, const char *src, size_t len, bool plus);
