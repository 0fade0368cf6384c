/* A descriptor on its way: for how long our end of the client's connection stays. */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/evloop.h"
#include "base/socket.h"
#include "gateway/fd-passing.h"
#include "tap.h"

static const char answer[] = "HTTP/1.1 101 Switching Protocols\r\n\r\n";

static struct {
    uv_loop_t loop;
    struct evloop *evloop;
    struct fd_passing_hub *hub;
    struct buf text;
    int ends; /* calls of on_end */
} S;

static void on_end(void *data)
{
    CHECK(data == &S);
    S.ends++;
}

static void turn(void)
{
    for (int i = 0; i < 4; i++)
        (void)uv_run(&S.loop, UV_RUN_NOWAIT);
}

static void begin(void)
{
    struct err err = ERR_NONE;

    (void)memset(&S, 0, sizeof(S));
    S.text = (struct buf)BUF_INIT(4096);
    CHECK_INT(buf_append_str(&S.text, answer), 0);
    CHECK_INT(uv_loop_init(&S.loop), 0);
    CHECK_INT(evloop_new(&S.loop, &S.evloop, &err), 0);
    CHECK_INT(fd_passing_hub_new(S.evloop, &S.hub), 0);
}

static void end(void)
{
    fd_passing_hub_close(S.hub);
    evloop_close(S.evloop);
    (void)uv_run(&S.loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&S.loop), 0);
    buf_done(&S.text);
}

/* The client's end, to which the descriptor goes. */
static int hand(int fd)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        abort();
    CHECK_INT(fd_passing_start(S.hub, pair[1], fd, &S.text, on_end, &S), 0);
    turn();
    return pair[0];
}

/* Bytes of the answer, at most as many, and the descriptor that came with them, or -1. */
static ssize_t receive(int fd, size_t most, int flags, int *ret)
{
    char text[512];
    union socket_fds room = {.bytes = {0}};
    struct iovec iov = {.iov_base = text, .iov_len = most};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = room.bytes,
                         .msg_controllen = sizeof(room.bytes)};
    ssize_t n = recvmsg(fd, &msg, flags | MSG_CMSG_CLOEXEC);

    *ret = -1;
    if (n > 0)
        CHECK(memcmp(text, answer, (size_t)n < 8 ? (size_t)n : 8) == 0);
    if (n > 0 && msg.msg_controllen >= CMSG_LEN(sizeof(int)))
        (void)memcpy(ret, CMSG_DATA(&room.first), sizeof(*ret));
    return n;
}

TEST(taken_with_the_first_byte)
{
    int ends[2], client, got;
    char c;

    begin();
    CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
    client = hand(ends[1]);
    (void)close(ends[1]);
    CHECK_INT(fd_passing_count(S.hub), 1);
    CHECK_INT(receive(client, 512, 0, &got), (int)strlen(answer));
    CHECK(got >= 0);
    CHECK_INT(write(got, "x", 1), 1);
    (void)close(got);
    CHECK_INT(read(ends[0], &c, 1), 1);
    CHECK_INT(read(ends[0], &c, 1), 0); /* nobody else has it */
    turn();
    CHECK_INT(S.ends, 1);
    CHECK_INT(fd_passing_count(S.hub), 0);
    CHECK_INT(recv(client, &c, 1, 0), 0);
    (void)close(client);
    (void)close(ends[0]);
    end();
    CHECK_INT(S.ends, 1);
}

static void say_nothing(int fd)
{
    (void)fd;
}

static void say_more(int fd)
{
    CHECK_INT(send(fd, "early", 5, 0), 5);
}

static void shut_one(int fd)
{
    CHECK_INT(shutdown(fd, SHUT_WR), 0);
}

static void shut_both(int fd)
{
    CHECK_INT(shutdown(fd, SHUT_RDWR), 0);
}

static void peek(int fd)
{
    int got;

    CHECK(receive(fd, 512, MSG_PEEK, &got) > 0);
    CHECK(got >= 0);
    (void)close(got);
}

static void take_a_part(int fd)
{
    int got;

    CHECK_INT(receive(fd, 5, 0, &got), 5);
    (void)close(got);
}

static void (*const deeds[])(int fd) = {say_nothing, say_more, shut_one,
                                        shut_both,   peek,     take_a_part};

/* Whatever the client does to its end, until it has read all or closed it. */
TEST(until_it_is_taken)
{
    for (size_t i = 0; i < sizeof(deeds) / sizeof(deeds[0]); i++)
        for (int takes = 0; takes <= 1; takes++) {
            int client, got = -1;

            begin();
            client = hand(STDIN_FILENO);
            deeds[i](client);
            turn();
            CHECK_INT(fd_passing_count(S.hub), 1);
            CHECK_INT(S.ends, 0);
            if (takes && deeds[i] == take_a_part)
                CHECK(recv(client, (char[512]){0}, 512, 0) > 0);
            else if (takes)
                CHECK(receive(client, 512, 0, &got) > 0 && got >= 0);
            else
                (void)close(client);
            turn();
            CHECK_INT(fd_passing_count(S.hub), 0);
            CHECK_INT(S.ends, 1);
            if (takes)
                (void)close(client);
            if (got >= 0)
                (void)close(got);
            end();
        }
}

TEST(ended_with_the_hub)
{
    int clients[3], got;

    begin();
    for (int i = 0; i < 3; i++)
        clients[i] = hand(STDIN_FILENO);
    (void)close(clients[1]);
    turn();
    CHECK_INT(fd_passing_count(S.hub), 2);
    end();
    CHECK_INT(S.ends, 3);
    CHECK(receive(clients[0], 512, 0, &got) > 0); /* what has gone has gone */
    CHECK(got >= 0);
    (void)close(got);
    (void)close(clients[0]);
    (void)close(clients[2]);
}

TEST(no_room)
{
    static const char much[64 << 10];
    int pair[2];

    begin();
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    while (send(pair[1], much, sizeof(much), 0) > 0 || send(pair[1], much, 1, 0) > 0)
        continue;
    CHECK_INT(fd_passing_start(S.hub, pair[1], STDIN_FILENO, &S.text, on_end, &S), -EAGAIN);
    (void)close(pair[0]);
    CHECK_INT(fd_passing_start(S.hub, pair[1], STDIN_FILENO, &S.text, on_end, &S), -EPIPE);
    CHECK_INT(fcntl(pair[1], F_GETFD), FD_CLOEXEC); /* still ours */
    (void)close(pair[1]);
    turn();
    CHECK_INT(fd_passing_count(S.hub), 0);
    end();
    CHECK_INT(S.ends, 0);
}

TAP_MAIN
