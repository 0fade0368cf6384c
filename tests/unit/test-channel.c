/* The channel to an init that does not read: nothing is lost, and nothing grows without end. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/syscalls.h"
#include "sandbox/channel.h"
#include "sandbox/exec-request.h"
#include "tap.h"

struct world {
    uv_loop_t loop;
    int init; /* the other end */
    struct channel *channel;
    unsigned gone;
};

static void on_other(void *data, const struct imsg *msg)
{
    (void)data;
    (void)msg;
}

static void on_gone(void *data)
{
    ((struct world *)data)->gone++;
}

static const struct channel_ops ops = {.on_other = on_other, .on_gone = on_gone};

static void world_open(struct world *w)
{
    int pair[2];

    *w = (struct world){.gone = 0};
    CHECK_INT(uv_loop_init(&w->loop), 0);
    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    w->init = pair[1];
    CHECK_INT(
        channel_open(&w->loop, "lab", pair[0], sys_pidfd_open(getpid()), &ops, w, &w->channel), 0);
}

static void world_close(struct world *w)
{
    channel_close(w->channel);
    (void)close(w->init);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&w->loop), 0);
}

static struct imsg message(uint16_t type, uint64_t id, int value, uint32_t flags)
{
    return (struct imsg){.magic = IMSG_MAGIC,
                         .version = IMSG_VERSION,
                         .type = type,
                         .id = id,
                         .value = value,
                         .flags = flags};
}

/* Signals until no more are taken; how many were. */
static unsigned fill(struct world *w)
{
    unsigned n = 0;
    int r = 0;

    while (n < 100000) {
        const struct imsg msg = message(IMSG_SIGNAL, n, SIGUSR1, 0);

        r = channel_post(w->channel, &msg, NULL, 0);
        if (r < 0)
            break;
        n++;
    }
    CHECK_INT(r, -EAGAIN);
    return n;
}

/* The next message that init reads; false when none comes, however often the loop runs. */
static bool next(struct world *w, struct imsg *msg, int fds[IMSG_FDS_MAX], int *count)
{
    for (int i = 0; i < 3; i++) {
        if (channel_recv(w->init, MSG_DONTWAIT, msg, fds, count) == 1)
            return true;
        (void)uv_run(&w->loop, UV_RUN_NOWAIT);
    }
    return false;
}

TEST(in_order_and_bounded)
{
    int fds[IMSG_FDS_MAX], count = 0;
    struct world w;
    struct imsg msg;
    unsigned n, seen = 0;

    world_open(&w);
    n = fill(&w);
    CHECK(n > CHANNEL_QUEUE_MAX);
    for (; seen < n && next(&w, &msg, fds, &count); seen++)
        CHECK_INT(msg.id, seen);
    CHECK_INT(seen, n);
    CHECK(!next(&w, &msg, fds, &count));
    msg = message(IMSG_SIGNAL, 7, SIGTERM, 0);
    CHECK_INT(channel_post(w.channel, &msg, NULL, 0), 0); /* and goes on */
    CHECK(next(&w, &msg, fds, &count) && msg.value == SIGTERM);
    world_close(&w);
}

TEST(what_must_be_heard)
{
    int fds[IMSG_FDS_MAX], count = 0;
    const struct imsg kill_all = message(IMSG_SIGNAL, 5, SIGKILL, IMSG_WHOLE_EXEC);
    const struct imsg collect = message(IMSG_COLLECT, 5, 0, 0);
    const struct imsg ping = message(IMSG_PING, 5, 0, 0);
    struct world w;
    struct imsg msg;
    unsigned n;

    world_open(&w);
    n = fill(&w);
    for (int i = 0; i < 1000; i++) { /* said again and again, it waits once */
        CHECK_INT(channel_post(w.channel, &kill_all, NULL, 0), 0);
        CHECK_INT(channel_post(w.channel, &ping, NULL, 0), 0);
        CHECK_INT(channel_post(w.channel, &collect, NULL, 0), 0);
    }
    while (n-- > 0)
        CHECK(next(&w, &msg, fds, &count));
    CHECK(next(&w, &msg, fds, &count) && msg.type == IMSG_SIGNAL && msg.value == SIGKILL);
    CHECK(next(&w, &msg, fds, &count) && msg.type == IMSG_PING);
    CHECK(next(&w, &msg, fds, &count) && msg.type == IMSG_COLLECT);
    CHECK(!next(&w, &msg, fds, &count));
    world_close(&w);
}

TEST(descriptors_wait_too)
{
    const struct imsg exec = message(IMSG_EXEC, 9, 0, 0);
    int fds[IMSG_FDS_MAX], count = 0, ends[2], taken = 0;
    struct world w;
    struct imsg msg;
    char byte = 0;

    world_open(&w);
    while (taken < 100000) { /* the socket full, the queue empty */
        msg = message(IMSG_SIGNAL, 1, SIGUSR1, 0);
        CHECK_INT(channel_post(w.channel, &msg, NULL, 0), 0);
        if (channel_send(w.init, &msg, NULL, 0) < 0) /* as full as the other direction gets */
            break;
        taken++;
    }
    CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
    CHECK_INT(channel_post(w.channel, &exec, &ends[1], 1), 0);
    (void)close(ends[1]);
    while (next(&w, &msg, fds, &count) && msg.type != IMSG_EXEC)
        ;
    CHECK_INT(msg.type, IMSG_EXEC);
    CHECK_INT(count, 1);
    CHECK_INT(write(fds[0], "x", 1), 1);
    (void)close(fds[0]);
    CHECK_INT(read(ends[0], &byte, 1), 1);
    CHECK_INT(read(ends[0], &byte, 1), 0); /* no copy of it is open any more */
    (void)close(ends[0]);
    world_close(&w);
}

/* The kernel tells of what an init has not read in front of what it has said. */
TEST(the_last_words_of_an_init)
{
    const struct imsg out = message(IMSG_SIGNAL, 1, SIGUSR1, 0);
    const struct imsg last = message(IMSG_EXITED, 7, 3, 0);
    struct imsg msg;
    int fds[IMSG_FDS_MAX], count = 0, pair[2];

    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    CHECK(send(pair[0], &out, sizeof(out), 0) == (ssize_t)sizeof(out));
    CHECK(send(pair[1], &last, sizeof(last), 0) == (ssize_t)sizeof(last));
    (void)close(pair[1]);
    CHECK_INT(channel_recv(pair[0], MSG_DONTWAIT, &msg, fds, &count), 1);
    CHECK_INT((int)msg.id, 7);
    CHECK_INT(channel_recv(pair[0], MSG_DONTWAIT, &msg, fds, &count), 0);
    (void)close(pair[0]);
}

/* It is told once, and nothing that it says is taken for something else. */
TEST(an_init_of_another_version)
{
    struct world w;
    struct imsg msg = message(IMSG_EXITED, 7, 3, 0);
    struct channel_exec exec = {.id = 7}; /* without a callback: none is to come */

    world_open(&w);
    channel_add(w.channel, &exec);
    msg.version = IMSG_VERSION + 1;
    for (int i = 0; i < 2; i++)
        CHECK(send(w.init, &msg, sizeof(msg), 0) == (ssize_t)sizeof(msg));
    for (int i = 0; i < 3; i++)
        (void)uv_run(&w.loop, UV_RUN_NOWAIT);
    CHECK_INT(w.gone, 1);
    CHECK_INT(channel_post(w.channel, &msg, NULL, 0), -EPIPE);
    world_close(&w);
}

TEST(an_init_that_goes)
{
    const struct imsg exec = message(IMSG_EXEC, 9, 0, 0);
    int ends[2];
    struct world w;
    char byte;

    world_open(&w);
    CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
    for (int r = 0; r == 0;)
        r = channel_post(w.channel, &exec, &ends[1], 1);
    (void)close(ends[1]);
    (void)close(w.init);
    w.init = -1;
    for (int i = 0; i < 3; i++)
        (void)uv_run(&w.loop, UV_RUN_NOWAIT);
    CHECK_INT(w.gone, 1);
    CHECK_INT(channel_post(w.channel, &exec, NULL, 0), -EPIPE);
    CHECK_INT(read(ends[0], &byte, 1), 0); /* what waited is closed */
    (void)close(ends[0]);
    world_close(&w);
}

TAP_MAIN
