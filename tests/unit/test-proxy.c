/* The proxy between clients and servers that are the test's own sockets. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "gateway/proxy.h"
#include "gateway/relay.h"
#include "http/message.h"
#include "tap.h"

enum { DEADLINE_MS = 20000, SERVERS_MAX = 64 };

struct lab {
    uv_loop_t loop;
    struct evloop *evloop;
    struct relay_hub *hub;
    struct proxy *proxy;
    int servers[SERVERS_MAX]; /* the ends of the connections that were asked for, in order */
    int connects, refusals;
    int refuse;      /* errno of the next connects */
    bool freeze_ref; /* connects are not answered */
    bool at_once;    /* connects are done when they have been asked for */
    int cancelled;
    int inside, room; /* connections that are for somebody; room 0: any number */
    uv_timer_t answer;
    struct proxy_conn *waiting;
};

static double now_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int route(void *data, struct proxy_conn *conn, const struct message *req,
                 char key[PROXY_KEY_MAX], struct buf *body)
{
    (void)conn;
    (void)data;
    if (strcmp(req->host, "nobody") == 0) {
        (void)buf_append_str(body, "{\"nobody\":1}");
        return 404;
    }
    (void)snprintf(key, PROXY_KEY_MAX, "%s/80", req->host);
    return 0;
}

static void tcp_pair(int fds[2])
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(name);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert(bind(listener, (struct sockaddr *)&name, sizeof(name)) == 0);
    assert(listen(listener, 1) == 0);
    assert(getsockname(listener, (struct sockaddr *)&name, &len) == 0);
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert(connect(fds[0], (struct sockaddr *)&name, sizeof(name)) == 0);
    fds[1] = accept(listener, NULL, NULL);
    assert(fds[1] >= 0);
    assert(fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0 && fcntl(fds[1], F_SETFL, O_NONBLOCK) == 0);
    (void)close(listener);
}

static void on_answer(uv_timer_t *t)
{
    struct lab *lab = t->data;
    struct err err = ERR_NONE;
    int fds[2];

    if (lab->refuse < 0) {
        (void)err_errno(&err, lab->refuse, "port 80");
        proxy_connected(take(lab->waiting), lab->refuse, FD_NONE, &err);
        return;
    }
    tcp_pair(fds);
    lab->servers[lab->connects - 1] = fds[0];
    proxy_connected(take(lab->waiting), 0, fds[1], NULL);
}

static int start_connect(void *data, const char *key, struct proxy_conn *c, void **ret_handle,
                         int *ret_fd, struct err *err)
{
    struct lab *lab = data;
    int fds[2];

    (void)key;
    *ret_fd = FD_NONE;
    if (lab->waiting != NULL || lab->connects == SERVERS_MAX)
        return err_set(err, -EAGAIN, "the test is busy");
    lab->connects++;
    if (lab->at_once) {
        tcp_pair(fds);
        lab->servers[lab->connects - 1] = fds[0];
        *ret_fd = fds[1];
        return 0;
    }
    lab->waiting = c;
    if (!lab->freeze_ref)
        (void)uv_timer_start(&lab->answer, on_answer, 0, 0);
    *ret_handle = lab;
    return 0;
}

static void cancel(void *handle)
{
    struct lab *lab = handle;

    (void)uv_timer_stop(&lab->answer);
    lab->waiting = NULL;
    lab->cancelled++;
}

static void refused(void *data, const char *key, const char *peer, int status, const char *why)
{
    (void)peer;
    (void)why;
    CHECK_STR(key, status == 502 ? "a/80" : ""); /* whose fault it is */
    ((struct lab *)data)->refusals++;
}

static int enter(void *data, const char *key, struct err *err)
{
    struct lab *lab = data;

    assert(strcmp(key, "") != 0);
    if (lab->room != 0 && lab->inside >= lab->room)
        return err_set(err, -EAGAIN, "limit maxPortConnections: the test's");
    lab->inside++;
    return 0;
}

static void leave(void *data, const char *key)
{
    struct lab *lab = data;

    assert(lab->inside > 0 && strcmp(key, "") != 0);
    lab->inside--;
}

static void left(void *data, uint64_t group)
{
    assert(group == 0xa);
    leave(data, "a/80");
}

static const struct proxy_ops ops = {
    .route = route,
    .enter = enter,
    .leave = leave,
    .connect = start_connect,
    .cancel = cancel,
    .refused = refused,
};

static void lab_open(struct lab *lab, const struct proxy_config *config)
{
    const struct relay_config relays = {.max = RELAY_MAX,
                                        .pipes = RELAY_PIPES,
                                        .idle_ms = RELAY_IDLE_MS,
                                        .left = left,
                                        .data = lab};
    struct err err = ERR_NONE;

    (void)signal(SIGPIPE, SIG_IGN);
    *lab = (struct lab){.refuse = 0};
    assert(uv_loop_init(&lab->loop) == 0);
    (void)uv_timer_init(&lab->loop, &lab->answer);
    lab->answer.data = lab;
    assert(evloop_new(&lab->loop, &lab->evloop, &err) == 0);
    assert(relay_hub_new(lab->evloop, &relays, &lab->hub, &err) == 0);
    assert(proxy_new(lab->evloop, lab->hub, config, &ops, lab, &lab->proxy, &err) == 0);
}

static void lab_close(struct lab *lab)
{
    proxy_close(lab->proxy);
    relay_hub_close(lab->hub);
    CHECK_INT(lab->inside, 0);
    evloop_close(lab->evloop);
    uv_close((uv_handle_t *)&lab->answer, NULL);
    (void)uv_run(&lab->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&lab->loop), 0);
    for (int i = 0; i < lab->connects; i++)
        if (lab->servers[i] > 0)
            (void)close(lab->servers[i]);
}

static void turn(struct lab *lab)
{
    for (int i = 0; i < 3; i++)
        (void)uv_run(&lab->loop, UV_RUN_NOWAIT);
}

static int client(struct lab *lab)
{
    const struct proxy_client none = {.peer = "192.0.2.7"};
    struct err err = ERR_NONE;
    int fds[2];

    tcp_pair(fds);
    CHECK_INT(proxy_adopt(lab->proxy, fds[1], &none, &err), 0);
    return fds[0];
}

static void say(struct lab *lab, int fd, const char *text)
{
    size_t len = strlen(text);
    double end = now_ms() + DEADLINE_MS;

    while (len > 0 && now_ms() < end) {
        ssize_t n = send(fd, text, len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n > 0) {
            text += n;
            len -= (size_t)n;
        }
        turn(lab);
    }
    CHECK_INT(len, 0);
}

/* Reads until what came ends with `text`, or (NULL) to the end; the whole of it, to be freed. */
static char *hear(struct lab *lab, int fd, const char *text)
{
    struct buf b = BUF_INIT(128 << 20);
    double end = now_ms() + DEADLINE_MS;
    char data[4096];

    (void)buf_append(&b, "", 0);
    while (now_ms() < end) {
        ssize_t n;

        turn(lab);
        n = recv(fd, data, sizeof(data), MSG_DONTWAIT);
        if (n > 0)
            (void)buf_append(&b, data, (size_t)n);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            break;
        if (text != NULL && b.len >= strlen(text) &&
            strcmp(b.data + b.len - strlen(text), text) == 0)
            return b.data;
    }
    if (text != NULL)
        tap_fail("did not come: %s; but: %.500s", text, b.data);
    return b.data;
}

static void expect(struct lab *lab, int fd, const char *want)
{
    auto_free char *got = hear(lab, fd, want);

    CHECK_STR(got, want);
}

/* The end of the connection, after whatever still comes. -1: reset. */
static int hear_end(struct lab *lab, int fd)
{
    double end = now_ms() + DEADLINE_MS;
    char data[4096];
    ssize_t n;

    do {
        turn(lab);
        n = recv(fd, data, sizeof(data), MSG_DONTWAIT);
    } while ((n > 0 || (n < 0 && errno == EAGAIN)) && now_ms() < end);
    return (int)n;
}

static int server(struct lab *lab, int n)
{
    double end = now_ms() + DEADLINE_MS;

    while (lab->servers[n] == 0 && now_ms() < end)
        turn(lab);
    CHECK(lab->servers[n] > 0);
    return lab->servers[n];
}

/* Turns until it is so, or the deadline is over. */
#define UNTIL(lab, so)                                                                             \
    for (double end_ = now_ms() + DEADLINE_MS; !(so) && now_ms() < end_;)                          \
    turn(lab)

#define ADDED "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\n\r\n"
#define GET   "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
#define GOT   "GET / HTTP/1.1\r\nHost: a\r\n" ADDED

/* ---- one exchange and the next ---- */

/* A client whose GET has reached the first server. */
static int asked(struct lab *lab)
{
    int c = client(lab);

    say(lab, c, GET);
    expect(lab, server(lab, 0), GOT);
    return c;
}

/* What the server's connection n says, which the client hears as it is. */
static void answer(struct lab *lab, int n, int c, const char *reply)
{
    say(lab, server(lab, n), reply);
    expect(lab, c, reply);
}

TEST(keep_alive_on_both_sides)
{
    struct lab lab;
    int c, s;

    lab_open(&lab, NULL);
    c = client(&lab);
    for (int i = 0; i < 3; i++) {
        say(&lab, c, GET);
        s = server(&lab, 0);
        expect(&lab, s, GOT);
        say(&lab, s, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
        expect(&lab, c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
        turn(&lab);
        CHECK_INT(proxy_pooled(lab.proxy), 1);
    }
    CHECK_INT(lab.connects, 1);
    CHECK_INT(lab.refusals, 0);
    (void)close(c);
    UNTIL(&lab, proxy_count(lab.proxy) == 0);
    CHECK_INT(proxy_count(lab.proxy), 0);
    (void)close(s);
    lab.servers[0] = 0;
    UNTIL(&lab, proxy_pooled(lab.proxy) == 0);
    CHECK_INT(proxy_pooled(lab.proxy), 0); /* a server that closes is not kept */
    lab_close(&lab);
}

TEST(pipelined_requests_are_answered_in_order)
{
    struct lab lab;
    int c;

    lab_open(&lab, NULL);
    c = client(&lab);
    say(&lab, c, GET "POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" GET);
    expect(&lab, server(&lab, 0), GOT);
    answer(&lab, 0, c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1");
    /* A POST has a connection of its own. */
    expect(&lab, server(&lab, 1),
           "POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n" ADDED "abc");
    answer(&lab, 1, c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2");
    CHECK_INT(lab.connects, 2);
    (void)close(c);
    lab_close(&lab);
}

/* A kept connection that its server closed meanwhile: the request is sent again, once. */
TEST(stale_connections)
{
    struct lab lab;
    int c;

    lab_open(&lab, NULL);
    c = asked(&lab);
    answer(&lab, 0, c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    say(&lab, c, GET);
    expect(&lab, server(&lab, 0), GOT);
    (void)close(lab.servers[0]); /* having read it: no answer comes */
    lab.servers[0] = -1;
    expect(&lab, server(&lab, 1), GOT);
    (void)close(lab.servers[1]);
    lab.servers[1] = -1;
    expect(&lab, c,
           "HTTP/1.1 502 Bad Gateway\r\nContent-Type: application/json\r\nContent-Length: 94\r\n"
           "Cache-Control: no-store\r\n\r\n{\"error\":{\"code\":\"ECONNRESET\",\"message\":\"the "
           "server "
           "closed the connection without an answer\"}}");
    (void)close(c);
    lab_close(&lab);
}

/* What a server says beyond its reply is not the next one's reply. */
TEST(a_server_says_too_much)
{
    struct lab lab;
    int c;

    lab_open(&lab, NULL);
    c = asked(&lab);
    say(&lab, server(&lab, 0),
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1HTTP/1.1 200 OK\r\nContent-Length: "
        "4\r\n\r\nevil");
    expect(&lab, c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1");
    say(&lab, c, GET);
    expect(&lab, server(&lab, 1), GOT);
    answer(&lab, 1, c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2");
    CHECK_INT(proxy_pooled(lab.proxy), 1);
    /* While its connection waits, and not heard of before the next request is. */
    CHECK_INT(write(c, GET, strlen(GET)), (int)strlen(GET));
    CHECK_INT(write(lab.servers[1], "evil", 4), 4);
    expect(&lab, server(&lab, 2), GOT);
    answer(&lab, 2, c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n3");
    (void)close(c);
    lab_close(&lab);
}

/* A body that its server speaks of where none can be may follow later: nobody else hears it. */
TEST(bodies_that_may_follow)
{
    static const char head[] = "HTTP/1.1 204 No\r\n", length[] = "Content-Length: 5\r\n";

    for (int kept = 0; kept <= 1; kept++) {
        struct lab lab;
        char reply[64];
        int c;

        lab_open(&lab, NULL);
        c = asked(&lab);
        (void)snprintf(reply, sizeof(reply), "%s%s\r\n", head, kept ? "" : length);
        say(&lab, server(&lab, 0), reply);
        expect(&lab, c, "HTTP/1.1 204 No\r\n\r\n");
        say(&lab, c, GET);
        expect(&lab, server(&lab, 1 - kept), GOT);
        (void)close(c);
        lab_close(&lab);
    }
}

/* ---- replies of each kind ---- */

TEST(replies_pass_as_they_are)
{
    static const struct {
        const char *request, *reply, *want;
        bool server_closes, client_closes;
    } rows[] = {
        {GET,
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 1\r\n\r\n",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 1\r\n\r\n",
         false, false},
        {GET, "HTTP/1.1 200 OK\r\n\r\nto the end",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nto the end\r\n0\r\n\r\n", true,
         false},
        {"GET / HTTP/1.0\r\nHost: a\r\n\r\n",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
         "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhi", false, true},
        {"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
         "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false, false},
        {GET, "HTTP/1.1 204 None\r\n\r\n", "HTTP/1.1 204 None\r\n\r\n", false, false},
        {GET, "HTTP/1.1 304 Same\r\nContent-Length: 5\r\n\r\n",
         "HTTP/1.1 304 Same\r\nContent-Length: 5\r\n\r\n", false, false},
        {GET, "HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
         "HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false,
         false},
        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
         "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: x\r\nX: 1\r\n\r\na",
         "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\na", false, true},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct lab lab;
        char byte;
        int c;

        lab_open(&lab, NULL);
        c = client(&lab);
        say(&lab, c, rows[i].request);
        free(hear(&lab, server(&lab, 0), "\r\n\r\n"));
        say(&lab, server(&lab, 0), rows[i].reply);
        if (rows[i].server_closes)
            (void)shutdown(lab.servers[0], SHUT_WR);
        expect(&lab, c, rows[i].want);
        if (rows[i].client_closes) {
            CHECK_INT(hear_end(&lab, c), 0);
        } else {
            turn(&lab);
            CHECK_INT(recv(c, &byte, 1, MSG_DONTWAIT), -1);
            CHECK_INT(proxy_count(lab.proxy), 1);
        }
        (void)close(c);
        lab_close(&lab);
    }
}

TEST(replies_that_break_off)
{
    static const char *const rows[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzzz\r\n",
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct lab lab;
        int c;

        lab_open(&lab, NULL);
        c = asked(&lab);
        say(&lab, server(&lab, 0), rows[i]);
        (void)shutdown(lab.servers[0], SHUT_WR);
        CHECK_INT(hear_end(&lab, c), -1); /* not an end that could be taken for one */
        CHECK_INT(proxy_count(lab.proxy), 0);
        (void)close(c);
        lab_close(&lab);
    }
}

TEST(bad_replies_are_502)
{
    static const char *const rows[] = {
        "hello\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", /* nobody asked */
        "HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n",
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct lab lab;
        auto_free char *got = NULL;
        int c;

        lab_open(&lab, NULL);
        c = asked(&lab);
        say(&lab, server(&lab, 0), rows[i]);
        got = hear(&lab, c, "\"}}");
        CHECK(strncmp(got, "HTTP/1.1 502 Bad Gateway\r\n", 26) == 0);
        CHECK_INT(lab.refusals, 1);
        CHECK_INT(proxy_pooled(lab.proxy), 0);
        (void)close(c);
        lab_close(&lab);
    }
}

/* A server inside that sends a header of 1 MiB: refused as soon as it is longer than a head may be.
 */
TEST(the_head_of_a_reply_is_bounded)
{
    static char piece[4096];
    auto_free char *got = NULL;
    double end = now_ms() + DEADLINE_MS;
    size_t sent = 0;
    struct lab lab;
    int c, s;

    (void)memset(piece, 'a', sizeof(piece));
    lab_open(&lab, NULL);
    c = asked(&lab);
    s = server(&lab, 0);
    say(&lab, s, "HTTP/1.1 200 OK\r\nX: ");
    while (sent < 1 << 20 && lab.refusals == 0 && now_ms() < end) {
        ssize_t n = send(s, piece, sizeof(piece), MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n > 0)
            sent += (size_t)n;
        turn(&lab);
    }
    got = hear(&lab, c, "\"}}");
    CHECK(strncmp(got, "HTTP/1.1 502 Bad Gateway\r\n", 26) == 0);
    CHECK_INT(lab.refusals, 1);
    CHECK(sent < 1 << 20);
    (void)close(c);
    lab_close(&lab);
}

/* ---- refusals ---- */

TEST(refusals_of_the_proxy)
{
    static const struct {
        const char *request;
        int status, refuse;
        bool closes;
    } rows[] = {
        {"GET / HTTP/1.1\r\nHost: nobody\r\n\r\n", 404, 0, false},
        {GET, 502, -ECONNREFUSED, false},
        {GET, 504, -ETIMEDOUT, false},
        {GET, 503, -EBUSY, false},
        {"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400, 0, true},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: "
         "chunked\r\n\r\n0\r\n\r\n" GET,
         400, 0, true},
        {"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 405, 0, true},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n", 502, -ECONNREFUSED, true},
        {"HEAD / HTTP/1.1\r\nHost: nobody\r\n\r\n", 404, 0, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct lab lab;
        auto_free char *got = NULL;
        bool head = rows[i].request[0] == 'H';
        int c;

        lab_open(&lab, NULL);
        lab.refuse = rows[i].refuse;
        c = client(&lab);
        say(&lab, c, rows[i].request);
        got = hear(&lab, c, rows[i].closes ? NULL : head ? "\r\n\r\n" : "}");
        CHECK_INT(strncmp(got, "HTTP/1.1 ", 9) == 0 ? atoi(got + 9) : 0, rows[i].status);
        CHECK(strstr(got + 9, "HTTP/1.1 ") == NULL); /* nothing of it is taken for another */
        CHECK_INT(strstr(got, "Connection: close\r\n") != NULL, rows[i].closes);
        (void)close(c);
        lab_close(&lab);
    }
}

TEST(limit_on_connections)
{
    struct proxy_config one;
    const struct proxy_client none = {.peer = ""};
    struct err err = ERR_NONE;
    struct lab lab;
    int c, fds[2];

    proxy_config_init(&one);
    one.max = 1;
    lab_open(&lab, &one);
    c = client(&lab);
    tcp_pair(fds);
    CHECK_INT(proxy_adopt(lab.proxy, fds[1], &none, &err), -EAGAIN);
    CHECK_STR(err.msg, "limit maxGatewayConnections: 1 connections are open");
    (void)close(fds[0]);
    (void)close(fds[1]);
    (void)close(c);
    lab_close(&lab);
}

TEST(limit_on_connections_for_one)
{
    auto_free char *text = NULL, *done = NULL;
    struct lab lab;
    int a, b;

    lab_open(&lab, NULL);
    lab.room = 1;
    a = client(&lab);
    b = client(&lab);
    say(&lab, a, GET);
    expect(&lab, server(&lab, 0), GOT);
    say(&lab, b, GET);
    text = hear(&lab, b, "}}");
    CHECK(strstr(text, "HTTP/1.1 503 ") == text && strstr(text, "maxPortConnections") != NULL);
    CHECK_INT(lab.connects, 1);
    say(&lab, server(&lab, 0), "HTTP/1.1 204 None\r\n\r\n");
    done = hear(&lab, a, "\r\n\r\n");
    CHECK(strstr(done, "HTTP/1.1 204 ") == done);
    CHECK_INT(lab.inside, 0); /* open, and for nobody until its next request */
    say(&lab, b, GET);
    expect(&lab, server(&lab, 0), GOT);
    CHECK_INT(lab.inside, 1);
    (void)close(a);
    (void)close(b);
    turn(&lab);
    lab_close(&lab);
}

/* One clock is short at a time: the others cannot be over first, however busy the machine is. */
TEST(slow_servers_time_out)
{
    static const struct {
        const char *said; /* NULL: nothing */
        size_t clock;
        bool freeze_ref;
        const char *told; /* "": the end, without a word */
        const char *end;  /* NULL: the connection's */
    } rows[] = {
        {NULL, offsetof(struct proxy_config, idle_ms), false, "", NULL},
        {"GET / HT", offsetof(struct proxy_config, head_ms), false, "HTTP/1.1 408 ", NULL},
        {GET, offsetof(struct proxy_config, reply_ms), false, "HTTP/1.1 504 ", "}}"},
        /* not even connected */
        {GET, offsetof(struct proxy_config, reply_ms), true, "HTTP/1.1 504 ", "}}"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        auto_free char *got = NULL;
        struct proxy_config soon;
        struct lab lab;
        int c;

        proxy_config_init(&soon);
        *(unsigned *)((char *)&soon + rows[i].clock) = 50;
        lab_open(&lab, &soon);
        lab.freeze_ref = rows[i].freeze_ref;
        c = client(&lab);
        if (rows[i].said != NULL)
            say(&lab, c, rows[i].said);
        got = hear(&lab, c, rows[i].end);
        if (strncmp(got, rows[i].told, strlen(rows[i].told)) != 0 ||
            (rows[i].told[0] == '\0' && got[0] != '\0'))
            tap_fail("row %zu: %s", i, got);
        if (rows[i].end == NULL)
            CHECK_INT(hear_end(&lab, c), 0);
        CHECK_INT(lab.cancelled, rows[i].freeze_ref);
        (void)close(c);
        lab_close(&lab);
    }
}

TEST(a_client_that_goes_takes_its_request_along)
{
    const struct linger now = {.l_onoff = 1, .l_linger = 0};
    struct lab lab;
    int c, s;

    lab_open(&lab, NULL);
    c = client(&lab);
    say(&lab, c, GET);
    s = server(&lab, 0);
    expect(&lab, s, GOT);
    assert(setsockopt(c, SOL_SOCKET, SO_LINGER, &now, sizeof(now)) == 0);
    (void)close(c);
    CHECK_INT(hear_end(&lab, s), -1);
    CHECK_INT(proxy_count(lab.proxy), 0);
    lab.freeze_ref = true;
    c = client(&lab);
    say(&lab, c, GET);
    assert(setsockopt(c, SOL_SOCKET, SO_LINGER, &now, sizeof(now)) == 0);
    (void)close(c);
    UNTIL(&lab, lab.cancelled > 0);
    CHECK_INT(lab.cancelled, 1);
    lab_close(&lab);
}

/* A connection that is there as soon as it is asked for. */
TEST(servers_that_are_connected_at_once)
{
    struct lab lab;
    int c;

    lab_open(&lab, NULL);
    lab.at_once = true;
    c = client(&lab);
    say(&lab, c, GET);
    expect(&lab, server(&lab, 0), GOT);
    say(&lab, server(&lab, 0), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    expect(&lab, c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    CHECK_INT(lab.connects, 1);
    CHECK_INT(lab.cancelled, 0);
    (void)close(c);
    lab_close(&lab);
}

/* ---- bodies ---- */

TEST(continue_is_the_servers_to_say)
{
    struct lab lab;
    int c, s;

    lab_open(&lab, NULL);
    c = client(&lab);
    say(&lab, c, "PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    s = server(&lab, 0);
    expect(&lab, s,
           "PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n" ADDED);
    say(&lab, s, "HTTP/1.1 100 Continue\r\n\r\n");
    expect(&lab, c, "HTTP/1.1 100 Continue\r\n\r\n");
    say(&lab, c, "abcd");
    expect(&lab, s, "abcd");
    say(&lab, s, "HTTP/1.1 201 Made\r\nContent-Length: 0\r\n\r\n");
    expect(&lab, c, "HTTP/1.1 201 Made\r\nContent-Length: 0\r\n\r\n");
    /* Refused without reading: nothing of the body can become a request. */
    say(&lab, c, "PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 40\r\n\r\n");
    free(hear(&lab, server(&lab, 1), "\r\n\r\n"));
    say(&lab, server(&lab, 1), "HTTP/1.1 413 Big\r\nContent-Length: 0\r\n\r\n");
    expect(&lab, c, "HTTP/1.1 413 Big\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    say(&lab, c, GET);
    CHECK_INT(hear_end(&lab, c), 0);
    CHECK_INT(lab.connects, 2);
    (void)close(c);
    lab_close(&lab);
}

/* Letters that no chunk size is written with, in a known order. */
static char letter(size_t at)
{
    return (char)('g' + at % 20);
}

/* Megabytes to a server that reads slowly, chunked and with a length: byte exact, and its client is
 * made to wait. */
static void stream(bool chunked)
{
    enum { TOTAL = 128 << 20, PIECE = 65000 };
    static const char reply[] =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
    struct lab lab;
    double end = now_ms() + DEADLINE_MS;
    auto_free char *block = malloc(PIECE + 20);
    size_t sent = 0, got = 0, wrong = 0;
    char data[30000];
    int c, s, dry = 0;

    lab_open(&lab, NULL);
    c = client(&lab);
    for (size_t i = 0; i < PIECE + 20; i++)
        block[i] = letter(i);
    say(&lab, c,
        chunked ? "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n8000000\r\n"
                : "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 134217728\r\n\r\n");
    s = server(&lab, 0);
    free(hear(&lab, s, "\r\n\r\n"));
    say(&lab, s, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    expect(&lab, c, reply);
    while (got < TOTAL && now_ms() < end) {
        size_t want = TOTAL - sent < PIECE ? TOTAL - sent : PIECE;
        ssize_t n = want > 0 ? send(c, block + sent % 20, want, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;

        sent += n > 0 ? (size_t)n : 0;
        turn(&lab);
        /* First nobody reads: what is taken is bounded by what sockets and the proxy hold. */
        if (dry < 30) {
            dry = n > 0 ? 0 : dry + 1;
            CHECK(sent < TOTAL);
            continue;
        }
        n = recv(s, data, sizeof(data), MSG_DONTWAIT);
        for (ssize_t i = 0; i < n; i++)
            if (data[i] >= 'g')
                wrong += data[i] != letter(got++);
    }
    CHECK_INT(sent, TOTAL);
    CHECK_INT(got, TOTAL);
    CHECK_INT(wrong, 0);
    if (chunked) {
        say(&lab, c, "\r\n0\r\nX-T: 1\r\n\r\n");
        free(hear(&lab, s, "0\r\nX-T: 1\r\n\r\n"));
    }
    say(&lab, s, "4\r\ndone\r\n0\r\n\r\n");
    expect(&lab, c, "4\r\ndone\r\n0\r\n\r\n");
    (void)close(c);
    lab_close(&lab);
}

TEST(long_bodies)
{
    stream(false);
    stream(true);
}

/* Each event comes while the server goes on. */
TEST(events_are_not_held_back)
{
    struct lab lab;
    int c, s;

    lab_open(&lab, NULL);
    c = client(&lab);
    say(&lab, c, GET);
    s = server(&lab, 0);
    expect(&lab, s, GOT);
    say(&lab, s, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
    expect(
        &lab, c,
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 5; i++) {
        say(&lab, s, "data: 1\n\n");
        expect(&lab, c, "9\r\ndata: 1\n\n\r\n");
    }
    (void)close(c);
    (void)shutdown(s, SHUT_WR);
    UNTIL(&lab, proxy_count(lab.proxy) == 0);
    CHECK_INT(proxy_count(lab.proxy), 0);
    lab_close(&lab);
}

/* A server that answers before it has read everything, and resets: the answer comes through. */
TEST(an_early_answer)
{
    struct lab lab;
    auto_free char *got = NULL, *body = calloc(1, 3 << 20);
    double end = now_ms() + DEADLINE_MS;
    int c, s;

    lab_open(&lab, NULL);
    c = client(&lab);
    say(&lab, c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n");
    s = server(&lab, 0);
    free(hear(&lab, s, "\r\n\r\n"));
    while (send(c, body, 3 << 20, MSG_DONTWAIT) > 0 && now_ms() < end)
        turn(&lab);
    say(&lab, s, "HTTP/1.1 413 Big\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig");
    (void)close(s);
    lab.servers[0] = -1;
    got = hear(&lab, c, "\r\n\r\nbig");
    CHECK_STR(got, "HTTP/1.1 413 Big\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig");
    (void)close(c);
    lab_close(&lab);
}

/* ---- upgrades ---- */

TEST(upgrades_become_relays)
{
    struct lab lab;
    int c, s;

    lab_open(&lab, NULL);
    c = client(&lab);
    /* With what the client sends before the answer. */
    say(&lab, c,
        "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly");
    s = server(&lab, 0);
    expect(&lab, s,
           "GET /ws HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: "
           "http\r\nX-Forwarded-Host: a\r\n"
           "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    say(&lab, s,
        "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-X: "
        "1\r\n\r\nhello");
    expect(&lab, s, "early");
    expect(&lab, c,
           "HTTP/1.1 101 Switching\r\nSec-X: 1\r\nConnection: Upgrade\r\nUpgrade: "
           "websocket\r\n\r\nhello");
    UNTIL(&lab, relay_count(lab.hub) > 0);
    CHECK_INT(relay_count(lab.hub), 1);
    CHECK_INT(proxy_count(lab.proxy), 0);
    say(&lab, c, "GET / HTTP/1.1\r\n");
    expect(&lab, s, "GET / HTTP/1.1\r\n");
    (void)shutdown(c, SHUT_WR);
    CHECK_INT(hear_end(&lab, s), 0);
    say(&lab, s, "after");
    expect(&lab, c, "after");
    (void)close(s);
    lab.servers[0] = -1;
    CHECK_INT(hear_end(&lab, c), 0);
    (void)close(c);
    lab_close(&lab);
}

TEST(upgrades_that_are_refused)
{
    struct lab lab;
    int c;

    lab_open(&lab, NULL);
    c = client(&lab);
    say(&lab, c,
        "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" GET);
    free(hear(&lab, server(&lab, 0), "websocket\r\n\r\n"));
    answer(&lab, 0, c, "HTTP/1.1 426 Other\r\nContent-Length: 0\r\n\r\n");
    expect(&lab, server(&lab, 0), GOT); /* and the next request is one */
    (void)close(c);
    lab_close(&lab);
}

/* A client that another front hands over: what it has read goes in front, and one request is all.
 */
TEST(one_request_of_another_front)
{
    struct lab lab;
    struct err err = ERR_NONE;
    int fds[2];
    const struct proxy_client given = {
        .peer = "",
        .trusted = true,
        .key = "x/8080",
        .early = "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nab",
        .early_len = 50};

    lab_open(&lab, NULL);
    assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
    CHECK_INT(strlen(given.early), given.early_len);
    CHECK_INT(proxy_adopt(lab.proxy, fds[1], &given, &err), 0);
    say(&lab, fds[0], "cd" GET);
    expect(&lab, server(&lab, 0),
           "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nX-Forwarded-For: "
           "\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: h\r\n\r\nabcd");
    say(&lab, server(&lab, 0), "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na");
    expect(&lab, fds[0], "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\na");
    CHECK_INT(hear_end(&lab, fds[0]), 0);
    CHECK_INT(lab.connects, 1);
    (void)close(fds[0]);
    lab_close(&lab);
}

TAP_MAIN
