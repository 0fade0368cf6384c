/* init's relays: what a process writes reaches its reader, whatever the reader does, and the other
 * way. Here the test is both the process and the reader. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "init/exec-table.h"
#include "tap.h"

enum {
    ROUNDS = 1000, /* until nothing happens any more; each moves something */
    PIPE_SIZE = 64 << 10,
    WAIT_MS = 10000,
};

static struct table table;

/* Whether sockets keep the room that they have, as on a host that allows no more. */
static bool no_more_room;

int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
    if (no_more_room && level == SOL_SOCKET && name == SO_SNDBUF)
        return 0;
    return (int)syscall(SYS_setsockopt, fd, level, name, value, len);
}

struct rig {
    struct slot *slot;
    int process; /* the process's end of the pipe, or of the terminal */
    int reader;  /* the supervisor's end of the socket */
};

static void table_open(void)
{
    static struct init init;

    (void)memset(&table, 0, sizeof(table));
    table_init(&table, &init);
    table.epoll = epoll_create1(EPOLL_CLOEXEC);
    (void)signal(SIGPIPE, SIG_IGN);
}

static void rig_open(struct rig *g, enum relay_kind kind, unsigned stream)
{
    const bool input = kind == RELAY_INPUT;
    int ends[2], pair[2];

    if (pipe2(ends, O_CLOEXEC) < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        abort();
    g->slot = table_take(&table);
    g->slot->state = SLOT_RUNNING;
    g->process = ends[input ? 0 : 1];
    g->reader = pair[0];
    (void)fcntl(g->process, F_SETFL, O_NONBLOCK);
    CHECK_INT(relay_open(&table, g->slot, stream, kind, ends[input ? 1 : 0], pair[1], NULL), 0);
}

static void terminal_open(struct rig *g)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC), unlock = 0, pair[2];

    if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        abort();
    g->slot = table_take(&table);
    g->slot->state = SLOT_RUNNING;
    g->process = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    g->reader = pair[0];
    CHECK_INT(relay_open(&table, g->slot, 0, RELAY_TERMINAL, master, pair[1], NULL), 0);
}

static void rig_close(struct rig *g)
{
    if (g->process >= 0)
        (void)close(g->process);
    if (g->reader >= 0)
        (void)close(g->reader);
    table_release(&table, g->slot);
}

/* One round of the loop. Returns whether something happened. */
static bool serve_once(int wait_ms)
{
    struct epoll_event events[16];
    const int n = epoll_wait(table.epoll, events, 16, wait_ms);

    for (int i = 0; i < n; i++) {
        const uint64_t data = events[i].data.u64;
        struct slot *s = &table.slots[data >> 8 & 0xffff];

        if ((data & 15) == ABOUT_SINK)
            sink_drain(&table, (int)(data >> 8));
        else if (s->serial == (uint32_t)(data >> 32))
            relay_event(&table, s, data >> 4 & 3, (data & 15) == ABOUT_OUTER, events[i].events);
    }
    return n > 0;
}

/* Returns the number of rounds in which something happened: no relay may find something to do for
 * ever. */
static int serve(void)
{
    int rounds = 0;

    while (rounds < ROUNDS && serve_once(0))
        rounds++;
    return rounds;
}

/* Writes until it would wait; how much. */
static size_t fill(int fd)
{
    static char piece[4096];
    size_t total = 0;
    ssize_t n;

    while ((n = write(fd, piece, sizeof(piece))) > 0)
        total += (size_t)n;
    CHECK(n < 0 && errno == EAGAIN);
    return total;
}

/* Reads until it would wait, or ends (*ret_end); how much. */
static size_t drain(int fd, bool *ret_end)
{
    static char piece[65536];
    size_t total = 0;
    ssize_t n;

    while ((n = read(fd, piece, sizeof(piece))) > 0)
        total += (size_t)n;
    *ret_end = n == 0;
    return total;
}

static int events_of(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) > 0 ? p.revents : 0;
}

/* A terminal hands on what is written to it when a thread of the kernel's has moved it. */
static void serve_until(int fd)
{
    for (int i = 0; i < ROUNDS && (events_of(fd) & (POLLIN | POLLHUP)) == 0; i++)
        if (!serve_once(WAIT_MS))
            break;
}

TEST(output_and_its_end)
{
    struct rig g;
    char text[8] = "";
    bool end;

    table_open();
    rig_open(&g, RELAY_OUTPUT, 1);
    CHECK_INT(serve(), 0);
    CHECK_INT(write(g.process, "hello", 5), 5);
    CHECK(serve() < 3);
    CHECK_INT(read(g.reader, text, sizeof(text)), 5);
    CHECK_STR(text, "hello");
    (void)close(g.process);
    g.process = -1;
    CHECK(serve() < 3);
    CHECK_INT(drain(g.reader, &end), 0);
    CHECK(end);
    CHECK(slot_is_quiet(g.slot));
    rig_close(&g);
}

TEST(a_reader_that_waits_makes_the_process_wait)
{
    struct rig g;
    size_t written = 0, got = 0, n;
    bool end;

    table_open();
    rig_open(&g, RELAY_OUTPUT, 2);
    do {
        n = fill(g.process);
        written += n;
        CHECK(serve() < ROUNDS);
    } while (n > 0 && written < 100 << 20);
    CHECK(written < 4 << 20);
    CHECK_INT(serve(), 0); /* and init waits, too */
    do {
        n = drain(g.reader, &end);
        got += n;
        CHECK(serve() < ROUNDS);
    } while (n > 0);
    CHECK_INT(got, written);
    CHECK(fill(g.process) > 0);
    rig_close(&g);
}

TEST(a_reader_that_goes)
{
    struct rig g;

    table_open();
    for (int way = 0; way < 2; way++) {
        rig_open(&g, RELAY_OUTPUT, 1);
        if (way == 0) {
            (void)close(g.reader);
            g.reader = -1;
        } else {
            (void)shutdown(g.reader, SHUT_RDWR); /* others may have a duplicate of it */
        }
        CHECK(serve() < 3);
        CHECK(slot_is_quiet(g.slot));
        CHECK_INT(events_of(g.process) & POLLERR, POLLERR); /* at once, not at its next write */
        rig_close(&g);
    }
}

TEST(the_end_of_the_process)
{
    struct rig g;
    bool end;

    table_open();
    /* What it has written comes, and then the end, though another process has the pipe, too. */
    rig_open(&g, RELAY_OUTPUT, 1);
    CHECK_INT(write(g.process, "last", 4), 4);
    relay_finish(&table, g.slot, 1);
    CHECK(slot_is_quiet(g.slot));
    CHECK_INT(drain(g.reader, &end), 4);
    CHECK(end);
    /* The other process goes on, and is heard by nobody. */
    for (int i = 0; i < 5; i++) {
        CHECK(fill(g.process) >= PIPE_SIZE / 2);
        CHECK(serve() < ROUNDS);
    }
    CHECK_INT(table.sink_count, 1);
    (void)close(g.process);
    g.process = -1;
    CHECK(serve() < 3);
    CHECK_INT(table.sink_count, 0);
    rig_close(&g);
    /* A pipe that no other process has is no sink. */
    rig_open(&g, RELAY_OUTPUT, 1);
    (void)close(g.process);
    g.process = -1;
    relay_finish(&table, g.slot, 1);
    CHECK_INT(table.sink_count, 0);
    rig_close(&g);
}

/* A reader that takes nothing: a whole pipe finds room at the end all the same. */
TEST(what_finds_room_at_the_end)
{
    struct rig g;
    size_t written;
    bool end = false;

    table_open();
    rig_open(&g, RELAY_OUTPUT, 1);
    written = fill(g.process);
    while (serve() > 0)
        written += fill(g.process);
    relay_finish(&table, g.slot, 1);
    CHECK(slot_is_quiet(g.slot));
    CHECK_INT(drain(g.reader, &end), written);
    CHECK(end);
    rig_close(&g);
}

TEST(what_finds_no_room_at_the_end)
{
    struct rig g;
    size_t written, got = 0, n;
    bool end = false;

    table_open();
    rig_open(&g, RELAY_OUTPUT, 1);
    written = fill(g.process);
    while (serve() > 0)
        written += fill(g.process);
    no_more_room = true;
    relay_finish(&table, g.slot, 1);
    no_more_room = false;
    CHECK(!slot_is_quiet(g.slot));
    CHECK_INT(serve(), 0);
    do {
        n = drain(g.reader, &end);
        got += n;
        CHECK(serve() < ROUNDS);
    } while (!end && n > 0);
    CHECK_INT(got, written);
    CHECK(end);
    CHECK(slot_is_quiet(g.slot));
    rig_close(&g);
}

TEST(many_that_go_on)
{
    struct rig g[SINKS_MAX + 1];

    table_open();
    for (int i = 0; i <= SINKS_MAX; i++) {
        rig_open(&g[i], RELAY_OUTPUT, 1);
        relay_finish(&table, g[i].slot, 1);
    }
    CHECK_INT(table.sink_count, SINKS_MAX);
    CHECK_INT(write(g[0].process, "x", 1), -1); /* the oldest has made room */
    CHECK_INT(write(g[1].process, "x", 1), 1);
    for (int i = 0; i <= SINKS_MAX; i++)
        rig_close(&g[i]);
    CHECK(serve() < ROUNDS);
    CHECK_INT(table.sink_count, 0);
}

TEST(input_and_its_end)
{
    struct rig g;
    size_t written = 0, got = 0, n;
    bool end;

    table_open();
    rig_open(&g, RELAY_INPUT, 0);
    CHECK_INT(serve(), 0);
    do {
        n = fill(g.reader);
        written += n;
        CHECK(serve() < ROUNDS);
    } while (n > 0);
    CHECK_INT(serve(), 0); /* the process does not read: init waits, and so does the writer */
    (void)shutdown(g.reader, SHUT_RDWR);
    CHECK_INT(serve(), 0);
    do {
        n = drain(g.process, &end);
        got += n;
        CHECK(serve() < ROUNDS);
    } while (!end && n > 0);
    CHECK_INT(got, written);
    CHECK(end);
    CHECK(slot_is_quiet(g.slot));
    rig_close(&g);
}

TEST(a_process_that_closes_its_input)
{
    struct rig g;

    table_open();
    rig_open(&g, RELAY_INPUT, 0);
    (void)close(g.process);
    g.process = -1;
    CHECK(serve() < 3);
    CHECK(slot_is_quiet(g.slot));
    CHECK_INT(write(g.reader, "x", 1), -1);
    rig_close(&g);
}

TEST(a_terminal)
{
    struct winsize size = {.ws_row = 0};
    struct rig g;
    char text[64] = "";
    bool end;

    table_open();
    terminal_open(&g);
    CHECK_INT(serve(), 0);
    CHECK_INT(write(g.process, "out\n", 4), 4);
    serve_until(g.reader);
    CHECK_INT(read(g.reader, text, sizeof(text)), 5);
    CHECK(memcmp(text, "out\r\n", 5) == 0);
    CHECK_INT(write(g.reader, "typed\n", 6), 6);
    serve_until(g.process);
    CHECK_INT(read(g.process, text, sizeof(text)), 6);
    CHECK(memcmp(text, "typed\n", 6) == 0);
    relay_resize(&g.slot->relays[0], 33, 77);
    CHECK_INT(ioctl(g.process, TIOCGWINSZ, &size), 0);
    CHECK_INT(size.ws_row, 33);
    CHECK_INT(size.ws_col, 77);
    /* A reader that types no more reads on. */
    (void)drain(g.reader, &end); /* the echo of what was typed */
    (void)shutdown(g.reader, SHUT_WR);
    CHECK(serve() < ROUNDS);
    CHECK_INT(serve(), 0);
    CHECK_INT(write(g.process, "more\n", 5), 5);
    serve_until(g.reader);
    CHECK(drain(g.reader, &end) > 0);
    CHECK(!end);
    /* The end of its last process. */
    (void)close(g.process);
    g.process = -1;
    while (!slot_is_quiet(g.slot) && serve_once(WAIT_MS))
        continue;
    (void)drain(g.reader, &end);
    CHECK(end);
    CHECK(slot_is_quiet(g.slot));
    rig_close(&g);
}

TEST(a_terminal_whose_reader_goes)
{
    struct rig g;

    table_open();
    terminal_open(&g);
    (void)close(g.reader);
    g.reader = -1;
    CHECK(serve() < 3);
    CHECK(slot_is_quiet(g.slot));
    CHECK_INT(events_of(g.process) & POLLHUP, POLLHUP); /* it has hung up */
    rig_close(&g);
}

TEST(a_terminal_that_is_full)
{
    struct rig g;
    size_t typed, taken = 0, n;
    bool end;

    table_open();
    terminal_open(&g);
    typed = 0;
    for (int i = 0; i < 3000; i++) /* lines: without, it would take no more than one */
        typed += write(g.reader, "0123456789\n", 11) == 11 ? 11 : 0;
    CHECK(serve() < ROUNDS);
    while (taken < typed) {
        serve_until(g.process);
        n = drain(g.process, &end);
        if (n == 0)
            break;
        taken += n;
    }
    CHECK_INT(taken, typed);
    rig_close(&g);
}

TAP_MAIN
