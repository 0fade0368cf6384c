/* Limits, order, clocks, clients that leave, a thousand of them: whole requests and whole replies.
 */

#include "http-rig.h"

static struct http_request *kept[8];
static size_t kept_count, gone_count;

static void get_hello(struct http_request *req)
{
    http_reply(req, 200, NULL, "text/plain", "hello", 5);
}

static void post_echo(struct http_request *req)
{
    http_reply(req, 200, NULL, "text/plain", req->body.data, req->body.len);
}

static void on_gone(struct http_request *req)
{
    gone_count++;
    CHECK(req->gone);
}

/* Answered later, by the test. */
static void get_later(struct http_request *req)
{
    req->on_gone = on_gone;
    kept[kept_count++] = req;
}

static void get_headers(struct http_request *req)
{
    static const struct http_header split[] = {{"X-Evil", "a\r\nSet-Cookie: b"}, {NULL, NULL}};
    static const struct http_header fine[] = {{"X-Fine", "a b"}, {NULL, NULL}};

    http_reply(req, 200, http_header(req, "x-evil") != NULL ? split : fine, "text/plain", "x", 1);
}

static const struct route routes[] = {
    {"GET", "/hello", get_hello, 0, 0},
    {"POST", "/echo", post_echo, ROUTE_BODY, 0},
    {"POST", "/small", post_echo, ROUTE_BODY, 16},
    {"GET", "/later", get_later, 0, 0},
    {"POST", "/later", get_later, ROUTE_BODY, 0},
    {"GET", "/headers", get_headers, 0, 0},
    {0},
};
static const struct route_set sets[] = {{.routes = routes}, {0}};

static void reset_kept(void)
{
    kept_count = gone_count = 0;
}

/* `head`, n times c, `tail`. */
static char *repeat(const char *head, char c, size_t n, const char *tail)
{
    struct buf b = BUF_INIT(64 << 20);
    char block[1024];

    (void)memset(block, c, sizeof(block));
    if (buf_append_str(&b, head) < 0)
        abort();
    for (size_t k; n > 0; n -= k) {
        k = n < sizeof(block) ? n : sizeof(block);
        if (buf_append(&b, block, k) < 0)
            abort();
    }
    if (buf_append_str(&b, tail) < 0)
        abort();
    return buf_take(&b, NULL);
}

static int status_of(struct rig *rig, char *text)
{
    char *answer = rig_talk(rig, text);
    int status = rig_status(answer, 0);

    free(answer);
    free(text);
    return status;
}

static void on_alarm(uv_timer_t *t)
{
    (void)t;
}

TEST(limits_of_heads)
{
    struct buf many = BUF_INIT(1 << 16);
    struct rig rig;

    rig_open(&rig, NULL, sets);
    CHECK_INT(status_of(&rig, repeat("GET /hello?", 'a', HTTP_MAX_URL - 7, " HTTP/1.1\r\n\r\n")),
              200);
    CHECK_INT(status_of(&rig, repeat("GET /hello?", 'a', HTTP_MAX_URL - 6, " HTTP/1.1\r\n\r\n")),
              414);
    CHECK_INT(status_of(&rig, repeat("GET /hello?", 'a', (size_t)4 * HTTP_MAX_URL, "")), 414);
    CHECK_INT(
        status_of(&rig, repeat("GET /hello HTTP/1.1\r\nX: ", 'a', HTTP_MAX_HEAD - 28, "\r\n\r\n")),
        200);
    CHECK_INT(status_of(&rig, repeat("GET /hello HTTP/1.1\r\nX: ", 'a', HTTP_MAX_HEAD, "\r\n\r\n")),
              431);
    CHECK_INT(status_of(&rig, repeat("GET /hello HTTP/1.1\r\nX: ", 'a', 4 << 20, "\r\n\r\n")), 431);
    (void)buf_append_str(&many, "GET /hello HTTP/1.1\r\n");
    for (int i = 0; i < HTTP_MAX_HEADERS; i++)
        (void)buf_append_str(&many, "X: y\r\n");
    CHECK_INT(status_of(&rig, repeat(many.data, ' ', 0, "\r\n")), 200);
    CHECK_INT(status_of(&rig, repeat(many.data, ' ', 0, "X: y\r\n\r\n")), 431);
    buf_done(&many);
    rig_close(&rig);
}

TEST(limits_of_bodies)
{
    struct rig rig;
    char head[128];

    rig_open(&rig, NULL, sets);
    (void)snprintf(head, sizeof(head), "POST /echo HTTP/1.1\r\nContent-Length: %d\r\n\r\n",
                   HTTP_MAX_BODY);
    CHECK_INT(status_of(&rig, repeat(head, 'x', HTTP_MAX_BODY, "")), 200);
    (void)snprintf(head, sizeof(head), "POST /echo HTTP/1.1\r\nContent-Length: %d\r\n\r\n",
                   HTTP_MAX_BODY + 1);
    CHECK_INT(status_of(&rig, repeat(head, 'x', HTTP_MAX_BODY + 1, "")), 413);
    CHECK_INT(
        status_of(&rig, repeat("POST /small HTTP/1.1\r\nContent-Length: 16\r\n\r\n", 'x', 16, "")),
        200);
    CHECK_INT(
        status_of(&rig, repeat("POST /small HTTP/1.1\r\nContent-Length: 17\r\n\r\n", 'x', 17, "")),
        413);
    CHECK_INT(
        status_of(&rig, repeat("POST /small HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n",
                               'x', 16, "\r\n0\r\n\r\n")),
        200);
    CHECK_INT(
        status_of(&rig, repeat("POST /small HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n11\r\n",
                               'x', 17, "\r\n0\r\n\r\n")),
        413);
    /* Framing that is all extension, and trailers without end. */
    CHECK_INT(status_of(&rig, repeat("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;",
                                     'x', HTTP_MAX_HEAD + 64, "\r\nx\r\n0\r\n\r\n")),
              400);
    CHECK_INT(
        status_of(&rig, repeat("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
                               'x', HTTP_MAX_HEAD + 64, "\r\n\r\n")),
        400);
    rig_close(&rig);
}

TEST(replies_have_status_headers_and_body)
{
    struct rig rig;
    char *answer;

    rig_open(&rig, NULL, sets);
    answer = rig_talk(&rig, "GET /hello HTTP/1.1\r\n\r\n");
    CHECK(strstr(answer, "HTTP/1.1 200 OK\r\nDate: ") == answer);
    CHECK(strstr(answer, "\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello") != NULL);
    free(answer);
    answer = rig_talk(&rig, "HEAD /hello HTTP/1.1\r\n\r\n");
    CHECK(strstr(answer, "\r\nContent-Length: 5\r\n\r\n") != NULL &&
          strstr(answer, "hello") == NULL);
    free(answer);
    answer = rig_talk(&rig, "GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    CHECK(strstr(answer, "Connection: keep-alive\r\n") != NULL);
    free(answer);
    answer = rig_talk(&rig, "DELETE /hello HTTP/1.1\r\n\r\n");
    CHECK(strstr(answer, "HTTP/1.1 405 Method Not Allowed\r\n") == answer);
    CHECK(strstr(answer, "Allow: GET, HEAD\r\n") != NULL);
    CHECK(
        strstr(answer,
               "{\"error\":{\"code\":\"EOPNOTSUPP\",\"message\":\"this path takes GET, HEAD\"}}") !=
        NULL);
    free(answer);
    answer = rig_talk(&rig, "GET /headers HTTP/1.1\r\n\r\n");
    CHECK(strstr(answer, "X-Fine: a b\r\n") != NULL);
    free(answer);
    /* A header value that would split the reply: none at all. */
    answer = rig_talk(&rig, "GET /headers HTTP/1.1\r\nX-Evil: 1\r\n\r\n");
    CHECK_STR(answer, "");
    free(answer);
    rig_close(&rig);
}

TEST(expect_continue)
{
    struct buf b = BUF_INIT(1 << 20);
    struct rig rig;
    int fd;

    rig_open(&rig, NULL, sets);
    fd = rig_client(&rig);
    CHECK(rig_text(&rig, fd,
                   "POST /echo HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"));
    CHECK(rig_expect(&rig, fd, &b, "HTTP/1.1 100 Continue\r\n\r\n"));
    CHECK(rig_text(&rig, fd, "abc"));
    CHECK(rig_expect(&rig, fd, &b, "\r\n\r\nabc"));
    buf_done(&b);
    /* What will not be taken is said at once, and the connection ends, because the body may or may
     * not come. */
    CHECK(rig_text(&rig, fd,
                   "POST /small HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 30\r\n\r\n"));
    CHECK(rig_drain(&rig, fd, &b));
    CHECK_INT(rig_status(b.data, 0), 413);
    CHECK(strstr(b.data, "Connection: close\r\n") != NULL);
    buf_done(&b);
    (void)close(fd);
    rig_close(&rig);
}

/* Pipelined requests are answered in order, one at a time, also when an answer comes late. */
TEST(pipelined_requests_are_answered_in_order)
{
    struct buf b = BUF_INIT(1 << 20);
    struct rig rig;
    int fd;

    reset_kept();
    rig_open(&rig, NULL, sets);
    fd = rig_client(&rig);
    CHECK(
        rig_text(&rig, fd,
                 "GET /later HTTP/1.1\r\n\r\nGET /hello HTTP/1.1\r\n\r\n"
                 "POST /small HTTP/1.1\r\nContent-Length: 2\r\n\r\nhiGET /later HTTP/1.1\r\n\r\n"));
    CHECK(rig_read(&rig, fd, &b));
    CHECK_INT(b.len, 0);
    CHECK_INT(kept_count, 1);
    http_reply(kept[0], 200, NULL, "text/plain", "first", 5);
    CHECK(rig_expect(&rig, fd, &b, "\r\n\r\nhi"));
    CHECK(strstr(b.data, "first") < strstr(b.data, "hello") &&
          strstr(b.data, "hello") < strstr(b.data, "\r\n\r\nhi"));
    CHECK_INT(kept_count, 2);
    http_reply(kept[1], 200, NULL, "text/plain", "last", 4);
    CHECK(rig_expect(&rig, fd, &b, "last"));
    buf_done(&b);
    (void)close(fd);
    rig_close(&rig);
    CHECK_INT(gone_count, 0);
}

/* While a request is being answered only so much is read ahead. */
TEST(pipeline_is_bounded)
{
    char data[4096];
    struct rig rig;
    size_t sent = 0;
    int fd;

    reset_kept();
    rig_open(&rig, NULL, sets);
    fd = rig_client(&rig);
    (void)memset(data, 'x', sizeof(data));
    CHECK(rig_text(&rig, fd, "GET /later HTTP/1.1\r\n\r\n"));
    for (int idle = 0; idle < 50;) {
        ssize_t n = send(fd, data, sizeof(data), MSG_NOSIGNAL | MSG_DONTWAIT);

        rig_turn(&rig);
        sent += n > 0 ? (size_t)n : 0;
        idle = n > 0 ? 0 : idle + 1;
    }
    printf("# %zu bytes sent to a server that reads ahead %d\n", sent, HTTP_MAX_PIPELINE);
    CHECK(sent < (1 << 20)); /* the rest is the socket's own buffer */
    CHECK_INT(gone_count, 0);
    (void)close(fd);
    for (int i = 0; i < 100 && gone_count == 0; i++)
        rig_turn(&rig);
    CHECK_INT(gone_count, 1); /* heard although nothing is being read */
    http_reply(kept[0], 200, NULL, NULL, NULL, 0);
    rig_close(&rig);
}

/* A half-closed client still gets its answer; one that closes is gone, and the handler hears it. */
TEST(half_close_and_close)
{
    struct buf b = BUF_INIT(1 << 20);
    struct rig rig;
    int fd;

    reset_kept();
    rig_open(&rig, NULL, sets);
    fd = rig_client(&rig);
    CHECK(rig_text(&rig, fd, "GET /later HTTP/1.1\r\n\r\n"));
    (void)shutdown(fd, SHUT_WR);
    for (int i = 0; i < 20; i++)
        rig_turn(&rig);
    CHECK_INT(kept_count, 1);
    CHECK_INT(gone_count, 0);
    http_reply(kept[0], 200, NULL, "text/plain", "late", 4);
    CHECK(rig_drain(&rig, fd, &b));
    CHECK(b.data != NULL && strstr(b.data, "late") != NULL);
    buf_done(&b);
    (void)close(fd);

    fd = rig_client(&rig);
    CHECK(rig_text(&rig, fd, "GET /later HTTP/1.1\r\n\r\n"));
    (void)shutdown(fd, SHUT_WR);
    rig_turn(&rig);
    (void)close(fd);
    for (int i = 0; i < 20; i++)
        rig_turn(&rig);
    CHECK_INT(gone_count, 1);
    CHECK_INT(http_server_connections(rig.server), 1); /* the handler owes its end */
    http_reply(kept[1], 200, NULL, "text/plain", "nobody", 6);
    rig_turn(&rig);
    CHECK_INT(http_server_connections(rig.server), 0);
    rig_close(&rig);
}

/* What arrived whole before the client closed is carried out; its handler hears of the close. A
 * body may need several reads, and unread output makes the close an error of the socket. */
TEST(whole_requests_of_clients_that_closed)
{
    static const struct {
        const char *head;
        size_t body;
        bool unread; /* the client leaves an answer unread */
    } rows[] = {
        {"GET /later HTTP/1.1\r\n\r\n", 0, false},
        {"POST /later HTTP/1.1\r\nContent-Length: 5\r\n\r\n", 5, false},
        {"POST /later HTTP/1.1\r\nContent-Length: 150000\r\n\r\n", 150000, false},
        {"GET /later HTTP/1.1\r\n\r\n", 0, true},
        {"POST /later HTTP/1.1\r\nContent-Length: 150000\r\n\r\n", 150000, true},
    };
    struct rig rig;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *text = repeat(rows[i].head, 'x', rows[i].body, "");
        int fd;

        reset_kept();
        rig_open(&rig, NULL, sets);
        fd = rig_client(&rig);
        rig_turn(&rig);
        if (rows[i].unread) {
            CHECK(rig_text(&rig, fd, "GET /hello HTTP/1.1\r\n\r\n"));
            for (int turn = 0; turn < 20; turn++)
                rig_turn(&rig);
        }
        CHECK_INT(send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT), strlen(text));
        (void)close(fd);
        for (int turn = 0; turn < 50; turn++)
            rig_turn(&rig);
        CHECK_INT(kept_count, 1);
        CHECK_INT(gone_count, 1);
        if (kept_count == 1) {
            CHECK_INT(kept[0]->body.len, rows[i].body);
            http_reply(kept[0], 200, NULL, NULL, NULL, 0);
        }
        rig_turn(&rig);
        CHECK_INT(http_server_connections(rig.server), 0);
        rig_close(&rig);
        free(text);
    }
}

TEST(vanishing_at_each_stage)
{
    static const char text[] =
        "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        "5\r\nhello\r\n0\r\n\r\nGET /hello HTTP/1.1\r\n\r\nGET /he";
    struct rig rig;

    rig_open(&rig, NULL, sets);
    for (size_t n = 0; n < sizeof(text); n++) {
        for (int how = 0; how < 3; how++) {
            int fd = rig_client(&rig);

            (void)send(fd, text, n, MSG_NOSIGNAL);
            if (how > 0)
                rig_turn(&rig);
            if (how == 2)
                (void)shutdown(fd, SHUT_RD); /* our answers fail */
            (void)close(fd);
            rig_turn(&rig);
            rig_turn(&rig);
        }
    }
    CHECK_INT(http_server_connections(rig.server), 0);
    rig_close(&rig);
}

/* Nothing happens on the loop when nobody does anything: no clock but the idle one. */
TEST(idle_does_nothing)
{
    struct rig rig;
    double start, waited;
    uv_timer_t alarm;
    unsigned turns = 0;
    int fd;

    rig_open(&rig, NULL, sets);
    fd = rig_client(&rig);
    free(rig_talk(&rig, "GET /hello HTTP/1.1\r\n\r\n"));
    CHECK(rig_text(&rig, fd, "GET /hello HTTP/1.1\r\n\r\n"));
    rig_turn(&rig);
    CHECK_INT(uv_timer_init(&rig.loop, &alarm), 0);
    CHECK_INT(uv_timer_start(&alarm, on_alarm, 300, 0), 0);
    for (start = rig_now(); uv_is_active((uv_handle_t *)&alarm); turns++)
        (void)uv_run(&rig.loop, UV_RUN_ONCE);
    waited = rig_now() - start;
    uv_close((uv_handle_t *)&alarm, NULL);
    CHECK(waited >= 290);
    CHECK(turns <= 3);
    (void)close(fd);
    rig_close(&rig);
}

/* Runs the loop until the client sees the end; returns the milliseconds. */
static double until_end(struct rig *rig, int fd, struct buf *b)
{
    double start = rig_now();

    while (rig_read(rig, fd, b) && rig_now() - start < RIG_DEADLINE_MS)
        (void)poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 5);
    return rig_now() - start;
}

TEST(slow_requests_time_out)
{
    static const struct {
        const char *what, *text;
        int status;
    } rows[] = {
        {"nothing", "", 0},
        {"half a head", "GET /hello HT", 408},
        {"half a body", "POST /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\nab", 408},
        {"idle after a request", "GET /hello HTTP/1.1\r\n\r\n", 200},
    };
    struct http_config config;
    struct rig rig;

    http_config_init(&config);
    config.idle_ms = config.head_ms = config.body_ms = 60;
    rig_open(&rig, &config, sets);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf b = BUF_INIT(1 << 20);
        int fd = rig_client(&rig);
        double ms;

        CHECK(rig_text(&rig, fd, rows[i].text));
        ms = until_end(&rig, fd, &b);
        if (rig_status(b.data, 0) != rows[i].status || ms < 30 || ms > 5000)
            tap_fail("%s: %d after %.0f ms", rows[i].what, rig_status(b.data, 0), ms);
        buf_done(&b);
        (void)close(fd);
    }
    rig_close(&rig);
}

/* A head that comes a byte at a time is bounded as a whole, however busy the client looks. */
TEST(slow_loris)
{
    struct buf b = BUF_INIT(1 << 20);
    struct http_config config;
    double start = rig_now();
    struct rig rig;
    int fd;

    http_config_init(&config);
    config.head_ms = 100;
    rig_open(&rig, &config, sets);
    fd = rig_client(&rig);
    CHECK(rig_text(&rig, fd, "GET /hello HTTP/1.1\r\nX: "));
    while (rig_read(&rig, fd, &b) && rig_now() - start < RIG_DEADLINE_MS) {
        (void)send(fd, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        (void)poll(NULL, 0, 5);
    }
    CHECK_INT(rig_status(b.data, 0), 408);
    CHECK(rig_now() - start < 5000);
    buf_done(&b);
    (void)close(fd);
    rig_close(&rig);
}

/* A clean stop: idle connections end, one that is being answered gets its answer. */
TEST(graceful_close)
{
    struct buf b = BUF_INIT(1 << 20);
    double end = rig_now() + RIG_DEADLINE_MS;
    struct rig rig;
    int idle, busy;

    reset_kept();
    rig_open(&rig, NULL, sets);
    idle = rig_client(&rig);
    busy = rig_client(&rig);
    CHECK(rig_text(&rig, busy, "GET /later HTTP/1.1\r\n\r\n"));
    http_server_close(rig.server, 10000, rig_on_closed, &rig);
    CHECK(rig_drain(&rig, idle, &b));
    CHECK(!rig.closed);
    http_reply(kept[0], 200, NULL, "text/plain", "bye", 3);
    CHECK(rig_drain(&rig, busy, &b));
    CHECK(strstr(b.data, "Connection: close\r\n") != NULL && strstr(b.data, "bye") != NULL);
    while (!rig.closed && rig_now() < end)
        rig_turn(&rig);
    CHECK(rig.closed);
    CHECK_INT(uv_loop_close(&rig.loop), 0);
    buf_done(&b);
    (void)close(idle);
    (void)close(busy);
}

/* The close waits for the end that a handler owes, after having told it. */
TEST(forced_close)
{
    double end = rig_now() + 200;
    struct rig rig;
    int fd;

    reset_kept();
    rig_open(&rig, NULL, sets);
    fd = rig_client(&rig);
    CHECK(rig_text(&rig, fd, "GET /later HTTP/1.1\r\n\r\n"));
    http_server_close(rig.server, 20, rig_on_closed, &rig);
    while (rig_now() < end)
        rig_turn(&rig);
    CHECK_INT(gone_count, 1);
    CHECK(!rig.closed);
    http_reply(kept[0], 200, NULL, NULL, NULL, 0);
    for (int i = 0; i < 20 && !rig.closed; i++)
        rig_turn(&rig);
    CHECK(rig.closed);
    CHECK_INT(uv_loop_close(&rig.loop), 0);
    (void)close(fd);
}

static unsigned admitted;

static bool admit_unless_refused(struct http_request *req)
{
    CHECK(req->route != NULL && req->context == &admitted);
    if (http_header(req, "x-refuse") == NULL) {
        admitted++;
        return true;
    }
    http_reply(req, 403, NULL, "text/plain", "no", 2);
    return false;
}

/* A set's admit is asked before each of its handlers, and a refused request reaches none. */
TEST(admission_before_handlers)
{
    static const struct route own[] = {
        {"GET", "/own", get_hello, 0, 0}, {"POST", "/own", post_echo, ROUTE_BODY, 0}, {0}};
    const struct route_set both[] = {
        {.routes = own, .context = &admitted, .admit = admit_unless_refused},
        {.routes = routes},
        {0}};
    struct rig rig;
    char *answer;

    rig_open(&rig, NULL, both);
    answer = rig_talk(&rig, "GET /own HTTP/1.1\r\n\r\n"
                            "GET /own HTTP/1.1\r\nX-Refuse: 1\r\n\r\n"
                            "POST /own HTTP/1.1\r\nX-Refuse: 1\r\nContent-Length: 5\r\n\r\nhello"
                            "POST /own HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"
                            "GET /hello HTTP/1.1\r\nX-Refuse: 1\r\n\r\n");
    CHECK_INT(rig_status(answer, 0), 200);
    CHECK_INT(rig_status(answer, 1), 403);
    CHECK_INT(rig_status(answer, 2), 403);
    CHECK_INT(rig_status(answer, 3), 200);
    CHECK_INT(rig_status(answer, 4), 200);
    CHECK_INT(admitted, 2);
    free(answer);
    rig_close(&rig);
}

TAP_MAIN
