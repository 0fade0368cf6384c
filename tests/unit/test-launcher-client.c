/* The supervisor's side of the launcher's socket, against a launcher that is slow, or gone. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "launch/launcher.h"
#include "launch/request.h"
#include "sandbox/launcher-client.h"
#include "tap.h"

enum { PENDING_MAX = 8192, MANY = 1000 };

struct world {
    uv_loop_t loop;
    int launcher; /* the other end */
    struct launcher_client *client;
    unsigned answers, canceled, gone, gone_at;
};

static void on_gone(void *data)
{
    struct world *w = data;

    w->gone++;
    w->gone_at = w->answers + w->canceled;
}

static void world_open(struct world *w)
{
    int pair[2];

    *w = (struct world){.gone = 0};
    CHECK_INT(uv_loop_init(&w->loop), 0);
    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    w->launcher = pair[1];
    CHECK_INT(launcher_client_new(&w->loop, pair[0], PENDING_MAX, on_gone, w, &w->client), 0);
}

static void world_close(struct world *w)
{
    launcher_client_close(w->client);
    if (w->launcher >= 0)
        (void)close(w->launcher);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&w->loop), 0);
}

static void on_answer(void *data, int r, const struct launch_reply *reply, int fds[2],
                      const struct err *err)
{
    struct world *w = data;

    (void)fds;
    (void)err;
    if (r == 0 && reply != NULL) {
        CHECK_INT(reply->pid, w->answers); /* in order */
        w->answers++;
    } else {
        w->canceled++;
    }
}

static int ask(struct world *w)
{
    auto_buf struct buf b = BUF_INIT(0);

    launch_begin(&b, LAUNCH_LIST);
    CHECK_INT(launch_end(&b), 0);
    return launcher_client_send(w->client, &b, on_answer, w, NULL);
}

static unsigned open_count(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < 4096; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* One request is taken off the socket, its memfd looked at and closed. */
static bool serve_one(struct world *w, unsigned number)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    char byte;
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr hdr = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    struct launch_reply reply = {.pid = (int)number};
    int fd;

    if (recvmsg(w->launcher, &hdr, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != 1)
        return false;
    (void)memcpy(&fd, CMSG_DATA(&control.align), sizeof(fd));
    CHECK(lseek(fd, 0, SEEK_END) > 0);
    (void)close(fd);
    CHECK_INT(send(w->launcher, &reply, sizeof(reply), MSG_NOSIGNAL), sizeof(reply));
    return true;
}

TEST(more_than_a_socket_holds)
{
    struct world w;
    unsigned before, served = 0;

    world_open(&w);
    before = open_count();
    for (int i = 0; i < MANY; i++)
        CHECK_INT(ask(&w), 0);
    CHECK(open_count() > before); /* some wait here */
    for (int idle = 0; served < MANY && idle < 10;) {
        if (serve_one(&w, served)) {
            served++;
            idle = 0;
        } else {
            idle++;
        }
        (void)uv_run(&w.loop, UV_RUN_NOWAIT);
    }
    CHECK_INT(served, MANY);
    CHECK_INT(w.answers, MANY);
    CHECK_INT(open_count(), before);
    world_close(&w);
    CHECK_INT(w.canceled, 0);
}

TEST(requests_that_wait_are_bounded)
{
    struct world w;
    unsigned n = 0;
    int r;

    world_open(&w);
    do
        r = ask(&w);
    while (r == 0 && ++n < 2 * PENDING_MAX);
    CHECK(r == -EAGAIN || r == -EMFILE);
    world_close(&w);
    CHECK_INT(w.canceled, n);
}

/* Who is told of the launcher's end is told first: nobody takes an answer for what has happened. */
TEST(a_launcher_that_goes)
{
    struct world w;
    unsigned before;

    world_open(&w);
    before = open_count();
    for (int i = 0; i < MANY; i++)
        CHECK_INT(ask(&w), 0);
    (void)close(w.launcher);
    w.launcher = -1;
    for (int i = 0; i < 3; i++)
        (void)uv_run(&w.loop, UV_RUN_NOWAIT);
    CHECK_INT(w.gone, 1);
    CHECK_INT(w.gone_at, 0);
    CHECK_INT(w.canceled, MANY);
    CHECK_INT(open_count(), before - 1);
    CHECK_INT(ask(&w), -EPIPE);
    world_close(&w);
}

TAP_MAIN
