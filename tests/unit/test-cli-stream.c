/* What the command line reads of a daemon's streams: frames, server-sent events; and keys that
 * detach. */

#include <errno.h>

#include "base/detach-keys.h"
#include "base/err.h"
#include "cli/event-stream.h"
#include "cli/frames.h"
#include "tap.h"

/* ---- frames ---- */

struct heard {
    char text[1024];
    size_t len, room; /* room: bytes that are taken at a time */
};

static size_t on_output(void *data, int stream, const char *bytes, size_t len)
{
    struct heard *h = data;
    size_t n = len < h->room ? len : h->room;

    if (h->len + n + 2 < sizeof(h->text))
        h->len += (size_t)snprintf(h->text + h->len, sizeof(h->text) - h->len, "%d%.*s", stream,
                                   (int)n, bytes);
    return n;
}

TEST(frames_are_read_however_they_are_cut)
{
    static const char bytes[] = "\1\0\0\0\0\0\0\3abc"
                                "\2\0\0\0\0\0\0\1e"
                                "\1\0\0\0\0\0\0\0"
                                "\3\0\0\0\0\0\0\2{}"
                                "never";

    for (size_t piece = 1; piece < sizeof(bytes); piece++) {
        struct frames f = {.head_len = 0};
        struct heard h = {.room = piece < 3 ? 1 : 100};
        struct err err = ERR_NONE;
        size_t at = 0, used = 1;

        while (at < sizeof(bytes) - 1 && f.end_type == 0 && used > 0) {
            size_t n = sizeof(bytes) - 1 - at < piece ? sizeof(bytes) - 1 - at : piece;

            CHECK_INT(frames_feed(&f, bytes + at, n, on_output, &h, &used, &err), 0);
            at += used;
        }
        CHECK_INT(f.end_type, EXEC_FRAME_EXIT);
        CHECK_STR(f.end, "{}");
        CHECK_INT(at, sizeof(bytes) - 1 - 5);
        if (piece >= sizeof(bytes) - 1)
            CHECK_STR(h.text, "1abc2e");
        frames_done(&f);
    }
}

/* Who takes nothing is given the same again. */
TEST(frames_wait)
{
    static const char bytes[] = "\1\0\0\0\0\0\0\3abc";
    struct frames f = {.head_len = 0};
    struct heard h = {.room = 0};
    struct err err = ERR_NONE;
    size_t used = 0;

    CHECK_INT(frames_feed(&f, bytes, sizeof(bytes) - 1, on_output, &h, &used, &err), 0);
    CHECK_INT(used, EXEC_FRAME_HEAD);
    h.room = 2;
    h.len = 0;
    CHECK_INT(frames_feed(&f, bytes + used, 3, on_output, &h, &used, &err), 0);
    CHECK_STR(h.text, "1ab1c");
    frames_done(&f);
}

TEST(no_frames)
{
    static const struct {
        const char *bytes;
        const char *message;
    } rows[] = {
        {"\0\0\0\0\0\0\0\0", "the daemon sent a frame of type 0, which is none"},
        {"\5\0\0\0\0\0\0\0", "the daemon sent a frame of type 5, which is none"},
        {"\1\0\0\1\0\0\0\0", "the daemon sent a frame of type 1, which is none"},
        {"\1\0\0\0\2\0\0\0", "the daemon sent a frame of 33554432 bytes"},
        {"\3\0\0\0\0\1\0\1", "the daemon sent a frame of 65537 bytes"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct frames f = {.head_len = 0};
        struct heard h = {.room = 100};
        struct err err = ERR_NONE;
        size_t used;

        CHECK_INT(frames_feed(&f, rows[i].bytes, 8, on_output, &h, &used, &err), -EPROTO);
        CHECK_STR(err.msg, rows[i].message);
        frames_done(&f);
    }
}

/* ---- events ---- */

static int on_event(void *data, const char *name, const char *text, size_t len, struct err *err)
{
    struct heard *h = data;

    h->len += (size_t)snprintf(h->text + h->len, sizeof(h->text) - h->len, "<%s:%.*s>", name,
                               (int)len, text);
    return strcmp(name, "stop") == 0 ? err_set(err, -ECANCELED, "stop") : 0;
}

TEST(events_are_read_however_they_are_cut)
{
    static const char bytes[] = ": heartbeat\n\n"
                                "id: 7\nevent: stdout\ndata: {\"a\":1}\n\n"
                                "data:one\r\ndata: two\r\n\r\n"
                                "event: empty\ndata\n\n"
                                "event: nothing\n\n"
                                "id: 8-9\nunknown: x\ndata:  y\n\n"
                                "data: half";

    for (size_t piece = 1; piece < sizeof(bytes); piece++) {
        struct event_stream s;
        struct heard h = {.len = 0};
        struct err err = ERR_NONE;

        event_stream_begin(&s);
        for (size_t at = 0; at < sizeof(bytes) - 1; at += piece) {
            size_t n = sizeof(bytes) - 1 - at < piece ? sizeof(bytes) - 1 - at : piece;

            CHECK_INT(event_stream_feed(&s, bytes + at, n, on_event, &h, &err), 0);
        }
        CHECK_STR(h.text, "<stdout:{\"a\":1}><:one\ntwo><empty:><: y>");
        CHECK_STR(s.id, "8-9");
        event_stream_done(&s);
    }
}

TEST(events_end)
{
    struct event_stream s;
    struct heard h = {.len = 0};
    struct err err = ERR_NONE;
    char line[4096];
    size_t fed = 0;
    int r = 0;

    event_stream_begin(&s);
    CHECK_INT(event_stream_feed(&s, "event: stop\ndata: x\n\ndata: y\n\n", 30, on_event, &h, &err),
              -ECANCELED);
    CHECK_STR(h.text, "<stop:x>");
    event_stream_done(&s);
    event_stream_begin(&s);
    (void)memset(line, 'a', sizeof(line));
    for (; r == 0 && fed < 2UL * EVENT_LINE_MAX; fed += sizeof(line))
        r = event_stream_feed(&s, line, sizeof(line), on_event, &h, &err);
    CHECK_INT(r, -EFBIG);
    CHECK(fed <= EVENT_LINE_MAX + sizeof(line));
    event_stream_done(&s);
}

/* ---- keys ---- */

static void check_keys(const char *keys, const char *typed, const char *want, bool detached,
                       unsigned held)
{
    for (size_t piece = 1; piece <= strlen(typed) + 1; piece++) {
        struct keys k;
        char out[256] = "", part[64 + KEYS_MAX];
        size_t len = 0, n;
        bool done = false;

        CHECK_INT(keys_parse(keys, &k), 0);
        for (size_t at = 0; at < strlen(typed) && !done; at += piece) {
            size_t left = strlen(typed) - at;

            done = keys_filter(&k, typed + at, left < piece ? left : piece, part, &n);
            (void)memcpy(out + len, part, n);
            len += n;
        }
        out[len] = '\0';
        if (strcmp(out, want) != 0 || done != detached || k.matched != held)
            tap_fail("'%s' in pieces of %zu: '%s', %d, %u held; want '%s', %d, %u", typed, piece,
                     out, done, k.matched, want, detached, held);
    }
}

TEST(detach_keys_are_found_in_any_cut)
{
    struct keys k;

    check_keys("ctrl-p,ctrl-q",
               "ab\x10\x11"
               "cd",
               "ab", true, 0);
    check_keys("ctrl-p,ctrl-q",
               "ab\x10"
               "cd",
               "ab\x10"
               "cd",
               false, 0);
    check_keys("ctrl-p,ctrl-q", "\x10\x10\x11", "\x10", true, 0);
    check_keys("ctrl-p,ctrl-q", "x\x10", "x", false, 1);
    check_keys("ctrl-p,ctrl-q", "\x11\x11", "\x11\x11", false, 0);
    check_keys("a,a,b", "aaab", "a", true, 0);
    check_keys("a,b,a,c", "ababac", "ab", true, 0);
    check_keys("q", "xq", "x", true, 0);
    check_keys("ctrl-@", "xyz", "xyz", false, 0);
    check_keys("", "\x10\x11", "\x10\x11", false, 0);
    CHECK_INT(keys_parse("ctrl-", &k), -EINVAL);
    CHECK_INT(keys_parse("ctrl-1", &k), -EINVAL);
    CHECK_INT(keys_parse("a,", &k), -EINVAL);
    CHECK_INT(keys_parse(",a", &k), -EINVAL);
    CHECK_INT(keys_parse("ab", &k), -EINVAL);
    CHECK_INT(keys_parse("a,a,a,a,a,a,a,a,a", &k), -EINVAL);
}

TAP_MAIN
