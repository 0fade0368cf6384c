#pragma once

/* Routes: static tables of {method, pattern, handler}.
 *
 * A pattern is a path whose segments are literals or a name in braces:
 * "/v1/sandboxes/{id}/files". The path is split at '/' first, then each segment is
 * percent-decoded once, so "%2f" never makes a segment:
 *   {name}     one segment; if it decodes to "", ".", ".." or contains '/': 400
 *   {name*}    the rest of the path from its '/' on, as sent: neither decoded nor checked,
 *              possibly empty. Last in its pattern; for other servers.
 *   {name...}  one or more segments, joined by '/'; "%2F" equals '/'. "", "." and ".." among
 *              them: 400
 *
 * A '%' without two hex digits, and %00, are 400. Literals are compared after decoding. The
 * first matching row is chosen. No match is 404; a match of another method is 405 with Allow. */

#include <stdbool.h>
#include <stddef.h>

enum { ROUTE_SEGMENTS_MAX = 64 /* more segments: 404 */ };

struct err;
struct http_request;

typedef void http_handler_fn(struct http_request *req);

enum route_flags {
    ROUTE_BODY = 1 << 0, /* takes a body, which is buffered before the handler is called */
    ROUTE_STREAM =
        1 << 1, /* takes a body by http_body_start; the handler is called after the head */
    ROUTE_UPGRADE =
        1 << 2, /* may become a raw stream (http_upgrade); with ROUTE_BODY after the body */
    ROUTE_LARGE = 1 << 3, /* with ROUTE_BODY: the server's limit for large bodies applies */
};
/* Without ROUTE_BODY and ROUTE_STREAM the first byte of a body is 400; an empty body (chunked or
 * not) is allowed. */

struct route {
    const char *method; /* NULL ends a table. A GET row serves HEAD, too, unless a HEAD row
                         * exists */
    const char *pattern;
    http_handler_fn *handler;
    unsigned flags;
    size_t max_body; /* ROUTE_BODY: bytes; 0: the server's limit */
};

/* A route table, and the settings that its rows share. */
struct route_set {
    const struct route *routes; /* NULL ends the list of sets */
    void *context;              /* becomes req->context */
    /* Called before each handler; false: it has ended the request with a refusal. NULL: all are
     * admitted. */
    bool (*admit)(struct http_request *req);
    /* Called once for each request whose route was found: when its reply begins, or when its client
     * has gone without one (req->status 0). Called again at the end if a reply that had begun
     * failed (req->error). May be NULL. */
    void (*replied)(struct http_request *req);
    bool version_prefix; /* a first segment "v<digits>.<digits>" is removed and becomes
                          * req->version */
    /* Sends errors that the server itself finds (404, 405, 413, ...) for paths of this set, and
     * ends the request. `code` is an errno's name. NULL: reply_failure. */
    void (*failure)(struct http_request *req, int status, const char *code, const char *message,
                    const char *allow);
};

/* Checks that patterns are well formed and that no two rows have the same method and pattern.
 * -EINVAL, and err names the row. */
int route_check(const struct route *routes, struct err *err);

/* Finds the row for req->method and req->path and sets route, set, context, version and params.
 * 0; -ENOENT; -EINVAL (a bad escape or value); -EOPNOTSUPP, with the path's methods in `allow`
 * ("GET, HEAD"). req->set is always set: to the row's set or the most likely one. `store` takes
 * decoded parts: at least strlen(path) + 1 bytes that live as long as the request. */
int route_match(const struct route_set *sets, struct http_request *req, char *store, char *allow,
                size_t allow_size, struct err *err);

/* Percent-decodes len bytes to dst (at least len + 1 bytes; may equal src), NUL-terminates and
 * returns the length. -EINVAL for a '%' without two hex digits and for %00. plus: '+' becomes a
 * space (queries). */
int percent_decode(char *dst, const char *src, size_t len, bool plus);
