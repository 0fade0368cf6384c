#pragma once

/* Finds a line in a log, by a text or by a regular expression (Perl's, on bytes). The expression
 * comes from a client and the lines from a sandbox; both are hostile. So their lengths are
 * bounded, and a match has a bound on steps and memory; to exceed it is an error, not a
 * mismatch. (The C library's matcher has neither bound: a short expression and a line of 8 KiB
 * can occupy it for minutes, with hundreds of megabytes.) Pure. */

#include <stdbool.h>
#include <stddef.h>

struct err;
struct match;

enum {
    MATCH_TEXT_MAX = 4096,     /* bytes of a text */
    MATCH_PATTERN_MAX = 256,   /* bytes of an expression */
    MATCH_LINE_MAX = 8192,     /* bytes; a longer line is searched in parts of this size */
    MATCH_STEPS_MAX = 1 << 17, /* per line; about 10 ms */
    MATCH_HEAP_MAX = 4096,     /* KiB per line */
};

/* Exactly one of text and pattern is given. The caller frees *ret by match_free. -EINVAL,
 * -ENOMEM. */
int match_new(const char *text, const char *pattern, struct match **ret, struct err *err);
void match_free(struct match *m);
/* Matches one line (without its end). 1 or 0; -ERANGE: the bounds were exceeded. */
int match_line(struct match *m, const char *line, size_t len);

/* A stream that is split into lines. Zeroed before the first use. */
struct match_lines {
    char line[MATCH_LINE_MAX];
    size_t len;
    bool clear; /* the line was reported: the next byte begins another */
};

/* Feeds until a line matches: 1, with *ret_used bytes consumed up to its end; l holds the line
 * until the next feed. 0: all bytes were consumed without a match. -ERANGE. */
int match_feed(struct match *m, struct match_lines *l, const char *bytes, size_t len,
               size_t *ret_used);
/* Matches the last, unterminated line. An expression is tried only if no more bytes follow
 * (`last`), as they could change the result. Returns like match_line. */
int match_rest(struct match *m, struct match_lines *l, bool last);
