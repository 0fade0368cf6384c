/* Joined connections: bytes, ends, resets, slow readers, limits; between TCP and unix sockets. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/evloop.h"
#include "gateway/relay.h"
#include "tap.h"

enum { DEADLINE_MS = 20000 };

struct lab {
    uv_loop_t loop;
    struct evloop *evloop;
    struct relay_hub *hub;
    int ended; /* how often on_end came */
    struct relay_result last;
};

static double now_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void lab_open(struct lab *lab, const struct relay_config *config)
{
    struct err err = ERR_NONE;

    (void)signal(SIGPIPE, SIG_IGN);
    *lab = (struct lab){.ended = 0};
    assert(uv_loop_init(&lab->loop) == 0);
    assert(evloop_new(&lab->loop, &lab->evloop, &err) == 0);
    assert(relay_hub_new(lab->evloop, config, &lab->hub, &err) == 0);
}

static void turn(struct lab *lab)
{
    for (int i = 0; i < 3; i++)
        (void)uv_run(&lab->loop, UV_RUN_NOWAIT);
}

static void lab_close(struct lab *lab)
{
    CHECK_INT(relay_pipes(lab->hub), 0);
    relay_hub_close(lab->hub);
    evloop_close(lab->evloop);
    (void)uv_run(&lab->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&lab->loop), 0);
}

static void on_end(void *data, const struct relay_result *result)
{
    struct lab *lab = data;

    lab->ended++;
    lab->last = *result;
}

/* A connected pair, the first end for the test, non-blocking. */
static void pair_of(bool tcp, int fds[2])
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(name);
    int listener;

    if (!tcp) {
        assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    } else {
        listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert(bind(listener, (struct sockaddr *)&name, sizeof(name)) == 0);
        assert(listen(listener, 1) == 0);
        assert(getsockname(listener, (struct sockaddr *)&name, &len) == 0);
        fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert(connect(fds[0], (struct sockaddr *)&name, sizeof(name)) == 0);
        fds[1] = accept(listener, NULL, NULL);
        assert(fds[1] >= 0);
        (void)close(listener);
    }
    assert(fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0);
}

/* Two peers that a relay joins. */
static void join(struct lab *lab, bool tcp_a, bool tcp_b, int *a, int *b)
{
    struct err err = ERR_NONE;
    int left[2], right[2];

    pair_of(tcp_a, left);
    pair_of(tcp_b, right);
    *a = left[0];
    *b = right[0];
    CHECK_INT(relay_start(lab->hub, left[1], right[1], 7, on_end, lab, NULL, &err), 0);
}

/* Reads one piece; 0 at the end, -1 with errno after the deadline or an error. */
static ssize_t read_soon(struct lab *lab, int fd, void *data, size_t size)
{
    double end = now_ms() + DEADLINE_MS;
    ssize_t n;

    do {
        turn(lab);
        n = recv(fd, data, size, MSG_DONTWAIT);
    } while (n < 0 && errno == EAGAIN && now_ms() < end);
    return n;
}

static void expect_text(struct lab *lab, int fd, const char *text)
{
    char got[64];
    ssize_t n = read_soon(lab, fd, got, sizeof(got) - 1);

    got[n > 0 ? n : 0] = '\0';
    CHECK_STR(got, text);
}

static bool until_ended(struct lab *lab, int count)
{
    double end = now_ms() + DEADLINE_MS;

    while (lab->ended < count && now_ms() < end)
        turn(lab);
    return lab->ended == count;
}

/* ---- bytes ---- */

/* One direction of traffic: a generator whose byte at each offset is known. */
struct flow {
    int from, to;
    size_t total, sent, got;
    unsigned seed;
    size_t read_most; /* a slow reader takes no more at a time */
    bool closed, ended, wrong;
};

static unsigned char byte_at(const struct flow *f, size_t offset)
{
    return (unsigned char)((offset * 2654435761U >> 7) + f->seed);
}

static void flow_step(struct flow *f)
{
    static unsigned char data[1 << 18];
    size_t n = (size_t)rand() % sizeof(data) + 1;
    ssize_t r;

    if (rand() % 4 == 0)
        n = (size_t)rand() % 200 + 1;
    n = f->total - f->sent < n ? f->total - f->sent : n;
    for (size_t i = 0; i < n; i++)
        data[i] = byte_at(f, f->sent + i);
    r = n > 0 ? send(f->from, data, n, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
    if (r > 0)
        f->sent += (size_t)r;
    if (f->sent == f->total && !f->closed) {
        f->closed = true;
        (void)shutdown(f->from, SHUT_WR);
    }
    n = (size_t)rand() % sizeof(data) + 1;
    r = recv(f->to, data, f->read_most > 0 && n > f->read_most ? f->read_most : n, MSG_DONTWAIT);
    for (ssize_t i = 0; i < r; i++)
        f->wrong = f->wrong || data[i] != byte_at(f, f->got + (size_t)i);
    if (r > 0)
        f->got += (size_t)r;
    f->ended = f->ended || r == 0;
}

static void carry(const struct relay_config *config, bool tcp_a, bool tcp_b, size_t slow)
{
    struct lab lab;
    double end = now_ms() + DEADLINE_MS;
    int a, b;

    lab_open(&lab, config);
    join(&lab, tcp_a, tcp_b, &a, &b);

    struct flow there = {.from = a, .to = b, .total = 10 << 20, .seed = 1, .read_most = slow},
                back = {.from = b, .to = a, .total = (6 << 20) + 17, .seed = 2};

    while (!(there.ended && back.ended) && now_ms() < end) {
        flow_step(&there);
        turn(&lab);
        flow_step(&back);
    }
    CHECK_INT(there.got, there.total);
    CHECK_INT(back.got, back.total);
    CHECK(!there.wrong && !back.wrong);
    CHECK(until_ended(&lab, 1));
    CHECK_INT(lab.last.end, RELAY_FINISHED);
    CHECK_INT(lab.last.bytes[0], there.total);
    CHECK_INT(lab.last.bytes[1], back.total);
    (void)close(a);
    (void)close(b);
    lab_close(&lab);
}

TEST(every_byte_between_all_kinds)
{
    for (int k = 0; k < 4; k++)
        carry(NULL, (k & 1) != 0, (k & 2) != 0, 0);
}

TEST(every_byte_to_a_slow_reader)
{
    carry(NULL, true, true, 16 << 10);
    carry(NULL, false, true, 16 << 10);
}

/* Many that have much, by turns: none is mixed up with another, and a pipe is there only for what a
 * socket has not taken. */
TEST(every_byte_of_many_at_once)
{
    enum { PAIRS = 24, EACH = 1 << 20 };
    static struct flow flows[PAIRS];
    struct lab lab;
    double end = now_ms() + DEADLINE_MS;
    int done = 0;

    lab_open(&lab, NULL);
    for (int i = 0; i < PAIRS; i++) {
        struct flow *f = &flows[i];

        *f = (struct flow){.total = EACH + (size_t)i, .seed = (unsigned)i};
        join(&lab, i % 3 == 0, i % 4 != 0, &f->from, &f->to);
        f->read_most = i % 5 == 0 ? 8 << 10 : 0;
    }
    while (done < PAIRS && now_ms() < end) {
        done = 0;
        for (int i = 0; i < PAIRS; i++) {
            flow_step(&flows[i]);
            done += flows[i].ended;
        }
        (void)uv_run(&lab.loop, UV_RUN_NOWAIT);
        CHECK(relay_pipes(lab.hub) <= PAIRS);
    }
    for (int i = 0; i < PAIRS; i++) {
        CHECK_INT(flows[i].got, flows[i].total);
        CHECK(flows[i].ended && !flows[i].wrong);
        (void)close(flows[i].to);
    }
    CHECK(until_ended(&lab, PAIRS));
    CHECK_INT(relay_pipes(lab.hub), 0);
    for (int i = 0; i < PAIRS; i++)
        (void)close(flows[i].from);
    lab_close(&lab);
}

/* Where no pipe is to be had, bytes are looked at and copied; none is lost. */
TEST(every_byte_without_pipes)
{
    const struct relay_config none = {.max = 4, .pipes = 0, .idle_ms = 60000};

    for (int k = 0; k < 4; k++)
        carry(&none, (k & 1) != 0, (k & 2) != 0, k == 3 ? 16 << 10 : 0);
}

/* Both ways, more than a socket takes at once, before what the other sends itself; and it is whole
 * when that other has nothing to say any more. */
TEST(early_bytes_come_first)
{
    static char data[60000], got[sizeof(data) + 16];

    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (char)(i * 31 % 251);
    for (int k = 0; k < 4; k++) {
        struct lab lab;
        struct relay *r;
        int left[2], right[2], small = 4096;
        size_t len = 0;
        ssize_t n;

        lab_open(&lab, NULL);
        pair_of((k & 1) != 0, left);
        pair_of((k & 2) != 0, right);
        (void)setsockopt(right[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
        CHECK_INT(relay_start(lab.hub, left[1], right[1], 7, on_end, &lab, &r, NULL), 0);
        CHECK_INT(send(left[0], "and more", 8, 0), 8);
        (void)shutdown(left[0], SHUT_WR);
        CHECK_INT(relay_early(r, 0, "hello", 5, NULL), 0);
        CHECK_INT(relay_early(r, 1, data, sizeof(data), NULL), 0);
        expect_text(&lab, left[0], "hello");
        while ((n = read_soon(&lab, right[0], got + len, sizeof(got) - len)) > 0)
            len += (size_t)n;
        CHECK_INT(n, 0);
        CHECK_INT(len, sizeof(data) + 8);
        CHECK(memcmp(got, data, sizeof(data)) == 0 &&
              memcmp(got + sizeof(data), "and more", 8) == 0);
        (void)close(right[0]);
        CHECK(until_ended(&lab, 1));
        CHECK_INT(lab.last.end, RELAY_FINISHED);
        CHECK_INT(relay_pipes(lab.hub), 0);
        (void)close(left[0]);
        lab_close(&lab);
    }
}

TEST(early_bytes_without_room)
{
    const struct relay_config none = {.max = 1, .pipes = 0, .idle_ms = 60000};
    static char data[1 << 20];
    struct lab lab;
    struct relay *r;
    struct err err = ERR_NONE;
    int left[2], right[2];

    lab_open(&lab, &none);
    pair_of(true, left);
    pair_of(true, right);
    CHECK_INT(relay_start(lab.hub, left[1], right[1], 7, on_end, &lab, &r, NULL), 0);
    CHECK_INT(relay_early(r, 0, "", 0, NULL), 0);
    (void)fcntl(left[1], F_SETFL, O_NONBLOCK);
    while (send(left[1], data, sizeof(data), MSG_DONTWAIT) > 0)
        continue;
    CHECK_INT(relay_early(r, 0, data, sizeof(data), &err), -EAGAIN);
    CHECK_STR(err.msg, "join connections: no pipe is left");
    relay_stop(r);
    CHECK_INT(lab.ended, 1);
    (void)close(left[0]);
    (void)close(right[0]);
    lab_close(&lab);
}

/* What is tuned before it is connected is never paced, whatever the host's choice is. */
TEST(local_sockets_are_not_paced)
{
    char name[16] = "";
    socklen_t len = sizeof(name);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 0;

    relay_tune_local(fd);
    CHECK_INT(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len), 0);
    CHECK_STR(name, "reno");
    len = sizeof(on);
    CHECK_INT(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &len), 0);
    CHECK_INT(on, 1);
    (void)close(fd);
}

/* A peer elsewhere may vanish without a word; what is reached by an address of the machine's own
 * that is not of its loopback counts as elsewhere. */
TEST(keep_alive_for_far_peers)
{
    struct ifaddrs *all = NULL, *a;
    int idle = 0, on = 0, fds[2], listener;
    socklen_t len = sizeof(on);
    struct sockaddr_in name;

    pair_of(true, fds);
    relay_tune(fds[1]);
    CHECK_INT(getsockopt(fds[1], SOL_SOCKET, SO_KEEPALIVE, &on, &len), 0);
    CHECK_INT(on, 0);
    (void)close(fds[0]);
    (void)close(fds[1]);
    CHECK_INT(getifaddrs(&all), 0);
    for (a = all; a != NULL; a = a->ifa_next)
        if (a->ifa_addr != NULL && a->ifa_addr->sa_family == AF_INET &&
            (a->ifa_flags & IFF_LOOPBACK) == 0)
            break;
    if (a == NULL) {
        freeifaddrs(all); /* a machine without a network */
        return;
    }
    (void)memcpy(&name, a->ifa_addr, sizeof(name));
    freeifaddrs(all);
    name.sin_port = 0;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    len = sizeof(name);
    CHECK_INT(bind(listener, (struct sockaddr *)&name, sizeof(name)), 0);
    CHECK_INT(listen(listener, 1), 0);
    CHECK_INT(getsockname(listener, (struct sockaddr *)&name, &len), 0);
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(connect(fds[0], (struct sockaddr *)&name, sizeof(name)), 0);
    fds[1] = accept(listener, NULL, NULL);
    relay_tune(fds[1]);
    len = sizeof(on);
    CHECK_INT(getsockopt(fds[1], SOL_SOCKET, SO_KEEPALIVE, &on, &len), 0);
    CHECK_INT(on, 1);
    CHECK_INT(getsockopt(fds[1], IPPROTO_TCP, TCP_KEEPIDLE, &idle, &len), 0);
    CHECK_INT(idle, RELAY_KEEPALIVE_S);
    (void)close(fds[0]);
    (void)close(fds[1]);
    (void)close(listener);
}

/* ---- ends ---- */

TEST(half_close_each_way)
{
    for (int k = 0; k < 8; k++) {
        struct lab lab;
        char c;
        int a, b, t;

        lab_open(&lab, NULL);
        join(&lab, (k & 1) != 0, (k & 2) != 0, &a, &b);
        if ((k & 4) != 0) {
            t = a;
            a = b;
            b = t;
        }
        CHECK_INT(send(a, "In", 2, 0), 2);
        (void)shutdown(a, SHUT_WR);
        expect_text(&lab, b, "In");
        CHECK_INT(read_soon(&lab, b, &c, 1), 0);
        CHECK_INT(lab.ended, 0);
        CHECK_INT(send(b, "Reply", 5, 0), 5); /* long after the other end */
        expect_text(&lab, a, "Reply");
        CHECK_INT(lab.ended, 0);
        (void)close(b);
        CHECK_INT(read_soon(&lab, a, &c, 1), 0);
        CHECK(until_ended(&lab, 1));
        CHECK_INT(lab.last.end, RELAY_FINISHED);
        (void)close(a);
        lab_close(&lab);
    }
}

static void reset(int fd)
{
    const struct linger now = {.l_onoff = 1, .l_linger = 0};

    assert(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)) == 0);
    (void)close(fd);
}

TEST(reset_is_passed_on)
{
    for (int k = 0; k < 2; k++) {
        struct lab lab;
        char c;
        int fds[2];

        lab_open(&lab, NULL);
        join(&lab, true, true, &fds[0], &fds[1]);
        CHECK_INT(send(fds[0], "x", 1, 0), 1);
        expect_text(&lab, fds[1], "x");
        reset(fds[k]);
        errno = 0;
        CHECK_INT(read_soon(&lab, fds[!k], &c, 1), -1);
        CHECK_INT(errno, ECONNRESET);
        CHECK(until_ended(&lab, 1));
        CHECK_INT(lab.last.end, RELAY_RESET);
        (void)close(fds[!k]);
        lab_close(&lab);
    }
}

/* Fills a direction until nobody takes any more. */
static size_t fill(struct lab *lab, int fd)
{
    static const char data[1 << 16];
    size_t total = 0;
    ssize_t n;
    int dry = 0;

    while (dry < 20) {
        n = send(fd, data, sizeof(data), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0)
            total += (size_t)n;
        dry = n > 0 ? 0 : dry + 1;
        turn(lab);
    }
    return total;
}

/* A server that answers, and closes with bytes that it has not read: its answer counts. */
TEST(what_was_sent_before_a_reset_arrives)
{
    static char said[30000], got[sizeof(said) + 1];

    (void)memset(said, 'x', sizeof(said));
    for (int k = 0; k < 4; k++) {
        const bool unread = (k & 1) != 0, tcp = (k & 2) != 0;
        struct lab lab;
        size_t len = 0;
        ssize_t n;
        int client, server;

        lab_open(&lab, NULL);
        join(&lab, tcp, true, &client, &server);
        if (unread)
            CHECK_INT(send(client, said, 1000, 0), 1000);
        CHECK_INT(send(server, said, sizeof(said), 0), sizeof(said));
        reset(server);
        while ((n = read_soon(&lab, client, got + len, sizeof(got) - len)) > 0)
            len += (size_t)n;
        CHECK_INT(len, sizeof(said));
        CHECK(memcmp(got, said, sizeof(said)) == 0);
        if (tcp)
            CHECK_INT(n, -1); /* and no clean end */
        CHECK(until_ended(&lab, 1));
        CHECK_INT(lab.last.end, RELAY_RESET);
        (void)close(client);
        lab_close(&lab);
    }
}

/* A reader that takes nothing: its sender waits, what is held is bounded; a reset comes through all
 * the same, from either side. */
TEST(reset_while_nothing_moves)
{
    for (int k = 0; k < 2; k++) {
        struct lab lab;
        int fds[2];

        lab_open(&lab, NULL);
        join(&lab, true, true, &fds[0], &fds[1]);
        CHECK(fill(&lab, fds[0]) > 0);
        CHECK(relay_pipes(lab.hub) <= 1);
        CHECK_INT(lab.ended, 0);
        reset(fds[k]);
        CHECK(until_ended(&lab, 1));
        CHECK_INT(lab.last.end, RELAY_RESET);
        (void)close(fds[!k]);
        lab_close(&lab);
    }
}

/* What a reader does not take stays with its sender, but for what one pipe and the two sockets
 * hold; and it all comes when the reader goes on. */
TEST(a_slow_reader_costs_one_pipe)
{
    enum {
        BOUND = 24 << 20 /* above the largest buffers of TCP here, by far below what is sent */
    };
    static char got[1 << 16];

    for (int k = 0; k < 4; k++) {
        struct lab lab;
        size_t sent, len = 0;
        ssize_t n;
        int a, b;

        lab_open(&lab, NULL);
        join(&lab, (k & 1) != 0, (k & 2) != 0, &a, &b);
        sent = fill(&lab, a);
        CHECK(sent > 0 && sent < BOUND);
        CHECK(relay_pipes(lab.hub) <= 1);
        (void)shutdown(a, SHUT_WR);
        while ((n = read_soon(&lab, b, got, sizeof(got))) > 0)
            len += (size_t)n;
        CHECK_INT(n, 0);
        CHECK_INT(len, sent);
        CHECK_INT(relay_pipes(lab.hub), 0);
        (void)close(b);
        CHECK(until_ended(&lab, 1));
        CHECK_INT(lab.last.end, RELAY_FINISHED);
        (void)close(a);
        lab_close(&lab);
    }
}

struct seen {
    struct fd_watch watch; /* first */
    unsigned calls, events;
};

static void on_watched(struct fd_watch *w, unsigned events)
{
    struct seen *s = (struct seen *)(void *)w;

    s->calls++;
    s->events |= events;
}

/* Where output was not asked for, room wakes nobody; where it is, the room that there is counts. */
TEST(room_is_told_of_when_asked)
{
    struct lab lab;
    struct seen seen = {.calls = 0};
    char c;
    int fds[2];

    lab_open(&lab, NULL);
    pair_of(false, fds);
    CHECK_INT(watch_add_input(lab.evloop, &seen.watch, fds[1], on_watched), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(send(fds[1], "x", 1, 0), 1);
        CHECK_INT(recv(fds[0], &c, 1, 0), 1);
        turn(&lab);
    }
    CHECK_INT(seen.calls, 0);
    CHECK_INT(send(fds[0], "y", 1, 0), 1);
    turn(&lab);
    CHECK_INT(seen.calls, 1);
    CHECK_INT(seen.events, EPOLLIN);
    CHECK_INT(watch_output(&seen.watch), 0);
    turn(&lab);
    CHECK_INT(seen.calls, 2);
    CHECK_INT(seen.events, EPOLLIN | EPOLLOUT);
    watch_remove(&seen.watch);
    (void)close(fds[0]);
    (void)close(fds[1]);
    lab_close(&lab);
}

/* A full direction does not stop the other one. */
TEST(directions_are_apart)
{
    struct lab lab;
    int a, b;

    lab_open(&lab, NULL);
    join(&lab, true, false, &a, &b);
    (void)fill(&lab, a);
    CHECK_INT(send(b, "still", 5, 0), 5);
    expect_text(&lab, a, "still");
    (void)shutdown(b, SHUT_WR);
    (void)close(a);
    (void)close(b);
    CHECK(until_ended(&lab, 1));
    lab_close(&lab);
}

TEST(closing_a_unix_socket_ends_it)
{
    struct lab lab;
    char c;
    int a, b;

    lab_open(&lab, NULL);
    join(&lab, false, false, &a, &b);
    CHECK_INT(send(a, "last words", 10, 0), 10);
    (void)close(a);
    expect_text(&lab, b, "last words");
    CHECK_INT(read_soon(&lab, b, &c, 1), 0);
    CHECK_INT(send(b, "y", 1, MSG_NOSIGNAL), 1); /* to nobody */
    CHECK(until_ended(&lab, 1));
    CHECK_INT(lab.last.end, RELAY_RESET);
    (void)close(b);
    lab_close(&lab);
}

/* ---- limits ---- */

TEST(idle_pairs_are_reset)
{
    const struct relay_config soon = {.max = 4, .pipes = 4, .idle_ms = 400};
    struct lab lab;
    double start;
    char c;
    int a, b;

    lab_open(&lab, &soon);
    join(&lab, true, true, &a, &b);
    start = now_ms();
    while (now_ms() - start < 600) { /* kept alive by what moves */
        CHECK_INT(send(a, "x", 1, MSG_NOSIGNAL), 1);
        CHECK_INT(read_soon(&lab, b, &c, 1), 1);
    }
    CHECK_INT(lab.ended, 0);
    CHECK(until_ended(&lab, 1));
    CHECK_INT(lab.last.end, RELAY_IDLE);
    CHECK_INT(read_soon(&lab, a, &c, 1), -1);
    (void)close(a);
    (void)close(b);
    lab_close(&lab);
}

static int send_room(int fd)
{
    int room = 0;
    socklen_t len = sizeof(room);

    assert(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, &len) == 0);
    return room;
}

/* A unix socket's queue does not grow by itself; TCP's does, unless somebody sets it. */
TEST(who_gets_much_gets_a_longer_queue)
{
    static char much[256 << 10];
    struct err err = ERR_NONE;
    struct lab lab;
    int left[2], right[2], unix_before, tcp_before;
    double end = now_ms() + DEADLINE_MS;
    size_t got[2] = {0, 0};

    lab_open(&lab, NULL);
    pair_of(false, left);
    pair_of(true, right);
    unix_before = send_room(left[1]);
    tcp_before = send_room(right[1]);
    CHECK_INT(relay_start(lab.hub, left[1], right[1], 7, on_end, &lab, NULL, &err), 0);
    CHECK_INT(send(right[0], "x", 1, 0), 1);
    expect_text(&lab, left[0], "x");
    CHECK_INT(send_room(left[1]), unix_before); /* not for little */
    while ((got[0] < 4 * sizeof(much) || got[1] < 4 * sizeof(much)) && now_ms() < end) {
        for (int i = 0; i < 2; i++) {
            int from = i == 0 ? left[0] : right[0], to = i == 0 ? right[0] : left[0];
            ssize_t n;

            (void)!send(from, much, sizeof(much), MSG_DONTWAIT | MSG_NOSIGNAL);
            turn(&lab);
            n = recv(to, much, sizeof(much), MSG_DONTWAIT);
            got[i] += n > 0 ? (size_t)n : 0;
        }
    }
    CHECK(got[0] >= 4 * sizeof(much) && got[1] >= 4 * sizeof(much));
    CHECK(send_room(left[1]) > unix_before);
    CHECK(send_room(left[1]) <= 1 << 20);
    CHECK(send_room(right[1]) >= tcp_before);
    (void)close(left[0]);
    (void)close(right[0]);
    CHECK(until_ended(&lab, 1));
    lab_close(&lab);
}

/* A timer for each segment costs more than all else that a relay does. */
TEST(nothing_is_paced_on_this_machine)
{
    char name[16] = "";
    socklen_t len = sizeof(name);
    int fds[2];

    pair_of(true, fds);
    relay_tune(fds[0]);
    CHECK_INT(getsockopt(fds[0], IPPROTO_TCP, TCP_CONGESTION, name, &len), 0);
    CHECK_STR(name, "reno");
    (void)close(fds[0]);
    (void)close(fds[1]);
    pair_of(false, fds);
    relay_tune(fds[0]); /* harmless */
    (void)close(fds[0]);
    (void)close(fds[1]);
}

TEST(limit_on_pairs)
{
    const struct relay_config two = {.max = 2, .pipes = 4, .idle_ms = 60000};
    struct err err = ERR_NONE;
    struct lab lab;
    int peers[4], fds[2];

    lab_open(&lab, &two);
    join(&lab, true, true, &peers[0], &peers[1]);
    join(&lab, true, true, &peers[2], &peers[3]);
    CHECK_INT(relay_count(lab.hub), 2);
    pair_of(false, fds);
    CHECK_INT(relay_start(lab.hub, fds[0], fds[1], 7, NULL, NULL, NULL, &err), -EAGAIN);
    CHECK_STR(err.msg, "limit maxGatewayConnections: 2 connections are open");
    CHECK_INT(send(fds[0], "z", 1, 0), 1); /* still ours */
    (void)close(fds[0]);
    (void)close(fds[1]);
    for (int i = 0; i < 4; i++)
        (void)close(peers[i]);
    CHECK(until_ended(&lab, 2));
    lab_close(&lab);
}

TEST(closing_the_hub_ends_all)
{
    struct lab lab;
    struct relay *r = NULL;
    struct err err = ERR_NONE;
    int a, b, left[2], right[2];

    lab_open(&lab, NULL);
    join(&lab, true, true, &a, &b);
    (void)fill(&lab, a);
    pair_of(true, left);
    pair_of(true, right);
    CHECK_INT(relay_start(lab.hub, left[1], right[1], 7, on_end, &lab, &r, &err), 0);
    relay_stop(r);
    CHECK_INT(lab.ended, 1);
    CHECK_INT(lab.last.end, RELAY_CLOSED);
    relay_hub_close(take(lab.hub));
    CHECK_INT(lab.ended, 2);
    assert(relay_hub_new(lab.evloop, NULL, &lab.hub, &err) == 0);
    (void)close(a);
    (void)close(b);
    (void)close(left[0]);
    (void)close(right[0]);
    lab_close(&lab);
}

TEST(a_group_is_ended_together)
{
    struct err err = ERR_NONE;
    struct lab lab;
    int peers[4], left[2], right[2];

    lab_open(&lab, NULL);
    join(&lab, true, true, &peers[0], &peers[1]);
    join(&lab, true, false, &peers[2], &peers[3]);
    pair_of(true, left);
    pair_of(true, right);
    CHECK_INT(relay_start(lab.hub, left[1], right[1], 8, on_end, &lab, NULL, &err), 0);
    relay_end_group(lab.hub, 7);
    CHECK_INT(lab.ended, 2);
    CHECK_INT(relay_count(lab.hub), 1);
    CHECK_INT(send(left[0], "x", 1, 0), 1);
    expect_text(&lab, right[0], "x");
    for (int i = 0; i < 4; i++)
        (void)close(peers[i]);
    (void)close(left[0]);
    (void)close(right[0]);
    CHECK(until_ended(&lab, 3));
    lab_close(&lab);
}

/* What a server said last arrives after its sandbox, and nobody holds that for long. */
TEST(one_that_outlasts_its_group)
{
    const struct relay_config config = {.max = 4, .pipes = 4, .idle_ms = 60000, .rest_ms = 300};
    struct err err = ERR_NONE;
    struct lab lab;
    struct relay *r = NULL;
    int left[2], right[2];
    double start;
    char c;

    lab_open(&lab, &config);
    pair_of(false, left);
    pair_of(true, right);
    CHECK_INT(relay_start(lab.hub, left[1], right[1], 7, on_end, &lab, &r, &err), 0);
    relay_outlasts(r);
    relay_end_group(lab.hub, 7);
    CHECK_INT(lab.ended, 0);
    for (start = now_ms(); now_ms() - start < 600;) { /* longer than the rest: while bytes move */
        CHECK_INT(send(right[0], "x", 1, MSG_NOSIGNAL), 1);
        CHECK_INT(read_soon(&lab, left[0], &c, 1), 1);
    }
    relay_end_group(lab.hub, 7); /* twice changes nothing */
    CHECK_INT(lab.ended, 0);
    CHECK(until_ended(&lab, 1));
    CHECK_INT(lab.last.end, RELAY_IDLE);
    (void)close(left[0]);
    (void)close(right[0]);
    lab_close(&lab);
}

/* Many at once, each with a little: pipes are there only while bytes do not fit. */
TEST(many_pairs)
{
    enum { PAIRS = 250 };
    static int a[PAIRS], b[PAIRS];
    struct lab lab;

    lab_open(&lab, NULL);
    for (int i = 0; i < PAIRS; i++)
        join(&lab, i % 2 == 0, i % 3 == 0, &a[i], &b[i]);
    for (int i = 0; i < PAIRS; i++)
        CHECK_INT(send(a[i], "ping", 4, 0), 4);
    turn(&lab);
    CHECK_INT(relay_pipes(lab.hub), 0);
    for (int i = 0; i < PAIRS; i++)
        expect_text(&lab, b[i], "ping");
    for (int i = 0; i < PAIRS; i++) {
        (void)close(a[i]);
        (void)close(b[i]);
    }
    CHECK(until_ended(&lab, PAIRS));
    CHECK_INT(relay_count(lab.hub), 0);
    lab_close(&lab);
}

TAP_MAIN
