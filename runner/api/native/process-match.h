#pragma once

/*
 * Finds a line in a log: by a text that it holds, or by a regular expression (Perl's, on bytes).
 * The expression is a client's and the lines are a sandbox's: both are hostile. So expressions and
 * lines have a length, and a match has a bound on steps and memory, behind which it is an error and
 * no miss. (The C library's own matcher has neither bound: a short expression and a line of 8 KiB
 * keep it busy for minutes, in hundreds of megabytes.) Pure.
 */

#include <stdbool.h>
#include <stddef.h>

struct err;
struct match;

enum {
    MATCH_TEXT_MAX = 4096,     /* bytes of a text */
    MATCH_PATTERN_MAX = 256,   /* bytes of an expression */
    MATCH_LINE_MAX = 8192,     /* bytes: a longer line is looked at in parts of this size */
    MATCH_STEPS_MAX = 1 << 17, /* of one line; about 10 ms */
    MATCH_HEAP_MAX = 4096,     /* KiB of one line */
};

/* Exactly one of text and pattern. -EINVAL, -ENOMEM. */
int match_new(const char *text, const char *pattern, struct match **ret, struct err *err);
void match_free(struct match *m);
/* Whether this line (without its end) is meant: 1, 0; -ERANGE: that cannot be said within the
 * bounds. */
int match_line(struct match *m, const char *line, size_t len);

/* One stream, cut into lines. Zeroed before the first use. */
struct match_lines {
    char line[MATCH_LINE_MAX];
    size_t len;
    bool clear; /* the line has been told: the next byte begins another */
};

/* Feeds until a line matches: 1, and *ret_used bytes were taken up to its end; the line is in l
 * until more is fed. 0: all were taken, and none did. -ERANGE. */
int match_feed(struct match *m, struct match_lines *l, const char *bytes, size_t len,
               size_t *ret_used);
/* Whether the last line, whose end has not come, matches. For an expression only when nothing more
 * comes (`last`): what follows could undo it. As match_line. */
int match_rest(struct match *m, struct match_lines *l, bool last);
