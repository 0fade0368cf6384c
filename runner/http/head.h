#pragma once

/* A strict scan of an HTTP head, incremental, before any parser sees it. All parsers of a
 * connection (rind's, a proxy's, a filter's) must see one and the same head. So every ambiguous
 * head is refused: a single CR or LF, NUL and other control bytes, folded lines, a blank before
 * the request line. Pure. */

#include <stddef.h>

struct err;

struct head_limits {
    size_t bytes, lines, url;
};

struct head_scan {
    size_t pos, lines, line_start;
};

/* Continues at scan->pos. Returns the length of the head with its empty line, 0 if incomplete,
 * or -EBADMSG, -E2BIG (bytes or lines), -ENAMETOOLONG (request line). scan is all zero for a new
 * head. */
long head_scan(struct head_scan *scan, const char *data, size_t len,
               const struct head_limits *limits, struct err *err);
