/* What goes to init and comes back: the request's layout, messages that are not right, descriptors
 * that init may not hand out; and init's own end of the wire. */

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "init/init.h"
#include "policy/policy.h"
#include "proto/plan.h"
#include "sandbox/exec-request.h"
#include "tap.h"

/* ---- the request ---- */

TEST(the_layout_on_the_wire_is_fixed)
{
    static const char want[] = "cmd\0\0arg\0A=1\0B=\0user\0/cwd\0g\00010";
    char a0[] = "cmd", a1[] = "", a2[] = "arg", e0[] = "A=1", e1[] = "B=", g0[] = "g", g1[] = "10";
    char *const argv[] = {a0, a1, a2, NULL}, *const envp[] = {e0, e1, NULL},
                *const groups[] = {g0, g1, NULL};
    const struct rlimit_value limits[] = {{7, 10, 20}, {4, 0, UINT64_MAX}};
    const struct exec_spec spec = {.argv = argv,
                                   .envp = envp,
                                   .user = "user",
                                   .cwd = "/cwd",
                                   .groups = groups,
                                   .rlimits = limits,
                                   .rlimit_count = 2};
    const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    struct plan_rlimit rlimits[2];
    struct err err = ERR_NONE;
    auto_close int fd = exec_request(&spec, &err);
    struct exec_header h;
    char strings[64];
    struct stat st;

    CHECK(fd >= 0 && fstat(fd, &st) == 0);
    CHECK_INT(fcntl(fd, F_GET_SEALS), seals);
    CHECK_INT(fcntl(fd, F_GETFD), FD_CLOEXEC);
    CHECK_INT(pread(fd, &h, sizeof(h), 0), sizeof(h));
    CHECK_INT(h.magic, EXEC_MAGIC);
    CHECK_INT(h.size, st.st_size);
    CHECK_INT(h.argc, 3);
    CHECK_INT(h.envc, 2);
    CHECK_INT(h.rlimit_count, 2);
    CHECK_INT(h.group_count, 2);
    CHECK_INT(pread(fd, rlimits, sizeof(rlimits), sizeof(h)), sizeof(rlimits));
    CHECK(rlimits[0].resource == 7 && rlimits[0].soft == 10 && rlimits[0].hard == 20);
    CHECK(rlimits[1].resource == 4 && rlimits[1].hard == UINT64_MAX);
    CHECK_INT(pread(fd, strings, sizeof(strings), sizeof(h) + sizeof(rlimits)), sizeof(want));
    CHECK(memcmp(strings, want, sizeof(want)) == 0);
}

TEST(too_large)
{
    char *huge = calloc(1, EXEC_SIZE_MAX + 1);
    char **many = calloc(EXEC_STRINGS_MAX + 2, sizeof(*many));
    char empty[] = "", *const none[] = {NULL};
    struct exec_spec spec = {.envp = none, .user = "", .cwd = "/"};
    struct err err = ERR_NONE;
    int fd;

    if (huge == NULL || many == NULL)
        abort();
    (void)memset(huge, 'a', EXEC_SIZE_MAX);
    char *const one[] = {huge, NULL};
    spec.argv = one;
    CHECK_INT(exec_request(&spec, &err), -E2BIG);
    CHECK_STR(err.msg, "arguments and environment are larger than 4194304 bytes");

    for (size_t i = 0; i < EXEC_STRINGS_MAX; i++)
        many[i] = empty;
    spec.argv = many;
    fd = exec_request(&spec, &err);
    CHECK(fd >= 0);
    (void)close(fd);
    many[EXEC_STRINGS_MAX] = empty;
    CHECK_INT(exec_request(&spec, &err), -E2BIG);
    free(many);
    free(huge);
}

TEST(steps_have_names)
{
    for (uint32_t i = 1; i < EXEC_STEP_MAX; i++)
        CHECK(strcmp(exec_step_name(i), "do something unknown") != 0);
    CHECK_STR(exec_step_name(0), "do something unknown");
    CHECK_STR(exec_step_name(EXEC_STEP_MAX), "do something unknown");
    CHECK_STR(exec_step_name(UINT32_MAX), "do something unknown");
}

/* ---- the wire ---- */

static int pair[2];

static void open_pair(void)
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        abort();
}

static void close_pair(void)
{
    (void)close(pair[0]);
    (void)close(pair[1]);
}

static unsigned open_count(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void send_raw(const void *data, size_t len, int fd_count)
{
    static union {
        char bytes[CMSG_SPACE(sizeof(int) * 253)];
        struct cmsghdr first;
    } control;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (fd_count > 0) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)fd_count);
        control.first = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                                         .cmsg_type = SCM_RIGHTS,
                                         .cmsg_len = CMSG_LEN(sizeof(int) * (size_t)fd_count)};
        (void)memset(CMSG_DATA(&control.first), 0, sizeof(int) * (size_t)fd_count); /* stdin */
    }
    if (sendmsg(pair[0], &msg, MSG_NOSIGNAL) < 0)
        abort();
}

static const struct imsg good = {
    .magic = IMSG_MAGIC, .version = IMSG_VERSION, .type = IMSG_EXITED, .id = 5};

/* Every way to say something wrong costs nothing but the message. */
static void check_channel(const void *data, size_t len, int fd_count, int want)
{
    unsigned before = open_count();
    int fds[IMSG_FDS_MAX], count = 0;
    struct imsg msg;

    send_raw(data, len, fd_count);
    CHECK_INT(channel_recv(pair[1], MSG_DONTWAIT, &msg, fds, &count), want);
    if (want == 1) {
        CHECK_INT(count, fd_count);
        for (int i = 0; i < count; i++)
            CHECK_INT(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
        for (int i = 0; i < count; i++)
            (void)close(fds[i]);
    } else {
        CHECK_INT(count, 0);
    }
    CHECK_INT(open_count(), before);
}

TEST(a_channel_carries_a_request)
{
    struct imsg other = good;
    char big[2 * sizeof(struct imsg)] = {0};
    int fds[IMSG_FDS_MAX], count = 0;
    struct imsg msg;

    open_pair();
    CHECK_INT(channel_recv(pair[1], MSG_DONTWAIT, &msg, fds, &count), -EAGAIN);
    for (int n = 0; n <= IMSG_FDS_MAX; n++)
        check_channel(&good, sizeof(good), n, 1);
    check_channel(&good, sizeof(good), IMSG_FDS_MAX + 1, -EPROTO);
    check_channel(&good, sizeof(good), 250, -EPROTO);
    check_channel(&good, sizeof(good) - 1, 2, -EPROTO);
    check_channel(&good, 1, 0, -EPROTO);
    (void)memcpy(big, &good, sizeof(good));
    check_channel(big, sizeof(big), 1, -EPROTO);
    other.magic = 0;
    check_channel(&other, sizeof(other), 3, -EPROTO);
    other = good;
    other.version = IMSG_VERSION + 1;
    check_channel(&other, sizeof(other), 3, -EPROTONOSUPPORT);
    check_channel(&other, IMSG_FIXED, 0, -EPROTONOSUPPORT);
    check_channel(&other, IMSG_FIXED - 1, 0, -EPROTO);
    check_channel(&good, 0, 1, 0);            /* no bytes: the end, as its reader sees it */
    check_channel(&good, sizeof(good), 1, 1); /* and none of that has spoiled the socket */
    (void)close(pair[0]);
    CHECK_INT(channel_recv(pair[1], 0, &msg, fds, &count), 0);
    CHECK_INT(channel_send(pair[1], &good, NULL, 0), -EPIPE);
    (void)close(pair[1]);
}

/* With a full table the message itself still counts, and nothing stays open of what came. */
TEST(channel_without_room_for_descriptors)
{
    int fds[IMSG_FDS_MAX], count = 0, full[64], n = 0;
    struct rlimit old, low;
    struct imsg msg;
    unsigned before;

    open_pair();
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = (struct rlimit){.rlim_cur = 40, .rlim_max = old.rlim_max};
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &low), 0);
    send_raw(&good, sizeof(good), 3);
    while (n < 64 && (full[n] = dup(0)) >= 0)
        n++;
    (void)close(full[--n]); /* room for one of the three */
    before = open_count();
    CHECK_INT(channel_recv(pair[1], MSG_DONTWAIT, &msg, fds, &count), 1);
    CHECK_INT(count, -EMFILE);
    CHECK_INT(msg.id, good.id);
    CHECK_INT(open_count(), before);
    while (n > 0)
        (void)close(full[--n]);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &old), 0);
    close_pair();
}

TEST(channel_sends_what_the_wire_receives)
{
    const int send[IMSG_FDS_MAX] = {0, 1, 2, 0, 1, 2, 0, 1};
    int fds[IMSG_FDS_MAX], count = 0;
    struct imsg msg;

    open_pair();
    for (int n = 0; n <= IMSG_FDS_MAX; n++) {
        CHECK_INT(channel_send(pair[0], &good, send, n), 0);
        CHECK_INT(wire_recv(pair[1], &msg, sizeof(msg), fds, IMSG_FDS_MAX, &count), sizeof(msg));
        CHECK_INT(count, n);
        for (int i = 0; i < count; i++)
            (void)close(fds[i]);
        CHECK(memcmp(&msg, &good, sizeof(msg)) == 0);
    }
    close_pair();
}

static void check_wire(const void *data, size_t len, int fd_count, int fd_max, int want)
{
    unsigned before = open_count();
    int fds[8], count = 0;
    struct imsg msg;

    send_raw(data, len, fd_count);
    CHECK_INT(wire_recv(pair[1], &msg, sizeof(msg), fds, fd_max, &count), want);
    for (int i = 0; want > 0 && i < count; i++) {
        CHECK_INT(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
        (void)close(fds[i]);
    }
    CHECK_INT(open_count(), before);
}

TEST(a_request_round_trips)
{
    char big[2 * sizeof(struct imsg)] = {0};
    const int nine[9] = {0};

    open_pair();
    check_wire(&good, sizeof(good), 0, 0, sizeof(good));
    check_wire(&good, sizeof(good), 3, 3, sizeof(good));
    check_wire(&good, 8, 1, 1, 8); /* its reader looks at the length */
    check_wire(&good, sizeof(good), 1, 0, -EPROTO);
    check_wire(&good, sizeof(good), 4, 3, -EPROTO);
    check_wire(&good, sizeof(good), 8, 3, -EPROTO);
    check_wire(&good, sizeof(good), 100, 3, -EPROTO);
    check_wire(&good, sizeof(good), 100, 8, -EPROTO);
    check_wire(big, sizeof(big), 2, 3, -EPROTO);
    check_wire(&good, 0, 2, 3, 0);
    CHECK_INT(wire_send(pair[0], &good, sizeof(good), nine, 9), -E2BIG);
    (void)close(pair[1]);
    CHECK_INT(wire_send(pair[0], &good, sizeof(good), nine, 1), -EPIPE);
    (void)close(pair[0]);
    CHECK_INT(wire_send(pair[0], &good, sizeof(good), NULL, 0), -EBADF);
}

/* ---- descriptors ---- */

/* A terminal's master, or -1: some build machines have none. */
static int open_master(void)
{
    return open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
}

TEST(descriptors_that_init_may_hand_out)
{
    int p[2], s[2], messages[2];

    if (pipe2(p, O_CLOEXEC) < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s) < 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, messages) < 0)
        abort();

    const struct {
        const char *what;
        int fd;
        bool ok;
    } rows[] = {
        {"stream socket", s[0], true},
        {"its other end", s[1], true},
        {"socket of messages", messages[0], false},
        {"its other end", messages[1], false},
        {"TCP socket", socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), false},
        {"read end of a pipe", p[0], false},
        {"write end of a pipe", p[1], false},
        {"pty master", open_master(), false},
        {"file", open("/proc/self/exe", O_RDONLY | O_CLOEXEC), false},
        {"directory", open("/", O_RDONLY | O_CLOEXEC), false},
        {"device", open("/dev/null", O_RDWR | O_CLOEXEC), false},
        {"memfd", memfd_create("x", MFD_CLOEXEC), false},
        {"eventfd", eventfd(0, EFD_CLOEXEC), false},
        {"epoll", epoll_create1(EPOLL_CLOEXEC), false},
        {"none", -1, false},
        {"closed", 1000, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (channel_socket_ok(rows[i].fd) != rows[i].ok)
            tap_fail("%s", rows[i].what);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].fd >= 0)
            (void)close(rows[i].fd);
}

/* ---- sockets ---- */

TEST(sockets_of_each_form)
{
    const struct {
        uint32_t flags;
        bool has[3];
    } rows[] = {
        {0, {false, true, true}},
        {IMSG_STDIN, {true, true, true}},
        {IMSG_COMBINED, {false, true, false}},
        {IMSG_STDIN | IMSG_COMBINED, {true, true, false}},
        {IMSG_TTY, {true, false, false}},
        {IMSG_TTY | IMSG_STDIN, {true, false, false}},
        {IMSG_LOGGED, {false, false, false}},
        {IMSG_LOGGED | IMSG_STDIN, {true, false, false}},
    };
    const unsigned before = open_count();

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct stdio_sockets s;
        int fds[IMSG_FDS_MAX], count;
        char byte = 0;

        CHECK_INT(stdio_sockets_make(rows[i].flags, &s), 0);
        count = stdio_sockets_add(&s, rows[i].flags, fds, 2);
        CHECK_INT(count, 2 + imsg_streams(rows[i].flags));
        CHECK_INT(stdio_sockets_add(&s, rows[i].flags | IMSG_PARK, fds, 2),
                  2 + 2 * imsg_streams(rows[i].flags));
        for (int k = 0, next = 2; k < 3; k++) {
            CHECK_INT(s.ours[k] >= 0, rows[i].has[k]);
            CHECK_INT(s.inits[k] >= 0, rows[i].has[k]);
            if (!rows[i].has[k])
                continue;
            CHECK_INT(fds[next], s.inits[k]);
            CHECK_INT(fds[next + imsg_streams(rows[i].flags)], s.ours[k]);
            next++;
            CHECK_INT(read(s.ours[k], &byte, 1), -1); /* it does not wait */
            CHECK_INT(write(s.inits[k], "x", 1), 1);
            CHECK_INT(read(s.ours[k], &byte, 1), 1);
        }
        stdio_sockets_close(&s);
        stdio_sockets_close(&s);
    }
    CHECK_INT(open_count(), before);
}

TAP_MAIN
