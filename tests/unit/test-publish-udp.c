/*
 * Flows of a published UDP port, with a launcher that this test plays: its "inside" is the test's
 * own loopback, so the servers are sockets of the test.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/auto.h"
#include "base/err.h"
#include "launch/launcher.h"
#include "launch/request.h"
#include "ports/gateway.h"
#include "ports/publish-udp.h"
#include "sandbox/launcher-client.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/shared.h"
#include "tap.h"

enum { TURNS_MAX = 20000, PENDING_MAX = 4096 };

struct lab {
    uv_loop_t loop;
    struct supervisor sup;
    struct sandbox s;
    struct udp_port *port;
    int launcher;            /* the other end of the supervisor's launcher */
    struct sockaddr_in at;   /* the published port */
    int server4, server6;    /* at the sandbox's port; FD_NONE: nobody */
    unsigned asked4, asked6; /* sockets that were asked for */
    bool silent, refuse;     /* the launcher does not answer; says no */
};

static void on_gone(void *data)
{
    (void)data;
}

/* A socket of the loopback, bound to the port, or to any. */
static int bound(int family, uint16_t port, uint16_t *ret_port)
{
    struct sockaddr_in6 v6 = {
        .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT, .sin6_port = htons(port)};
    struct sockaddr_in v4 = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
    socklen_t len = sizeof(v4);

    if (family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
        CHECK_INT(bind(fd, (struct sockaddr *)&v6, sizeof(v6)), 0);
        return fd;
    }
    CHECK_INT(bind(fd, (struct sockaddr *)&v4, sizeof(v4)), 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)&v4, &len), 0);
    *ret_port = ntohs(v4.sin_port);
    return fd;
}

static void lab_open(struct lab *b)
{
    int pair[2], fd;
    uint16_t inside = 0, outside = 0;
    struct err err = ERR_NONE;

    *b = (struct lab){.server6 = FD_NONE};
    CHECK_INT(uv_loop_init(&b->loop), 0);
    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    b->launcher = pair[1];
    b->sup.loop = &b->loop;
    b->sup.limits = supervisor_limits_default();
    b->s.sup = &b->sup;
    (void)strcpy(b->s.id, "00000000000000a1");
    CHECK_INT(launcher_client_new(&b->loop, pair[0], PENDING_MAX, on_gone, NULL, &b->sup.launcher),
              0);
    CHECK_INT(gateway_new(&b->sup, NULL, &b->sup.gateway, &err), 0);
    b->server4 = bound(AF_INET, 0, &inside);
    fd = bound(AF_INET, 0, &outside);
    b->at = (struct sockaddr_in){.sin_family = AF_INET,
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                 .sin_port = htons(outside)};
    CHECK_INT(udp_port_new(&b->s, fd, inside, &b->port, &err), 0);
}

static void lab_close(struct lab *b)
{
    udp_port_close(b->port);
    launcher_client_close(b->sup.launcher);
    gateway_close(b->sup.gateway);
    (void)uv_run(&b->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&b->loop), 0);
    (void)close(b->launcher);
    if (b->server4 >= 0)
        (void)close(b->server4);
    if (b->server6 >= 0)
        (void)close(b->server6);
}

/* Plays the launcher: one request, if there is one. */
static bool answer(struct lab *b)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * 4)];
        struct cmsghdr align;
    } control;
    struct launch_reply reply = {.code = 0};
    char byte[64];
    struct iovec in = {.iov_base = byte, .iov_len = sizeof(byte)},
                 out = {.iov_base = &reply, .iov_len = sizeof(reply)};
    struct msghdr m = {.msg_iov = &in,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof(control.bytes)};
    struct launch_request q;
    static char text[1 << 16];
    int memfd, fd;
    ssize_t len;

    if (b->silent || recvmsg(b->launcher, &m, MSG_CMSG_CLOEXEC) <= 0)
        return false;
    CHECK(control.align.cmsg_type == SCM_RIGHTS);
    (void)memcpy(&memfd, CMSG_DATA(&control.align), sizeof(memfd));
    len = pread(memfd, text, sizeof(text), 0);
    (void)close(memfd);
    CHECK_INT(launch_decode(text, (size_t)len, &q, NULL), 0);
    CHECK_INT(q.verb, LAUNCH_CONNECT);
    CHECK(q.udp);
    b->asked4 += q.family == 4;
    b->asked6 += q.family == 6;
    fd = socket(q.family == 4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    reply.code = b->refuse ? -ESRCH : 0;
    m = (struct msghdr){.msg_iov = &out, .msg_iovlen = 1};
    if (!b->refuse) {
        m.msg_control = control.bytes;
        m.msg_controllen = CMSG_SPACE(sizeof(int));
        control.align.cmsg_level = SOL_SOCKET;
        control.align.cmsg_type = SCM_RIGHTS;
        control.align.cmsg_len = CMSG_LEN(sizeof(int));
        (void)memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
    }
    CHECK(sendmsg(b->launcher, &m, MSG_NOSIGNAL) == (ssize_t)sizeof(reply));
    (void)close(fd);
    return true;
}

static void turn(struct lab *b)
{
    (void)uv_run(&b->loop, UV_RUN_NOWAIT);
    if (!answer(b))
        (void)poll(NULL, 0, 1);
}

/* What comes to fd meanwhile; NULL peer: of no matter. */
static ssize_t receive(struct lab *b, int fd, char *text, size_t size, struct sockaddr_in6 *peer)
{
    socklen_t len = sizeof(*peer);

    for (int i = 0; i < TURNS_MAX; i++) {
        ssize_t n =
            recvfrom(fd, text, size, 0, (struct sockaddr *)peer, peer != NULL ? &len : NULL);

        if (n >= 0 || errno != EAGAIN)
            return n;
        turn(b);
    }
    return -ETIMEDOUT;
}

static bool quiet(struct lab *b, int fd)
{
    char byte;

    for (int i = 0; i < 20; i++)
        turn(b);
    return recv(fd, &byte, 1, MSG_PEEK) < 0 && errno == EAGAIN;
}

static int client(const struct lab *b)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    CHECK_INT(connect(fd, (const struct sockaddr *)&b->at, sizeof(b->at)), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    CHECK(send(fd, text, strlen(text), 0) == (ssize_t)strlen(text));
}

static void hear(struct lab *b, int fd, const char *text, struct sockaddr_in6 *peer)
{
    char got[128] = "";
    ssize_t n = receive(b, fd, got, sizeof(got) - 1, peer);

    CHECK_INT(n, (ssize_t)strlen(text));
    CHECK_STR(got, text);
}

static void reply_to(int server, const struct sockaddr_in6 *peer, const char *text)
{
    socklen_t len = peer->sin6_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(*peer);

    CHECK(sendto(server, text, strlen(text), 0, (const struct sockaddr *)peer, len) ==
          (ssize_t)strlen(text));
}

/* ---- what flows do ---- */

TEST(each_peer_has_its_own_answers)
{
    struct sockaddr_in6 peers[2];
    struct lab b;
    int fds[2];

    lab_open(&b);
    for (int i = 0; i < 2; i++) {
        fds[i] = client(&b);
        say(fds[i], i == 0 ? "one" : "two");
        hear(&b, b.server4, i == 0 ? "one" : "two", &peers[i]);
    }
    reply_to(b.server4, &peers[1], "to two");
    reply_to(b.server4, &peers[0], "to one");
    hear(&b, fds[1], "to two", NULL);
    hear(&b, fds[0], "to one", NULL);
    /* A peer that goes on has its socket already. */
    say(fds[0], "again");
    hear(&b, b.server4, "again", NULL);
    CHECK_INT(b.asked4, 2);
    CHECK_INT(b.asked6, 0);
    (void)close(fds[0]);
    (void)close(fds[1]);
    lab_close(&b);
}

TEST(empty_and_large_datagrams)
{
    static char large[UDP_SIZE_MAX], got[UDP_SIZE_MAX + 1];
    struct lab b;
    int fd, room = 1 << 20;

    lab_open(&b);
    fd = client(&b);
    (void)setsockopt(b.server4, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
    (void)memset(large, 'x', sizeof(large));
    say(fd, "");
    CHECK_INT(receive(&b, b.server4, got, sizeof(got), NULL), 0);
    CHECK(send(fd, large, sizeof(large), 0) == (ssize_t)sizeof(large));
    CHECK_INT(receive(&b, b.server4, got, sizeof(got), NULL), (ssize_t)sizeof(large));
    CHECK(memcmp(got, large, sizeof(large)) == 0);
    (void)close(fd);
    lab_close(&b);
}

TEST(what_waits_for_its_socket_is_bounded_and_in_order)
{
    char text[16];
    struct lab b;
    int fd;

    lab_open(&b);
    b.silent = true;
    fd = client(&b);
    for (int i = 0; i < UDP_HELD_MAX + 5; i++) {
        (void)snprintf(text, sizeof(text), "%d", i);
        say(fd, text);
    }
    CHECK(quiet(&b, b.server4));
    b.silent = false;
    for (int i = 0; i < UDP_HELD_MAX; i++) {
        (void)snprintf(text, sizeof(text), "%d", i);
        hear(&b, b.server4, text, NULL);
    }
    CHECK(quiet(&b, b.server4));
    CHECK_INT(b.asked4, 1);
    (void)close(fd);
    lab_close(&b);
}

TEST(nobody_at_the_first_address)
{
    struct sockaddr_in6 peer;
    struct sockaddr_in name;
    socklen_t len = sizeof(name);
    struct lab b;
    int fd;

    lab_open(&b);
    CHECK_INT(getsockname(b.server4, (struct sockaddr *)&name, &len), 0);
    (void)close(take_fd(&b.server4));
    b.server6 = bound(AF_INET6, ntohs(name.sin_port), NULL);
    fd = client(&b);
    say(fd, "first");
    hear(&b, b.server6, "first", &peer);
    CHECK_INT(peer.sin6_family, AF_INET6);
    reply_to(b.server6, &peer, "answer");
    hear(&b, fd, "answer", NULL);
    CHECK_INT(b.asked4, 1);
    CHECK_INT(b.asked6, 1);
    /* And nobody anywhere: the flow ends, and the next datagram begins another. */
    (void)close(take_fd(&b.server6));
    say(fd, "lost");
    for (int i = 0; i < TURNS_MAX && b.asked4 < 2; i++) {
        say(fd, "more");
        turn(&b);
    }
    CHECK(b.asked4 >= 2);
    (void)close(fd);
    lab_close(&b);
}

TEST(no_socket)
{
    struct lab b;
    int fd;

    lab_open(&b);
    b.refuse = true;
    fd = client(&b);
    say(fd, "lost");
    for (int i = 0; i < TURNS_MAX && b.asked4 == 0; i++)
        turn(&b);
    CHECK(quiet(&b, b.server4));
    b.refuse = false;
    say(fd, "found");
    hear(&b, b.server4, "found", NULL);
    CHECK_INT(b.asked4, 2);
    (void)close(fd);
    lab_close(&b);
}

/* Peers cost nothing but a flow here: while the launcher is silent, nothing more is asked of it. */
TEST(flows_of_a_port_are_bounded)
{
    static int fds[UDP_FLOWS_MAX + 20];
    struct lab b;

    lab_open(&b);
    b.silent = true;
    for (int i = 0; i < UDP_FLOWS_MAX + 20; i++) {
        fds[i] = client(&b);
        say(fds[i], "x");
        if (i % 32 == 0)
            (void)uv_run(&b.loop, UV_RUN_NOWAIT);
    }
    CHECK(quiet(&b, b.server4));
    b.silent = false;
    for (int i = 0; i < TURNS_MAX && b.asked4 < UDP_FLOWS_MAX; i++)
        turn(&b);
    CHECK(quiet(&b, b.launcher));
    CHECK_INT(b.asked4, UDP_FLOWS_MAX);
    for (int i = 0; i < UDP_FLOWS_MAX + 20; i++)
        (void)close(fds[i]);
    lab_close(&b);
}

/* Of all ports together: what is made for forged peers is not a port's worth for each of many. */
TEST(flows_of_all_ports_are_bounded)
{
    struct lab b;
    int fds[4];

    lab_open(&b);
    b.sup.limits.udp_flows = 3;
    for (int i = 0; i < 4; i++) {
        fds[i] = client(&b);
        say(fds[i], "x");
        if (i < 3)
            hear(&b, b.server4, "x", NULL);
    }
    CHECK(quiet(&b, b.server4));
    CHECK_INT(b.asked4, 3);
    CHECK_INT(b.sup.udp_flows, 3);
    CHECK(b.sup.udp_full);
    for (int i = 0; i < 4; i++)
        (void)close(fds[i]);
    udp_port_close(take(b.port));
    CHECK_INT(b.sup.udp_flows, 0);
    CHECK(!b.sup.udp_full);
    lab_close(&b);
}

/* Who says nothing is there all the same: nothing is kept for a second address after a while, and
 * never more than there may be. */
TEST(what_is_held_of_all_is_bounded)
{
    enum { PEERS = 20 };
    static char large[UDP_SIZE_MAX], got[UDP_SIZE_MAX];
    struct lab b;
    int fds[PEERS], room = 16 << 20;
    size_t most = 0;

    lab_open(&b);
    (void)setsockopt(b.server4, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
    for (int i = 0; i < PEERS; i++) {
        fds[i] = client(&b);
        say(fds[i], "x"); /* there is room for that */
        hear(&b, b.server4, "x", NULL);
        for (int k = 0; k < UDP_HELD_MAX; k++) {
            CHECK(send(fds[i], large, sizeof(large), 0) == (ssize_t)sizeof(large));
            CHECK_INT(receive(&b, b.server4, got, sizeof(got), NULL), (ssize_t)sizeof(large));
            most = b.sup.udp_held > most ? b.sup.udp_held : most;
        }
    }
    CHECK(most > UDP_HELD_BYTES / 2 && most <= UDP_HELD_BYTES);
    for (int i = 0; i < TURNS_MAX && b.sup.udp_held > 0; i++)
        turn(&b);
    CHECK_INT(b.sup.udp_held, 0);
    CHECK_INT(b.sup.udp_flows, PEERS); /* they live on */
    for (int i = 0; i < PEERS; i++)
        (void)close(fds[i]);
    lab_close(&b);
}

/* Answers that come for a port that is closed are for nobody. */
TEST(closed_while_the_launcher_is_asked)
{
    struct lab b;
    int fd;

    lab_open(&b);
    b.silent = true;
    fd = client(&b);
    say(fd, "x");
    CHECK(quiet(&b, b.server4));
    udp_port_close(take(b.port));
    b.silent = false;
    for (int i = 0; i < TURNS_MAX && b.asked4 == 0; i++)
        turn(&b);
    CHECK(quiet(&b, b.server4));
    CHECK_INT(b.asked4, 1);
    (void)close(fd);
    lab_close(&b);
}

TAP_MAIN
