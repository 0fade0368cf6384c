/* The pool of sockets inside a sandbox, against a launcher that answers when the test says so. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <uv.h>

#include "base/auto.h"
#include "base/err.h"
#include "launch/launcher.h"
#include "launch/request.h"
#include "ports/net-socket.h"
#include "sandbox/launcher-client.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/shared.h"
#include "tap.h"

enum { PENDING_MAX = 64, WAITS = 40 };

struct world {
    uv_loop_t loop;
    int launcher; /* the other end */
    struct supervisor sup;
    struct sandbox s;
    unsigned fds; /* open at first */
};

/* What one who waits was told. */
struct told {
    struct net_socket_wait wait; /* first */
    unsigned times;
    int r; /* a socket is closed */
};

static unsigned open_count(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void world_open(struct world *w, unsigned spare)
{
    static int running;
    int pair[2];

    *w = (struct world){.sup = {.limits = {.spare_sockets = spare}},
                        .s = {.id = "a", .refs = 1, .channel = (struct channel *)(void *)&running}};
    w->s.sup = &w->sup;
    CHECK_INT(uv_loop_init(&w->loop), 0);
    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    w->launcher = pair[1];
    CHECK_INT(launcher_client_new(&w->loop, pair[0], PENDING_MAX, NULL, NULL, &w->sup.launcher), 0);
    w->fds = open_count();
}

static void world_close(struct world *w)
{
    net_sockets_free(&w->s);
    CHECK_INT(w->sup.spare_sockets, 0);
    CHECK_INT(w->s.refs, 1);
    CHECK_INT(open_count(), w->fds);
    launcher_client_close(w->sup.launcher);
    (void)close(w->launcher);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&w->loop), 0);
}

static void on_socket(struct net_socket_wait *w, int r, const struct err *err)
{
    struct told *t = (struct told *)(void *)w;

    CHECK_INT(r < 0, err != NULL);
    t->times++;
    t->r = r;
    if (r >= 0)
        (void)close(r);
}

static void wait_for(struct world *w, int family, enum net_socket_mark mark, struct told *t)
{
    struct err err = ERR_NONE;

    *t = (struct told){.times = 0};
    CHECK_INT(net_socket_wait(&w->s, family, mark, &t->wait, on_socket, &err), 0);
}

/* The next request that the launcher has: how many sockets it is for, 0: there is none. */
static unsigned asked(struct world *w, int family, enum net_socket_mark mark)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    char byte, data[4096];
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr hdr = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    struct launch_request q;
    struct err err = ERR_NONE;
    ssize_t n;
    int fd;

    if (recvmsg(w->launcher, &hdr, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != 1)
        return 0;
    (void)memcpy(&fd, CMSG_DATA(&control.align), sizeof(fd));
    n = pread(fd, data, sizeof(data), 0);
    (void)close(fd);
    CHECK(n > 0);
    CHECK_INT(launch_decode(data, n > 0 ? (size_t)n : 0, &q, &err), 0);
    CHECK_INT(q.verb, LAUNCH_CONNECT);
    CHECK_STR(q.id, "a");
    CHECK_INT(q.family, family);
    CHECK_INT(q.mark, mark == NET_SOCKET_MARKED);
    return q.count > 0 ? (unsigned)q.count : 1;
}

/* Its answer: this many sockets, or an error. */
static void answer(struct world *w, int r, unsigned count)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * LAUNCH_REPLY_FDS_MAX)];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    struct launch_reply reply = {.code = r, .message = "no"};
    struct iovec iov = {.iov_base = &reply, .iov_len = sizeof(reply)};
    struct msghdr hdr = {.msg_iov = &iov, .msg_iovlen = 1};
    int fds[LAUNCH_REPLY_FDS_MAX];

    for (unsigned i = 0; i < count; i++)
        fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (count > 0) {
        hdr.msg_control = control.bytes;
        hdr.msg_controllen = CMSG_SPACE(sizeof(int) * count);
        control.align.cmsg_level = SOL_SOCKET;
        control.align.cmsg_type = SCM_RIGHTS;
        control.align.cmsg_len = CMSG_LEN(sizeof(int) * count);
        (void)memcpy(CMSG_DATA(&control.align), fds, sizeof(int) * count);
    }
    CHECK_INT(sendmsg(w->launcher, &hdr, MSG_NOSIGNAL), sizeof(reply));
    for (unsigned i = 0; i < count; i++)
        (void)close(fds[i]);
    for (int i = 0; i < 3; i++)
        (void)uv_run(&w->loop, UV_RUN_NOWAIT);
}

/* A connection at a time until this many are ready. */
static void warm(struct world *w, int family, enum net_socket_mark mark, unsigned ready)
{
    struct told t;
    unsigned n;

    for (int i = 0; i < 100 && w->sup.spare_sockets < ready; i++) {
        int fd = net_socket_take(&w->s, family, mark);

        if (fd >= 0)
            (void)close(fd);
        else
            wait_for(w, family, mark, &t);
        while ((n = asked(w, family, mark)) > 0)
            answer(w, 0, n);
    }
    CHECK_INT(w->sup.spare_sockets, ready);
}

TEST(the_first_connection_leaves_none_and_more_do)
{
    struct world w;
    struct told t;

    world_open(&w, 100);
    CHECK_INT(net_socket_take(&w.s, 4, NET_SOCKET_PLAIN), FD_NONE);
    wait_for(&w, 4, NET_SOCKET_PLAIN, &t);
    CHECK_INT(asked(&w, 4, NET_SOCKET_PLAIN), 1);
    answer(&w, 0, 1);
    CHECK_INT(t.times, 1);
    CHECK(t.r >= 0);
    CHECK_INT(w.sup.spare_sockets, 0);
    warm(&w, 4, NET_SOCKET_PLAIN, NET_SOCKETS_READY);
    CHECK_INT(open_count(), w.fds + NET_SOCKETS_READY);
    world_close(&w);
}

TEST(a_class_has_nothing_of_another)
{
    struct world w;
    int fd;

    world_open(&w, 100);
    warm(&w, 4, NET_SOCKET_MARKED, 4);
    CHECK_INT(net_socket_take(&w.s, 4, NET_SOCKET_PLAIN), FD_NONE);
    CHECK_INT(net_socket_take(&w.s, 6, NET_SOCKET_MARKED), FD_NONE);
    CHECK_INT(net_socket_take(&w.s, 6, NET_SOCKET_PLAIN), FD_NONE);
    fd = net_socket_take(&w.s, 4, NET_SOCKET_MARKED);
    CHECK(fd >= 0);
    (void)close(fd);
    answer(&w, 0, asked(&w, 4, NET_SOCKET_MARKED)); /* as few were left */
    world_close(&w);
}

TEST(all_classes_of_all_sandboxes_have_one_bound)
{
    struct world w;
    struct sandbox other;
    struct told t;

    world_open(&w, 6);
    warm(&w, 4, NET_SOCKET_MARKED, 4);
    warm(&w, 6, NET_SOCKET_PLAIN, 6);
    other = (struct sandbox){.sup = &w.sup, .id = "a", .refs = 1, .channel = w.s.channel};
    for (int i = 0; i < 5; i++) { /* each gets its own, and none is kept */
        CHECK_INT(net_socket_take(&other, 4, NET_SOCKET_PLAIN), FD_NONE);
        t = (struct told){.times = 0};
        CHECK_INT(net_socket_wait(&other, 4, NET_SOCKET_PLAIN, &t.wait, on_socket, NULL), 0);
        CHECK_INT(asked(&w, 4, NET_SOCKET_PLAIN), 1);
        answer(&w, 0, LAUNCH_REPLY_FDS_MAX); /* more than that is no reason to keep them */
        CHECK_INT(t.times, 1);
        CHECK_INT(w.sup.spare_sockets, 6);
    }
    net_sockets_free(&other);
    CHECK_INT(other.refs, 1);
    world_close(&w);
}

TEST(who_waits_is_served_in_batches)
{
    struct world w;
    struct told t[WAITS];
    unsigned n, all = 0;

    world_open(&w, 0);
    for (int i = 0; i < WAITS; i++)
        wait_for(&w, 4, NET_SOCKET_MARKED, &t[i]);
    net_socket_forget(&t[7].wait);
    while ((n = asked(&w, 4, NET_SOCKET_MARKED)) > 0) {
        CHECK_INT(asked(&w, 4, NET_SOCKET_MARKED), 0); /* one request at a time */
        CHECK(n <= LAUNCH_REPLY_FDS_MAX);
        answer(&w, 0, n);
        all += n;
    }
    CHECK_INT(all, WAITS - 1);
    for (int i = 0; i < WAITS; i++)
        CHECK_INT(t[i].times, i != 7);
    world_close(&w);
}

/* Of the run before, or of rules that were taken off. */
static void late(void (*end)(struct sandbox *), enum net_socket_mark mark)
{
    struct world w;
    struct told before, after;
    unsigned n;

    world_open(&w, 100);
    warm(&w, 4, mark, 8);
    for (int i = 0; i < 8; i++)
        (void)close(net_socket_take(&w.s, 4, mark));
    wait_for(&w, 4, mark, &before);
    n = asked(&w, 4, mark);
    CHECK(n > 1);
    end(&w.s);
    net_socket_forget(&before.wait); /* as its connection does */
    CHECK_INT(w.sup.spare_sockets, 0);
    wait_for(&w, 4, mark, &after); /* of the next ones */
    CHECK_INT(asked(&w, 4, mark), 0);
    answer(&w, 0, n);
    CHECK_INT(before.times, 0);
    CHECK_INT(after.times, 0);
    CHECK_INT(w.sup.spare_sockets, 0);
    n = asked(&w, 4, mark);
    CHECK(n >= 1);
    answer(&w, 0, n);
    CHECK_INT(after.times, 1);
    CHECK(after.r >= 0);
    world_close(&w);
}

TEST(late_answers_are_of_no_use)
{
    late(net_sockets_close, NET_SOCKET_PLAIN);
    late(net_sockets_close, NET_SOCKET_MARKED);
    late(net_sockets_close_marked, NET_SOCKET_MARKED);
}

TEST(rules_that_go_take_the_marked_ones_alone)
{
    struct world w;

    world_open(&w, 100);
    warm(&w, 4, NET_SOCKET_MARKED, 8);
    warm(&w, 4, NET_SOCKET_PLAIN, 16);
    CHECK_INT(open_count(), w.fds + 16);
    net_sockets_close_marked(&w.s);
    CHECK_INT(w.sup.spare_sockets, 8);
    CHECK_INT(open_count(), w.fds + 8);
    CHECK_INT(net_socket_take(&w.s, 4, NET_SOCKET_MARKED), FD_NONE);
    world_close(&w);
}

TEST(failures_are_told)
{
    struct world w;
    struct told t[3];

    world_open(&w, 100);
    for (int i = 0; i < 2; i++)
        wait_for(&w, 6, NET_SOCKET_MARKED, &t[i]);
    CHECK_INT(asked(&w, 6, NET_SOCKET_MARKED), 1);
    answer(&w, -EAFNOSUPPORT, 0);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(t[i].times, 1);
        CHECK_INT(t[i].r, -EAFNOSUPPORT);
    }
    /* No room for many: one is tried before anybody is told. */
    for (int i = 0; i < 3; i++)
        wait_for(&w, 4, NET_SOCKET_PLAIN, &t[i]);
    CHECK_INT(asked(&w, 4, NET_SOCKET_PLAIN), 1);
    answer(&w, 0, 1);
    CHECK(asked(&w, 4, NET_SOCKET_PLAIN) > 1);
    answer(&w, -EMFILE, 0);
    CHECK_INT(t[1].times, 0);
    CHECK_INT(asked(&w, 4, NET_SOCKET_PLAIN), 1);
    answer(&w, -EMFILE, 0);
    CHECK_INT(t[1].r, -EMFILE);
    CHECK_INT(t[2].r, -EMFILE);
    /* No sandbox runs: nothing is kept. */
    w.s.channel = NULL;
    for (int i = 0; i < 5; i++) {
        wait_for(&w, 4, NET_SOCKET_MARKED, &t[0]);
        CHECK_INT(asked(&w, 4, NET_SOCKET_MARKED), 1);
        answer(&w, 0, LAUNCH_REPLY_FDS_MAX);
    }
    CHECK_INT(w.sup.spare_sockets, 0);
    world_close(&w);
}

TAP_MAIN
