#pragma once

/*
 * The strict scan of a request's head, byte by byte as they come, before any parser sees it.
 * Parsers of one connection (ours, a proxy's, a filter's) must not see two different heads, so what
 * has more than one reading is refused: a CR or LF alone, NUL and other control bytes, folded
 * lines, a blank before the request line.
 */

#include <stddef.h>

struct err;

struct head_limits {
    size_t bytes, lines, url;
};

struct head_scan {
    size_t pos, lines, line_start;
};

/*
 * Goes on at scan->pos. The length of the head (with its empty line), or 0 when more must come;
 * -EBADMSG, -E2BIG (bytes or lines), -ENAMETOOLONG (request line). scan is all zero for a new head.
 */
long head_scan(struct head_scan *scan, const char *data, size_t len,
               const struct head_limits *limits, struct err *err);
