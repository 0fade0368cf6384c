/* Lines of logs by text and by expression: what matches, what is refused, and what costs too much.
 */

#include <errno.h>

#include "api/native/process-match.h"
#include "base/err.h"
#include "tap.h"

static bool found(const char *text, const char *pattern, const char *line)
{
    struct err err = ERR_NONE;
    struct match *m = NULL;
    int r;

    CHECK_INT(match_new(text, pattern, &m, &err), 0);
    CHECK_STR(err.msg, "");
    r = match_line(m, line, strlen(line));
    match_free(m);
    return r == 1;
}

TEST(a_pattern_matches_lines)
{
    static const struct {
        const char *text, *pattern, *line;
        bool want;
    } rows[] = {
        {"ready", NULL, "server ready on 80", true},
        {"ready", NULL, "server read", false},
        {"a.c", NULL, "abc", false},
        {NULL, "ready|listening", "now listening", true},
        {NULL, "^port [0-9]{2,5}$", "port 8080", true},
        {NULL, "^port [0-9]{2,5}$", "port 8", false},
        {NULL, "^$", "", true},
        {NULL, "a{2}", "caab", true},
        {NULL, "a{2}", "cab", false},
        {NULL, "[]x]+", "--]--", true},
        {NULL, "(?i)READY\\s+\\d+", "ready  5", true},
        {NULL, "[[:digit:]]+ms", "in 15ms", true},
        {NULL, "x{", "x{", true},
        {NULL, "(a|b)*c+", "abac", true},
        {NULL, "\\$[0-9]", "cost $5", true},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (found(rows[i].text, rows[i].pattern, rows[i].line) != rows[i].want)
            tap_fail("row %zu: '%s' in '%s'", i,
                     rows[i].text != NULL ? rows[i].text : rows[i].pattern, rows[i].line);
}

TEST(bad_patterns_are_refused)
{
    static char nested[] =
        "(((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((("
        "(((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((("
        "(((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((("
        "(((((((((((((((((((((((((((";
    static const struct {
        const char *text, *pattern, *message;
    } rows[] = {
        {NULL, NULL, "text or pattern: one of the two"},
        {"a", "b", "text or pattern: one of the two"},
        {"", NULL, "text: 1 to 4096 bytes"},
        {"a\nb", NULL, "text: a line holds no line end"},
        {NULL, "", "pattern: 1 to 256 bytes"},
        {NULL, "a\rb", "pattern: a line holds no line end"},
        {NULL, "[a", "pattern: at byte 2: missing terminating ] for character class"},
        {NULL, "(a", "pattern: at byte 2: missing closing parenthesis"},
        {NULL, "(((a{999}){999}){999}){999}",
         "pattern: at byte 27: regular expression is too large"},
        {NULL, "(*UTF)a", "pattern: at byte 6: using UTF is disabled by the application"},
        {NULL, nested, "pattern: at byte 249: missing closing parenthesis"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct err err = ERR_NONE;
        struct match *m = NULL;

        CHECK_INT(match_new(rows[i].text, rows[i].pattern, &m, &err), -EINVAL);
        CHECK_STR(err.msg, rows[i].message);
        CHECK(m == NULL);
    }
}

/* The same lines are found however the bytes are cut. */
TEST(output_is_matched_in_any_cut)
{
    static const char log[] = "one\ntwo\r\n\nthree is long\nfour";
    struct err err = ERR_NONE;

    for (size_t piece = 1; piece <= sizeof(log); piece++) {
        static struct match_lines l;
        struct match *m = NULL;
        int hits = 0;

        CHECK_INT(match_new(NULL, "^t(wo|hree.*)$", &m, &err), 0);
        (void)memset(&l, 0, sizeof(l));
        for (size_t at = 0; at < sizeof(log) - 1;) {
            size_t n = sizeof(log) - 1 - at < piece ? sizeof(log) - 1 - at : piece, used = 0;

            hits += match_feed(m, &l, log + at, n, &used);
            CHECK(used > 0 && used <= n);
            at += used;
        }
        CHECK_INT(hits, 2);
        CHECK(!match_rest(m, &l, false));
        CHECK(!match_rest(m, &l, true));
        match_free(m);
        CHECK_INT(match_new(NULL, "^four$", &m, &err), 0);
        CHECK(!match_rest(m, &l, false));
        CHECK(match_rest(m, &l, true));
        match_free(m);
        CHECK_INT(match_new("fou", NULL, &m, &err), 0);
        CHECK(match_rest(m, &l, false));
        match_free(m);
    }
}

TEST(long_lines)
{
    static char log[3 * MATCH_LINE_MAX];
    static struct match_lines l;
    struct err err = ERR_NONE;
    struct match *m = NULL;
    size_t used = 0;

    /* Across the cut, for each place of the text around it. */
    for (size_t at = MATCH_LINE_MAX - 8; at <= MATCH_LINE_MAX + 1; at++) {
        (void)memset(log, 'x', sizeof(log));
        (void)memset(&l, 0, sizeof(l));
        (void)memcpy(log + at, "needle", 6);
        CHECK_INT(match_new("needle", NULL, &m, &err), 0);
        CHECK(match_feed(m, &l, log, sizeof(log), &used) || match_rest(m, &l, true));
        match_free(m);
    }
    /* An expression sees parts. */
    (void)memset(log, 'x', sizeof(log));
    (void)memset(&l, 0, sizeof(l));
    log[sizeof(log) - 1] = '\n';
    CHECK_INT(match_new(NULL, "^x{200}.*$", &m, &err), 0);
    CHECK(match_feed(m, &l, log, sizeof(log), &used));
    CHECK_INT(l.len, MATCH_LINE_MAX);
    match_free(m);
}

/* Lines with NUL bytes and bytes that are no text are lines. */
TEST(bytes_that_are_no_text_are_matched)
{
    static const char line[] = "a\0b\xff needle";
    struct err err = ERR_NONE;
    struct match *m = NULL;

    CHECK_INT(match_new(NULL, "needle$", &m, &err), 0);
    CHECK(match_line(m, line, sizeof(line) - 1));
    match_free(m);
}

/* What could take for ever is given up, and is not taken for "no". */
TEST(costly_patterns_end_at_their_limit)
{
    static const char *const patterns[] = {"(a+)+$", "(a|aa)+$", "(.*)(.*)(.*)(.*)(.*)c",
                                           "(a|b)*a(a|b){30}c", "((a*)*)*c"};
    static char line[MATCH_LINE_MAX];

    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        struct err err = ERR_NONE;
        struct match *m = NULL;

        (void)memset(line, 'a', sizeof(line));
        line[sizeof(line) - 1] = 'b';
        CHECK_INT(match_new(NULL, patterns[i], &m, &err), 0);
        for (int round = 0; round < 20; round++) {
            int r = match_line(m, line, sizeof(line));

            if (r != -ERANGE && r != 0)
                tap_fail("%s: %d", patterns[i], r);
        }
        match_free(m);
    }
}

TAP_MAIN
