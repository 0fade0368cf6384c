#pragma once

/* HTTP heads: how a head is split, and what its first line and its headers may say. The server,
 * the messages of the proxy, the command line's replies and egress's CONNECT read heads by these
 * functions. Pure.
 *
 *     n = head_scan(&scan, data, len, &limits, &err);      > 0: a head of n bytes is complete
 *     head_split(text, headers, scan.lines, &count, &err); text: a copy, NUL-terminated
 *     head_request_line(text, &target, &http10, &err);     text is the first line now
 *     head_fields(headers, count, false, http10, &fields, &status, &err); */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

struct head_limits {
    size_t bytes, lines, url;
};

struct head_scan {
    size_t pos, lines, line_start;
};

/* A strict scan of a head, incremental, before any parser sees it. All parsers of a connection
 * (rind's, a proxy's, a filter's) must see one and the same head. So every ambiguous head is
 * refused: a single CR or LF, NUL and other control bytes, folded lines, a blank before the
 * request line.
 *
 * Continues at scan->pos. Returns the length of the head with its empty line, 0 if incomplete,
 * or -EBADMSG, -E2BIG (bytes or lines), -ENAMETOOLONG (request line). scan is all zero for a new
 * head. */
long head_scan(struct head_scan *scan, const char *data, size_t len,
               const struct head_limits *limits, struct err *err);

struct http_header {
    const char *name, *value; /* NUL-terminated; tabs are the only control bytes */
};

/* Splits a scanned head in place: `text` becomes its first line, and each header's name and value
 * point into it, without the blanks around the value. `max`: room in headers. -EBADMSG. */
int head_split(char *text, struct http_header *headers, size_t max, size_t *ret_count,
               struct err *err);
/* Returns the value of the first header of this name (any case), or NULL. */
const char *header_value(const struct http_header *headers, size_t count, const char *name);

/* Splits a request line in place at its first two blanks, and checks nothing. */
bool head_split_request(char *line, char **ret_target, char **ret_version);
/* Splits and checks a request line, whose method `line` is then. -EBADMSG; -EPROTONOSUPPORT: a
 * version other than 1.0 and 1.1. */
int head_request_line(char *line, char **ret_target, bool *ret_http10, struct err *err);
/* The same for a status line: 100 to 999, and the reason, possibly "". */
int head_status_line(char *line, int *ret_status, const char **ret_reason, bool *ret_http10,
                     struct err *err);

/* What the headers say about framing and routing. Strings are borrowed from the headers. */
struct head_fields {
    const char *host;    /* NULL: none */
    const char *upgrade; /* NULL: none; "": more than one */
    bool chunked, has_length;
    uint64_t length;
    bool close, keep_alive, names_upgrade; /* listed by Connection */
    bool expect_continue;
};

/* Refuses what two readers could understand in different ways: a name that is no token, a second
 * Content-Length or Host, any coding but "chunked". -EBADMSG; -EINVAL with *status 417: another
 * expectation than 100-continue. */
int head_fields(const struct http_header *headers, size_t count, bool response, bool http10,
                struct head_fields *ret, int *status, struct err *err);
/* True if a comma-separated list holds this token, in any case. */
bool header_lists(const char *list, const char *token);
