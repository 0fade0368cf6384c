/* Messages as the proxy reads and writes them: what is refused, and what goes on. */
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "http/message.h"
#include "tap.h"

static const struct head_limits limits = {.bytes = 4096, .lines = 16, .url = 512};

static int collect(void *data, const char *at, size_t len)
{
    return buf_append(data, at, len);
}

/* All of text as one message: 0, or the status that a client is told. step: bytes at a time. */
struct outcome {
    int status;
    bool whole;
    struct message m;
    struct buf body, trailers;
    size_t used;
    char why[ERR_MSG_MAX];
};

static void outcome_done(struct outcome *o)
{
    message_done(&o->m);
    buf_done(&o->body);
    buf_done(&o->trailers);
}

static struct outcome run(const char *text, size_t len, bool response, bool head, size_t step)
{
    struct outcome o = {.body = BUF_INIT(1 << 20), .trailers = BUF_INIT(1 << 20)};
    struct err err = ERR_NONE;
    struct reader r;
    size_t have = 0;
    long n = 0;

    reader_init(&r, response, collect, &o.body);
    r.head_of_get = head;
    while (n == 0 && have < len) {
        have = have + step < len ? have + step : len;
        n = reader_head(&r, text, have, &limits, &o.m, &o.status, &err);
    }
    o.used = n > 0 ? (size_t)n : 0;
    if (n == 0)
        o.status = -1; /* more would have to come */
    while (n > 0 && r.in_body && o.used < len) {
        size_t piece = len - o.used < step ? len - o.used : step;

        n = reader_body(&r, text + o.used, piece, &err);
        if (n < 0)
            o.status = 400;
        else
            o.used += (size_t)n;
    }
    if (n >= 0 && r.in_body && reader_eof(&r, &err) < 0)
        n = -1;
    o.whole = o.status == 0 && n >= 0 && r.done;
    if (r.trailers.len > 0)
        (void)buf_append(&o.trailers, r.trailers.data, r.trailers.len);
    (void)snprintf(o.why, sizeof(o.why), "%s", err.msg);
    reader_done(&r);
    return o;
}

#define HOST "Host: h\r\n"

/* ---- requests that are refused ---- */

struct refused {
    const char *text;
    int status;
    const char *why;
};

static void check_refused(const struct refused *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t step = 1; step < 4096; step *= 64) {
            struct outcome o = run(rows[i].text, strlen(rows[i].text), false, false, step);

            if (o.status != rows[i].status || strstr(o.why, rows[i].why) == NULL)
                tap_fail("%.70s: %d '%s', want %d '%s'", rows[i].text, o.status, o.why,
                         rows[i].status, rows[i].why);
            outcome_done(&o);
        }
    }
}

TEST(lengths_refused)
{
    static const struct refused rows[] = {
        /* two lengths */
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd", 400,
         "twice"},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd", 400,
         "twice"},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 4, 4\r\n\r\nabcd", 400, "no number"},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\n", 400, "no number"},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: +4\r\n\r\nabcd", 400, "no number"},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 0x4\r\n\r\nabcd", 400, "no number"},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\nabcd", 400, "no number"},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 18446744073709551620\r\n\r\nabcd", 400,
         "no number"},
        {"POST / HTTP/1.1\r\n" HOST
         "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
         400, "beside"},
        {"POST / HTTP/1.1\r\n" HOST
         "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
         400, "beside"},
        /* codings that are not one "chunked" */
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400,
         "must be 'chunked'"},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 400,
         "must be 'chunked'"},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n", 400,
         "must be 'chunked'"},
        {"POST / HTTP/1.1\r\n" HOST
         "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
         400, "once"},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: \x0b"
         "chunked\r\n\r\n",
         400, "control byte"},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding : chunked\r\n\r\n", 400, "name"},
        {"POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400,
         "in HTTP/1.1"},
    };

    check_refused(rows, sizeof(rows) / sizeof(rows[0]));
}

TEST(lines_refused)
{
    static const struct refused rows[] = {
        {"GET / HTTP/1.1\n" HOST "\r\n", 400, "line feed"},
        {"GET / HTTP/1.1\r\nHost: h\r\r\n\r\n", 400, "carriage return"},
        {"GET / HTTP/1.1\r\n" HOST "A: b\r\n c\r\n\r\n", 400, "blank"},
        {"GET / HTTP/1.1\r\n" HOST " A: b\r\n\r\n", 400, "blank"},
        {"GET / HTTP/1.1\r\n" HOST ": b\r\n\r\n", 400, "without a name"},
        {"GET / HTTP/1.1\r\n" HOST "A b: c\r\n\r\n", 400, "name"},
        {"GET / HTTP/1.1\r\n" HOST "none\r\n\r\n", 400, "without a name"},
        {"GET / HTTP/1.1\r\n" HOST "A: b\x01\r\n\r\n", 400, "control byte"},
    };

    check_refused(rows, sizeof(rows) / sizeof(rows[0]));
}

TEST(hosts_refused)
{
    static const struct refused rows[] = {
        {"GET / HTTP/1.1\r\n\r\n", 400, "Host is missing"},
        {"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400, "Host is there twice"},
        {"GET / HTTP/1.1\r\nHost: a\r\nhOST: b\r\n\r\n", 400, "Host is there twice"},
        {"GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n", 400, "not the host"},
        {"GET http:///x HTTP/1.1\r\nHost: b\r\n\r\n", 400, "no host"},
        {"GET http://a?x HTTP/1.1\r\nHost: a\r\n\r\n", 400, "no path"},
        {"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, "neither"},
        {"GET x HTTP/1.1\r\n" HOST "\r\n", 400, "neither"},
        {"GET * HTTP/1.1\r\n" HOST "\r\n", 400, "neither"},
        {"GET /a#b HTTP/1.1\r\n" HOST "\r\n", 400, "target"},
        {"GET /\x80 HTTP/1.1\r\n" HOST "\r\n", 400, "target"},
    };

    check_refused(rows, sizeof(rows) / sizeof(rows[0]));
}

TEST(request_lines_refused)
{
    static const struct refused rows[] = {
        {"GET  / HTTP/1.1\r\n" HOST "\r\n", 400, "spoken"},
        {"GET / HTTP/1.1 \r\n" HOST "\r\n", 505, "spoken"},
        {"GET /a b HTTP/1.1\r\n" HOST "\r\n", 400, "spoken"},
        {"GET /\r\n" HOST "\r\n", 400, "request line"},
        {"GET / HTTP/1.2\r\n" HOST "\r\n", 505, "spoken"},
        {"GET / HTTP/2.0\r\n" HOST "\r\n", 505, "spoken"},
        {"GET / http/1.1\r\n" HOST "\r\n", 400, "spoken"},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "spoken"},
        {"G=T / HTTP/1.1\r\n" HOST "\r\n", 400, ""},
        {"CONNECT a:1 HTTP/1.1\r\n" HOST "\r\n", 405, "CONNECT"},
        {"POST / HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nExpect: 100-continue\r\n\r\n", 400,
         "Expect is there twice"},
        {"POST / HTTP/1.1\r\n" HOST "Expect: 200-ok\r\n\r\n", 417, "Expect"},
    };

    check_refused(rows, sizeof(rows) / sizeof(rows[0]));
}

TEST(bodies_refused)
{
    static const struct refused rows[] = {
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n4\nabcd\r\n0\r\n\r\n", 400,
         "malformed body"},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n4\r\nabcd0\r\n\r\n", 400,
         "malformed body"},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n4\r\nabcd\n0\r\n\r\n", 400,
         "malformed body"},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n-4\r\nabcd\r\n0\r\n\r\n",
         400, "malformed body"},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0x4\r\nabcd\r\n0\r\n\r\n",
         400, "malformed body"},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\na", 400,
         "malformed body"},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1;x\ny\r\na\r\n0\r\n\r\n",
         400, "malformed body"},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\nA: b\n\r\n", 400,
         "malformed body"},
        {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\nA: b\rC: d\r\n\r\n",
         400, "malformed body"},
        /* limits */
        {"GET / HTTP/1.1\r\n" HOST "a:1\r\na:1\r\na:1\r\na:1\r\na:1\r\na:1\r\na:1\r\na:1\r\na:"
         "1\r\na:1\r\na:1\r\na:1\r\na:1\r\na:1\r\na:1\r\na:1\r\n\r\n",
         431, "more than 16 headers"},
    };

    check_refused(rows, sizeof(rows) / sizeof(rows[0]));
}

TEST(limits_of_a_head)
{
    static char text[8192];
    struct outcome o;

    (void)memset(text, 'a', sizeof(text));
    (void)memcpy(text, "GET /", 5);
    o = run(text, sizeof(text), false, false, sizeof(text));
    CHECK_INT(o.status, 414);
    outcome_done(&o);
    (void)memcpy(text, "GET / HTTP/1.1\r\nHost: ", 22);
    o = run(text, sizeof(text), false, false, 100);
    CHECK_INT(o.status, 431);
    outcome_done(&o);
}

/* ---- requests that go on ---- */

TEST(requests_forwarded)
{
    static const struct {
        const char *text, *want; /* want: the head that goes on */
        const char *body;
        bool trusted, keep;
    } rows[] = {
        {"GET /x?y=%20 HTTP/1.1\r\nHost: h:8\r\nAccept: */*\r\n\r\n",
         "GET /x?y=%20 HTTP/1.1\r\nHost: h:8\r\nAccept: */*\r\nX-Forwarded-For: 192.0.2.1\r\n"
         "X-Forwarded-Proto: http\r\nX-Forwarded-Host: h:8\r\n\r\n",
         "", false, true},
        /* hop by hop, and what Connection names */
        {"GET / HTTP/1.1\r\nHost: h\r\nConnection: close, X-Mine\r\nX-Mine: 1\r\nKeep-Alive: "
         "5\r\nTE: trailers\r\n"
         "Proxy-Authorization: secret\r\nUpgrade: x\r\nB: 2\r\n\r\n",
         "GET / HTTP/1.1\r\nHost: h\r\nB: 2\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: "
         "http\r\n"
         "X-Forwarded-Host: h\r\n\r\n",
         "", false, false},
        /* what a client says of others is not believed, in no spelling */
        {"GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 10.0.0.1\r\nX_Forwarded_For: 10.0.0.2\r\n"
         "X-Forwarded-Proto: https\r\nForwarded: for=1\r\nX-Forwarded-Host: "
         "evil\r\nContent_Length: 3\r\n\r\n",
         "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: http\r\n"
         "X-Forwarded-Host: h\r\n\r\n",
         "", false, true},
        {"GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 10.0.0.1\r\nX-Forwarded-Proto: https\r\n"
         "X-Forwarded-Host: outside\r\nX-Forwarded-For: 10.0.0.2\r\n\r\n",
         "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 10.0.0.1, 10.0.0.2, 192.0.2.1\r\n"
         "X-Forwarded-Proto: https\r\nX-Forwarded-Host: outside\r\n\r\n",
         "", true, true},
        {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nabcd",
         "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nX-Forwarded-For: 192.0.2.1\r\n"
         "X-Forwarded-Proto: http\r\nX-Forwarded-Host: h\r\n\r\n",
         "abcd", false, true},
        {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
         "CHUNKED\r\n\r\n2;ext=1\r\nab\r\n002\r\ncd\r\n0\r\n\r\n",
         "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nX-Forwarded-For: "
         "192.0.2.1\r\n"
         "X-Forwarded-Proto: http\r\nX-Forwarded-Host: h\r\n\r\n",
         "abcd", false, true},
        {"GET http://H/p HTTP/1.1\r\nHost: h\r\n\r\n",
         "GET /p HTTP/1.1\r\nHost: H\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: http\r\n"
         "X-Forwarded-Host: H\r\n\r\n",
         "", false, true},
        {"GET http://h HTTP/1.1\r\nHost: h\r\n\r\n",
         "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: http\r\n"
         "X-Forwarded-Host: h\r\n\r\n",
         "", false, true},
        {"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
         "OPTIONS * HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: "
         "http\r\n"
         "X-Forwarded-Host: h\r\n\r\n",
         "", false, true},
        {"GET / HTTP/1.0\r\n\r\n",
         "GET / HTTP/1.1\r\nHost: \r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: http\r\n"
         "X-Forwarded-Host: \r\n\r\n",
         "", false, false},
    };
    struct forward f = {.peer = "192.0.2.1", .proto = "http"};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (size_t step = 1; step < 4096; step *= 64) {
            struct outcome o = run(rows[i].text, strlen(rows[i].text), false, false, step);
            auto_buf struct buf out = BUF_INIT(1 << 16);

            f.trusted = rows[i].trusted;
            if (!o.whole || o.used != strlen(rows[i].text)) {
                tap_fail("%.60s: %d %s", rows[i].text, o.status, o.why);
                outcome_done(&o);
                continue;
            }
            CHECK_INT(message_forward_request(&o.m, &f, false, &out), 0);
            CHECK_STR(out.data, rows[i].want);
            CHECK_STR(o.body.data != NULL ? o.body.data : "", rows[i].body);
            CHECK_INT(o.m.keep_alive, rows[i].keep);
            outcome_done(&o);
        }
    }
}

TEST(an_upgrade_passes_after_101_only)
{
    static const struct {
        const char *text, *upgrade;
    } rows[] = {
        {"GET / HTTP/1.1\r\n" HOST "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n",
         "websocket"},
        {"GET / HTTP/1.1\r\n" HOST "Upgrade: websocket\r\n\r\n", NULL},
        {"GET / HTTP/1.1\r\n" HOST "Connection: Upgrade\r\n\r\n", NULL},
        {"GET / HTTP/1.1\r\n" HOST
         "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n",
         NULL},
        {"GET / HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: websocket, H2C\r\n\r\n", NULL},
        {"GET / HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: a\r\nUpgrade: b\r\n\r\n", NULL},
        {"POST / HTTP/1.1\r\n" HOST
         "Connection: Upgrade\r\nUpgrade: x\r\nContent-Length: 1\r\n\r\na",
         NULL},
        {"POST / HTTP/1.1\r\n" HOST
         "Connection: Upgrade\r\nUpgrade: x\r\nContent-Length: 0\r\n\r\n",
         "x"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct outcome o = run(rows[i].text, strlen(rows[i].text), false, false, 4096);

        CHECK(o.whole);
        if (rows[i].upgrade == NULL)
            CHECK(o.m.upgrade == NULL);
        else
            CHECK_STR(o.m.upgrade, rows[i].upgrade);
        outcome_done(&o);
    }
}

/* The second of two requests is never taken for a part of the first. */
TEST(pipelined_messages_are_told_apart)
{
    static const char *const texts[] = {
        "GET / HTTP/1.1\r\n" HOST "\r\n",
        "POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc",
        "POST / HTTP/1.1\r\n" HOST
        "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: 1\r\n\r\n",
        "GET / HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: x\r\n\r\n",
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        for (size_t step = 1; step < 4096; step *= 64) {
            auto_buf struct buf both = BUF_INIT(4096);
            struct outcome o;

            CHECK_INT(buf_append_str(&both, texts[i]), 0);
            CHECK_INT(buf_append_str(&both, "GET /next HTTP/1.1\r\n" HOST "\r\n"), 0);
            o = run(both.data, both.len, false, false, step);
            CHECK(o.whole);
            CHECK_INT(o.used, strlen(texts[i]));
            outcome_done(&o);
        }
    }
}

TEST(trailers_pass)
{
    static const char text[] =
        "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n"
        "X-Sum: 12 3 \r\nContent-Length: 9\r\nhost: x\r\nX-Empty:\r\n"
        "Authorization: no\r\nX_Forwarded_For: 1\r\n\r\n";

    for (size_t step = 1; step < 4096; step *= 64) {
        struct outcome o = run(text, sizeof(text) - 1, false, false, step);
        auto_buf struct buf out = BUF_INIT(4096);

        CHECK(o.whole);
        CHECK_INT(chunk_end(&out, &o.trailers), 0);
        CHECK(strncmp(out.data, "0\r\nX-Sum: 12 3", 14) == 0);
        CHECK(strstr(out.data, "X-Empty: \r\n\r\n") != NULL);
        CHECK(strcasestr(out.data, "host") == NULL && strcasestr(out.data, "auth") == NULL &&
              strcasestr(out.data, "length") == NULL && strcasestr(out.data, "forwarded") == NULL);
        outcome_done(&o);
    }
}

TEST(trailers_are_bounded)
{
    auto_buf struct buf text = BUF_INIT(1 << 20);
    struct outcome o;

    (void)buf_append_str(&text, "POST / HTTP/1.1\r\n" HOST
                                "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n");
    for (int i = 0; i < 4000; i++)
        (void)buf_append_str(&text, "X-Long: aaaaaaaaaa\r\n");
    o = run(text.data, text.len, false, false, 4096);
    CHECK_INT(o.status, 400);
    outcome_done(&o);

    /* An extension of a chunk, too. */
    buf_done(&text);
    (void)buf_append_str(&text, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1;");
    for (int i = 0; i < 4000; i++)
        (void)buf_append_str(&text, "aaaaaaaaaa");
    o = run(text.data, text.len, false, false, 4096);
    CHECK_INT(o.status, 400);
    outcome_done(&o);
}

/* ---- replies ---- */

TEST(replies_refused)
{
    static const char *const rows[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nabc",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 0200 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/1.1\r\n\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "ICY 200 OK\r\n\r\n",
        "hello\r\n\r\n",
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct outcome o = run(rows[i], strlen(rows[i]), true, false, 4096);

        if (o.status != 502)
            tap_fail("%.60s: %d %s", rows[i], o.status, o.why);
        outcome_done(&o);
    }
}

TEST(replies_forwarded)
{
    static const struct {
        const char *text;
        enum msg_framing framing;
        bool keep, head;
        const char *want, *body;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: keep-alive\r\n\r\nabcd",
         FRAMING_LENGTH, true, false, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", "abcd"},
        {"HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\nSet-Cookie: a\r\nSet-Cookie: "
         "b\r\n\r\n4\r\nabcd\r\n0\r\n\r\n",
         FRAMING_CHUNKED, true, false,
         "HTTP/1.1 200 \r\nSet-Cookie: a\r\nSet-Cookie: b\r\nTransfer-Encoding: chunked\r\n\r\n",
         "abcd"},
        {"HTTP/1.1 200 OK\r\n\r\nuntil the end", FRAMING_CLOSE, false, false,
         "HTTP/1.1 200 OK\r\n\r\n", "until the end"},
        {"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", FRAMING_LENGTH, false, false,
         "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n", "a"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", FRAMING_NONE, false, true,
         "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", ""},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", FRAMING_NONE, false, true,
         "HTTP/1.1 200 OK\r\n\r\n", ""},
        {"HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n", FRAMING_NONE, true, false,
         "HTTP/1.1 204 No\r\n\r\n", ""},
        {"HTTP/1.1 304 Same\r\nContent-Length: 5\r\n\r\n", FRAMING_NONE, false, false,
         "HTTP/1.1 304 Same\r\nContent-Length: 5\r\n\r\n", ""},
        {"HTTP/1.1 100 Continue\r\n\r\n", FRAMING_NONE, true, false,
         "HTTP/1.1 100 Continue\r\n\r\n", ""},
        {"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
         FRAMING_NONE, true, false,
         "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", ""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (size_t step = 1; step < 4096; step *= 64) {
            struct outcome o = run(rows[i].text, strlen(rows[i].text), true, rows[i].head, step);
            auto_buf struct buf out = BUF_INIT(1 << 16);

            if (!o.whole) {
                tap_fail("%.60s: %d %s", rows[i].text, o.status, o.why);
                outcome_done(&o);
                continue;
            }
            CHECK_INT(o.m.framing, rows[i].framing);
            CHECK_INT(o.m.keep_alive, rows[i].keep);
            CHECK_INT(message_forward_reply(&o.m, o.m.framing, false, false, &out), 0);
            CHECK_STR(out.data, rows[i].want);
            CHECK_STR(o.body.data != NULL ? o.body.data : "", rows[i].body);
            outcome_done(&o);
        }
    }
}

TEST(cookies_of_previews_are_their_hosts)
{
    static const struct {
        const char *value, *want;
    } rows[] = {
        {"a=b", "a=b"},
        {"a=b; Path=/; HttpOnly", "a=b; Path=/; HttpOnly"},
        {"a=b; Domain=.example.com", "a=b"},
        {"a=b;domain=example.com;Secure", "a=b;Secure"},
        {"a=b; DOMAIN = example.com ; Path=/", "a=b; Path=/"},
        {"a=b; Domain; Secure", "a=b; Secure"},
        {"a=b; domain=x; Domain=y", "a=b"},
        {"a=b; Domain=", "a=b"},
        {"domain=b; Path=/", "domain=b; Path=/"},       /* the cookie's own name */
        {"a=\"x; Domain=y\"; Path=/", "a=\"x; Path=/"}, /* quotes do not count to browsers */
        {"a=b; Domains=y; xDomain=z", "a=b; Domains=y; xDomain=z"},
        {"a=b;", "a=b;"},
        {"", ""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        auto_buf struct buf out = BUF_INIT(1 << 16);
        char text[256], want[320];
        struct outcome o;

        (void)snprintf(text, sizeof(text), "HTTP/1.1 204 No\r\nX: 1\r\nSet-Cookie: %s\r\n\r\n",
                       rows[i].value);
        (void)snprintf(want, sizeof(want),
                       "HTTP/1.1 204 No\r\nX: 1\r\nSet-Cookie: %s\r\n"
                       "Origin-Agent-Cluster: ?1\r\n\r\n",
                       rows[i].want);
        o = run(text, strlen(text), true, false, 4096);
        CHECK_INT(message_forward_reply(&o.m, o.m.framing, false, true, &out), 0);
        CHECK_STR(out.data, want);
        outcome_done(&o);
    }
}

TEST(a_header_of_the_servers_own_stays)
{
    static const char text[] = "HTTP/1.1 204 No\r\norigin-agent-cluster: ?0\r\n\r\n";
    auto_buf struct buf out = BUF_INIT(1 << 16);
    struct outcome o = run(text, strlen(text), true, false, 4096);

    CHECK_INT(message_forward_reply(&o.m, o.m.framing, false, true, &out), 0);
    CHECK_STR(out.data, text);
    outcome_done(&o);
}

TEST(a_truncated_message_is_an_error)
{
    static const struct {
        const char *text;
        bool response;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc", true},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n", true},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n", true},
        {"POST / HTTP/1.1\r\n" HOST "Content-Length: 4\r\n\r\nabc", false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct outcome o = run(rows[i].text, strlen(rows[i].text), rows[i].response, false, 4096);

        CHECK(!o.whole);
        CHECK_STR(o.why, "the body ends early");
        outcome_done(&o);
    }
}

TAP_MAIN
