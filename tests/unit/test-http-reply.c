/* Replies of a daemon as the command line reads them: whole, byte by byte, and everything that is
 * none. */

#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "http/client-reply.h"
#include "tap.h"

struct heard {
    int code; /* of the first refusal, or 0 */
    struct err err;
    int state, status;
    size_t used; /* bytes of the reply itself */
    char body[4096];
    size_t len;
    bool keep_alive;
    char header[256]; /* of X-Test */
};

/* Feeds text in pieces, then its end. */
static void feed(const char *text, size_t len, size_t piece, bool end, struct heard *h)
{
    struct reply r = {.status = 0};

    *h = (struct heard){.code = 0};
    reply_begin(&r);
    while (h->used < len && r.state < REPLY_DONE && h->code == 0) {
        size_t n = len - h->used < piece ? len - h->used : piece, used = 0;

        h->code = reply_feed(&r, text + h->used, n, &used, &h->err);
        h->used += used;
        if (h->code == 0 && h->len + r.body.len <= sizeof(h->body)) {
            if (r.body.len > 0)
                (void)memcpy(h->body + h->len, r.body.data, r.body.len);
            h->len += r.body.len;
        }
    }
    if (h->code == 0 && end)
        h->code = reply_end(&r, &h->err);
    h->state = (int)r.state;
    h->status = r.status;
    h->keep_alive = r.keep_alive;
    if (h->code == 0 && reply_header(&r, "x-test") != NULL)
        (void)snprintf(h->header, sizeof(h->header), "%s", reply_header(&r, "x-test"));
    reply_done(&r);
}

/* clang-format off */
static const struct {
    const char *text;
    int status, state;
    const char *body, *header;
    size_t rest; /* bytes behind the reply */
    bool keep;
} good[] = {
    {"HTTP/1.1 204 No Content\r\nX-Test: a b\r\n\r\n", 204, REPLY_DONE, "", "a b", 0, true},
    {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, REPLY_DONE, "hello", "", 0, true},
    {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nx-TEST:\r\n\r\nhelloHTTP/1.1", 200, REPLY_DONE, "hello", "", 8, true},
    {"HTTP/1.1 404 \r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}", 404, REPLY_DONE, "{}", "", 0, false},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;x=y\r\nd\r\n0\r\n\r\n", 200, REPLY_DONE, "abcd", "", 0, true},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Test: late\r\n\r\n", 200, REPLY_DONE, "a", "", 0, true},
    {"HTTP/1.1 100 Continue\r\nX-Test: no\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, REPLY_DONE, "x", "", 0, true},
    {"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: rind-exec\r\nX-Test: 1\r\n\r\n\1\0\0", 101, REPLY_UPGRADED, "", "1", 1, false},
    {"HTTP/1.1 200 OK\r\n\r\nto the end", 200, REPLY_DONE, "to the end", "", 0, false},
};

static const struct {
    const char *text;
    int code;
    const char *message;
} bad[] = {
    {"",                                                          -ECONNRESET, "no reply"},
    {"HTTP/1.1 200 OK\r\nContent-Le",                             -ECONNRESET, "no reply"},
    {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",          -ECONNRESET, "the reply broke off"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab", -ECONNRESET, "the reply broke off"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", -EPROTO, NULL},
    {"SSH-2.0-OpenSSH_9.2\r\n",                                   -EPROTO, NULL},
    {"\0\0\0\0",                                                  -ECONNRESET, "no reply"},
    {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", -EPROTO, NULL},
    {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",             -EPROTO, NULL},
    {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n", -EPROTO, NULL},
    {"HTTP/1.1 200 OK\r\nA B: c\r\n\r\n",                         -EPROTO, NULL},
    {"GET / HTTP/1.1\r\nHost: x\r\n\r\n",                         -EPROTO, NULL},
};
/* clang-format on */

TEST(replies_are_parsed)
{
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        size_t len = strlen(good[i].text), pieces[] = {len, 1, 2, 7};

        for (size_t k = 0; k < sizeof(pieces) / sizeof(pieces[0]); k++) {
            struct heard h;

            feed(good[i].text, len, pieces[k], true, &h);
            if (h.code != 0)
                tap_fail("row %zu in pieces of %zu: %s", i, pieces[k], h.err.msg);
            CHECK_INT(h.status, good[i].status);
            CHECK_INT(h.state, good[i].state);
            h.body[h.len] = '\0';
            CHECK_STR(h.body, good[i].body);
            CHECK_STR(h.header, good[i].header);
            CHECK_INT(len - h.used, good[i].rest);
            CHECK_INT(h.keep_alive, good[i].keep);
        }
    }
}

TEST(malformed_replies_are_refused)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        size_t len = strlen(bad[i].text), pieces[] = {len + 1, 1, 3};

        for (size_t k = 0; k < sizeof(pieces) / sizeof(pieces[0]); k++) {
            struct heard h;

            feed(bad[i].text, len, pieces[k], true, &h);
            if (h.code != bad[i].code)
                tap_fail("row %zu in pieces of %zu: %d (%s), want %d", i, pieces[k], h.code,
                         h.err.msg, bad[i].code);
            if (bad[i].message != NULL)
                CHECK_STR(h.err.msg, bad[i].message);
            CHECK(h.err.msg[0] != '\0');
        }
    }
}

/* A head without end, and one with too many lines, end in an error and in little memory. */
TEST(replies_beyond_the_bounds_are_refused)
{
    struct reply r = {.status = 0};
    struct err err = ERR_NONE;
    size_t used = 0, fed = 0;
    char line[4096];
    int code;

    reply_begin(&r);
    code = reply_feed(&r, "HTTP/1.1 200 OK\r\nX: ", 20, &used, &err);
    (void)memset(line, 'a', sizeof(line));
    for (; code == 0 && fed < 1 << 20; fed += sizeof(line))
        code = reply_feed(&r, line, sizeof(line), &used, &err);
    CHECK_INT(code, -EPROTO);
    CHECK(fed <= REPLY_HEAD_MAX + sizeof(line));
    CHECK(strstr(err.msg, "too long") != NULL);

    reply_begin(&r);
    code = reply_feed(&r, "HTTP/1.1 200 OK\r\n", 17, &used, &err);
    for (int i = 0; code == 0 && i < 1000; i++)
        code = reply_feed(&r, "A: b\r\n", 6, &used, &err);
    CHECK_INT(code, -EPROTO);
    CHECK(strstr(err.msg, "more than 64 headers") != NULL);
    reply_done(&r);
}

/* One reply after another is read. */
TEST(one_parser_reads_several_replies)
{
    static const char text[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Test: y\r\n\r\nok";
    struct reply r = {.status = 0};
    struct err err = ERR_NONE;

    for (int i = 0; i < 3; i++) {
        size_t used = 0;

        reply_begin(&r);
        CHECK_INT(reply_feed(&r, text, sizeof(text) - 1, &used, &err), 0);
        CHECK_INT(r.state, REPLY_DONE);
        CHECK_INT(r.body.len, 2);
        CHECK_STR(reply_header(&r, "X-Test"), "y");
        CHECK(reply_header(&r, "Y") == NULL);
        CHECK_INT(reply_feed(&r, text, 4, &used, &err), 0);
        CHECK_INT(used, 0);
    }
    reply_done(&r);
}

TAP_MAIN
