/* Bodies piece by piece in both directions, and what waits for whom. */

#include "http-rig.h"

static struct {
    struct http_request *req;
    size_t got, ends, gone, drained, sent, total, calls;
    bool pause_each, stop;
    char text[256];
} S;

static void on_gone(struct http_request *req)
{
    S.gone++;
    http_end(req);
    S.req = NULL;
}

/* ---- uploads ---- */

static void on_upload(struct http_request *req, const char *data, size_t len)
{
    S.calls++;
    if (data == NULL) {
        char text[32];
        int n = snprintf(text, sizeof(text), "%zu", S.got);

        S.ends++;
        S.req = NULL;
        http_reply(req, 200, NULL, "text/plain", text, (size_t)n);
        return;
    }
    CHECK(S.ends == 0 && !req->body_paused);
    if (S.got + len < sizeof(S.text))
        (void)memcpy(S.text + S.got, data, len);
    S.got += len;
    if (S.stop && S.got >= 1000) {
        S.req = NULL;
        http_reply(req, 507, NULL, "text/plain", "full", 4);
        return;
    }
    if (S.pause_each)
        http_body_pause(req);
}

static void post_upload(struct http_request *req)
{
    S.req = req;
    req->on_gone = on_gone;
    http_body_start(req, on_upload);
}

/* The body is started by the test. */
static void post_waiting(struct http_request *req)
{
    S.req = req;
    req->on_gone = on_gone;
}

/* ---- downloads ---- */

static void produce(struct http_request *req)
{
    static char block[16384];

    while (S.sent < S.total) {
        size_t n = S.total - S.sent < sizeof(block) ? S.total - S.sent : sizeof(block);

        S.sent += n;
        if (http_write(req, block, n))
            return;
    }
    S.req = NULL;
    http_end(req);
}

static void on_drain(struct http_request *req)
{
    S.drained++;
    produce(req);
}

static void get_download(struct http_request *req)
{
    S.req = req;
    req->on_drain = on_drain;
    req->on_gone = on_gone;
    http_start(req, 200, NULL, "application/octet-stream");
    produce(req);
}

static void get_length(struct http_request *req)
{
    static const struct http_header headers[] = {{"Content-Length", "10"}, {NULL, NULL}};

    http_start(req, 200, headers, "text/plain");
    (void)http_write(req, "01234", 5);
    if (http_header(req, "x-more") != NULL)
        (void)http_write(req, "567890", 6);
    else if (http_header(req, "x-less") == NULL)
        (void)http_write(req, "56789", 5);
    http_end(req);
}

static void get_abort(struct http_request *req)
{
    http_start(req, 200, NULL, "text/plain");
    (void)http_write(req, "half", 4);
    http_abort(req);
}

/* Ignores what http_write says. */
static void get_flood(struct http_request *req)
{
    static char block[1 << 20];

    S.req = req;
    req->on_gone = on_gone;
    http_start(req, 200, NULL, "text/plain");
    for (int i = 0; i < 64; i++)
        (void)http_write(req, block, sizeof(block));
}

static const struct route routes[] = {
    {"POST", "/upload", post_upload, ROUTE_STREAM, 0},
    {"POST", "/waiting", post_waiting, ROUTE_STREAM, 0},
    {"GET", "/download", get_download, 0, 0},
    {"GET", "/length", get_length, 0, 0},
    {"GET", "/abort", get_abort, 0, 0},
    {"GET", "/flood", get_flood, 0, 0},
    {0},
};
static const struct route_set sets[] = {{.routes = routes}, {0}};

static void open_clean(struct rig *rig, const struct http_config *config)
{
    (void)memset(&S, 0, sizeof(S));
    rig_open(rig, config, sets);
}

static int find(const struct buf *b, const char *text)
{
    return b->data != NULL && strstr(b->data, text) != NULL;
}

TEST(an_upload_arrives_whole)
{
    static char big[1 << 20];
    struct buf b = BUF_INIT(1 << 20);
    struct rig rig;
    int fd;

    open_clean(&rig, NULL);
    fd = rig_client(&rig);
    CHECK(rig_text(&rig, fd, "POST /upload HTTP/1.1\r\nContent-Length: 8388608\r\n\r\n"));
    for (int i = 0; i < 8; i++)
        CHECK(rig_send(&rig, fd, big, sizeof(big)));
    CHECK(rig_expect(&rig, fd, &b, "\r\n\r\n8388608"));
    CHECK_INT(S.ends, 1);
    buf_done(&b);
    (void)close(fd);
    rig_close(&rig);
}

/* A consumer that pauses after each piece gets exactly one piece for each resume, wherever the
 * pieces end. */
TEST(upload_paused_at_each_piece)
{
    static const char *const bodies[] = {
        "Content-Length: 10\r\n\r\n0123456789",
        "Transfer-Encoding: chunked\r\n\r\n3\r\n012\r\n1\r\n3\r\n6\r\n456789\r\n0\r\nX: y\r\n\r\n",
    };

    for (size_t k = 0; k < 2; k++) {
        for (size_t piece = 1; piece <= strlen(bodies[k]); piece++) {
            struct buf b = BUF_INIT(1 << 20);
            struct rig rig;
            char text[256];
            size_t calls;
            int fd;

            open_clean(&rig, NULL);
            S.pause_each = true;
            fd = rig_client(&rig);
            (void)snprintf(text, sizeof(text),
                           "POST /upload HTTP/1.1\r\n%sGET /nope HTTP/1.1\r\n\r\n", bodies[k]);
            for (size_t at = 0; at < strlen(text); at += piece) {
                size_t n = strlen(text) - at < piece ? strlen(text) - at : piece;

                CHECK(rig_send(&rig, fd, text + at, n));
            }
            for (int i = 0; i < 100 && S.req != NULL; i++) {
                calls = S.calls;
                rig_turn(&rig);
                CHECK_INT(S.calls, calls);
                http_body_resume(S.req);
                rig_turn(&rig);
                CHECK_INT(S.calls, calls + 1);
            }
            CHECK(rig_expect(&rig, fd, &b, "no such path"));
            CHECK(find(&b, "\r\n\r\n10"));
            CHECK_INT(S.got, 10);
            CHECK(memcmp(S.text, "0123456789", 10) == 0);
            buf_done(&b);
            (void)close(fd);
            rig_close(&rig);
        }
    }
}

/* Not read before it is asked for: the client waits, the server's memory does not grow. */
TEST(upload_waits_for_the_handler)
{
    static char data[65536];
    struct buf b = BUF_INIT(1 << 20);
    struct rig rig;
    size_t sent = 0;
    int fd;

    open_clean(&rig, NULL);
    fd = rig_client(&rig);
    CHECK(rig_text(
        &rig, fd,
        "POST /waiting HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2097152\r\n\r\n"));
    CHECK(rig_read(&rig, fd, &b));
    CHECK_INT(b.len, 0);
    for (int idle = 0; idle < 20 && sent < 2097152;) {
        size_t want = 2097152 - sent < sizeof(data) ? 2097152 - sent : sizeof(data);
        ssize_t n = send(fd, data, want, MSG_NOSIGNAL | MSG_DONTWAIT);

        rig_turn(&rig);
        sent += n > 0 ? (size_t)n : 0;
        idle = n > 0 ? 0 : idle + 1;
    }
    CHECK(sent < 1 << 20);
    http_body_start(S.req, on_upload);
    CHECK(rig_send(&rig, fd, data, 0));
    while (sent < 2097152) {
        size_t n = 2097152 - sent < sizeof(data) ? 2097152 - sent : sizeof(data);

        CHECK(rig_send(&rig, fd, data, n));
        sent += n;
    }
    CHECK(rig_expect(&rig, fd, &b, "\r\n\r\n2097152"));
    buf_done(&b);
    (void)close(fd);
    rig_close(&rig);
}

TEST(expect_continue_on_start)
{
    struct buf b = BUF_INIT(1 << 20);
    struct rig rig;
    int fd;

    open_clean(&rig, NULL);
    fd = rig_client(&rig);
    CHECK(rig_text(&rig, fd,
                   "POST /waiting HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"));
    CHECK(rig_read(&rig, fd, &b));
    CHECK_INT(b.len, 0);
    http_body_start(S.req, on_upload);
    CHECK(rig_expect(&rig, fd, &b, "HTTP/1.1 100 Continue\r\n\r\n"));
    CHECK(rig_text(&rig, fd, "abc"));
    CHECK(rig_expect(&rig, fd, &b, "\r\n\r\n3"));
    buf_done(&b);
    (void)close(fd);
    rig_close(&rig);
}

/* A body that breaks off is never taken for a whole one. */
TEST(upload_breaks_off)
{
    static const char *const texts[] = {
        "POST /upload HTTP/1.1\r\nContent-Length: 10\r\n\r\n01234",
        "POST /upload HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n",
        "POST /upload HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n0\r\n",
        "POST /upload HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\nzz\r\n",
    };

    for (size_t i = 0; i < 4; i++) {
        struct rig rig;
        char *answer;

        open_clean(&rig, NULL);
        answer = rig_talk(&rig, texts[i]);
        CHECK_INT(S.ends, 0);
        CHECK_INT(S.gone, 1);
        CHECK_STR(answer, "");
        free(answer);
        rig_close(&rig);
    }
}

/* The handler has had enough: the reply gets through although the client is still sending. */
TEST(reply_before_the_end_of_a_body)
{
    static char data[65536];
    struct buf b = BUF_INIT(1 << 20);
    struct rig rig;
    int fd;

    open_clean(&rig, NULL);
    S.stop = true;
    fd = rig_client(&rig);
    CHECK(rig_text(&rig, fd, "POST /upload HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n"));
    for (int i = 0; i < 10; i++)
        (void)rig_send(&rig, fd, data, sizeof(data));
    CHECK(rig_drain(&rig, fd, &b));
    CHECK_INT(rig_status(b.data, 0), 507);
    CHECK(find(&b, "full"));
    buf_done(&b);
    (void)close(fd);
    /* A short one is read away, and the connection goes on. */
    fd = rig_client(&rig);
    S.got = 0;
    CHECK(rig_text(&rig, fd, "POST /upload HTTP/1.1\r\nContent-Length: 3000\r\n\r\n"));
    CHECK(rig_send(&rig, fd, data, 1500));
    CHECK(rig_send(&rig, fd, data, 1500));
    CHECK(rig_text(&rig, fd, "GET /length HTTP/1.1\r\n\r\n"));
    CHECK(rig_expect(&rig, fd, &b, "0123456789"));
    buf_done(&b);
    (void)close(fd);
    rig_close(&rig);
}

static size_t dechunk(const struct buf *b)
{
    const char *p = strstr(b->data, "\r\n\r\n") + 4;
    size_t total = 0;

    for (;;) {
        char *end;
        size_t n = strtoul(p, &end, 16);

        if (memcmp(end, "\r\n", 2) != 0)
            return 0;
        if (n == 0)
            return memcmp(end, "\r\n\r\n", 5) == 0 ? total : 0;
        total += n;
        p = end + 2 + n + 2;
    }
}

TEST(a_download_arrives_whole)
{
    struct buf b = BUF_INIT(64 << 20);
    struct rig rig;
    size_t most = 0;
    double end = rig_now() + RIG_DEADLINE_MS;
    int fd;

    open_clean(&rig, NULL);
    S.total = 20 << 20;
    fd = rig_client(&rig);
    CHECK(rig_text(&rig, fd, "GET /download HTTP/1.1\r\n\r\n"));
    for (int i = 0; i < 50; i++)
        rig_turn(&rig);
    /* The client does not read: the producer stands still. */
    printf("# %zu bytes made for a client that does not read\n", S.sent);
    CHECK(S.sent < 1 << 20);
    while (S.req != NULL && rig_now() < end) {
        most = http_queued(S.req) > most ? http_queued(S.req) : most;
        CHECK(rig_read(&rig, fd, &b));
    }
    while (rig_now() < end && (b.len < 5 || memcmp(b.data + b.len - 5, "0\r\n\r\n", 5) != 0))
        CHECK(rig_read(&rig, fd, &b));
    CHECK_INT(dechunk(&b), S.total);
    CHECK(most <= HTTP_QUEUE_PAUSE + 16400);
    CHECK(S.drained > 10);
    buf_done(&b);
    (void)close(fd);
    rig_close(&rig);
}

TEST(download_in_other_ways)
{
    struct buf b = BUF_INIT(64 << 20);
    struct rig rig;
    char *answer, *body;
    int fd;

    open_clean(&rig, NULL);
    S.total = 100;
    answer = rig_talk(&rig, "HEAD /download HTTP/1.1\r\n\r\nHEAD /length HTTP/1.1\r\n\r\n");
    CHECK_INT(rig_status(answer, 1), 200);
    CHECK(strstr(answer, "Content-Length: 10\r\n\r\n") != NULL && strstr(answer, "01234") == NULL);
    free(answer);

    S.sent = 0;
    fd = rig_client(&rig);
    CHECK(rig_text(&rig, fd, "GET /download HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
    CHECK(rig_drain(&rig, fd, &b)); /* ended by closing */
    CHECK(find(&b, "Connection: close\r\n") && !find(&b, "chunked"));
    body = strstr(b.data, "\r\n\r\n") + 4;
    CHECK_INT(b.len - (size_t)(body - b.data), 100);
    buf_done(&b);
    (void)close(fd);

    /* Promises about the length are kept, or the connection breaks. */
    answer = rig_talk(&rig, "GET /length HTTP/1.1\r\n\r\nGET /length HTTP/1.1\r\n\r\n");
    CHECK_INT(rig_status(answer, 1), 200);
    free(answer);
    answer =
        rig_talk(&rig, "GET /length HTTP/1.1\r\nX-More: 1\r\n\r\nGET /length HTTP/1.1\r\n\r\n");
    CHECK_INT(rig_status(answer, 1), 0);
    free(answer);
    answer =
        rig_talk(&rig, "GET /length HTTP/1.1\r\nX-Less: 1\r\n\r\nGET /length HTTP/1.1\r\n\r\n");
    CHECK_INT(rig_status(answer, 1), 0);
    free(answer);
    answer = rig_talk(&rig, "GET /abort HTTP/1.1\r\n\r\nGET /length HTTP/1.1\r\n\r\n");
    CHECK(strstr(answer, "half") != NULL && strstr(answer, "\r\n0\r\n\r\n") == NULL);
    CHECK_INT(rig_status(answer, 1), 0);
    free(answer);
    rig_close(&rig);
}

/* A producer that does not listen to "pause" loses its client, not our memory. */
TEST(queue_has_an_end)
{
    struct rig rig;
    int fd;

    open_clean(&rig, NULL);
    fd = rig_client(&rig);
    CHECK(rig_text(&rig, fd, "GET /flood HTTP/1.1\r\n\r\n"));
    for (int i = 0; i < 10; i++)
        rig_turn(&rig);
    CHECK_INT(S.gone, 1);
    CHECK_INT(http_server_connections(rig.server), 0);
    (void)close(fd);
    rig_close(&rig);
}

/* An ended reply that the client does not take has its time, a stream that waits has all of it. */
TEST(clocks_of_replies)
{
    struct http_config config;
    double end;
    struct rig rig;
    int fd;

    http_config_init(&config);
    config.stream_write_ms = config.body_ms = config.idle_ms = 50;
    open_clean(&rig, &config);
    S.total = 4 << 20;
    fd = rig_client(&rig);
    CHECK(rig_text(&rig, fd, "GET /download HTTP/1.1\r\n\r\n"));
    for (end = rig_now() + 200; rig_now() < end;)
        rig_turn(&rig);
    CHECK_INT(S.gone, 0);
    CHECK_INT(http_server_connections(rig.server), 1);
    S.total = S.sent; /* nothing more: drained once, then ended */
    http_end(take(S.req));
    for (end = rig_now() + 5000; rig_now() < end && http_server_connections(rig.server) > 0;)
        rig_turn(&rig);
    CHECK_INT(http_server_connections(rig.server), 0);
    (void)close(fd);

    /* An upload that stalls is given up, one that we have paused is not. */
    fd = rig_client(&rig);
    S.pause_each = true;
    CHECK(rig_text(&rig, fd, "POST /upload HTTP/1.1\r\nContent-Length: 10\r\n\r\n01234"));
    for (end = rig_now() + 200; rig_now() < end;)
        rig_turn(&rig);
    CHECK_INT(S.gone, 0);
    http_body_resume(S.req);
    for (end = rig_now() + 5000; rig_now() < end && S.gone == 0;)
        rig_turn(&rig);
    CHECK_INT(S.gone, 1);
    (void)close(fd);
    rig_close(&rig);
}

/* Urgent data has no meaning here, and must not make the loop spin. */
TEST(urgent_data)
{
    struct rig rig;
    int fd;

    open_clean(&rig, NULL);
    fd = rig_client(&rig);
    CHECK(rig_text(&rig, fd, "POST /waiting HTTP/1.1\r\nContent-Length: 10\r\n\r\n"));
    if (send(fd, "!", 1, MSG_OOB | MSG_NOSIGNAL) < 0) {
        (void)close(fd);
        rig_turn(&rig);
        rig_close(&rig);
        SKIP("this kernel has no urgent data on unix sockets");
    }
    for (int i = 0; i < 20 && S.gone == 0; i++)
        rig_turn(&rig);
    CHECK_INT(S.gone, 1);
    (void)close(fd);
    rig_close(&rig);
}

TAP_MAIN
