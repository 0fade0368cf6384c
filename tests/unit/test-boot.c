/* The launcher's side of the start: what init says, fed message by message. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "launch/sandbox.h"
#include "proto/init-msg.h"
#include "proto/syscalls.h"
#include "tap.h"

static struct imsg say(uint16_t type, uint32_t step, int value, int error)
{
    return (struct imsg){.magic = IMSG_MAGIC,
                         .version = IMSG_VERSION,
                         .type = type,
                         .step = step,
                         .value = value,
                         .error = error};
}

static int feed(struct boot *b, struct imsg msg, struct err *err)
{
    return boot_feed(b, &msg, sizeof(msg), err);
}

TEST(a_good_start)
{
    struct boot b = BOOT_INIT(-1);
    struct err err = ERR_NONE;

    for (uint32_t stage = INIT_STAGE_PLAN; stage <= INIT_STAGE_INNER_LOCK; stage++)
        CHECK_INT(feed(&b, say(IMSG_STAGE, stage, 0, 0), &err), BOOT_MORE);
    CHECK_INT(feed(&b, say(IMSG_READY, 0, 0, 0), &err), BOOT_READY);
    CHECK_STR(err.msg, "");
}

TEST(every_stage_has_a_name)
{
    for (uint32_t stage = INIT_STAGE_PLAN; stage < INIT_STAGE_MAX; stage++) {
        struct boot b = BOOT_INIT(-1);
        struct err err = ERR_NONE;
        char want[160];

        if (stage == INIT_STAGE_MOUNTS)
            continue;
        CHECK(strcmp(boot_stage_name(stage), "an unknown step") != 0);
        CHECK_INT(feed(&b, say(IMSG_FAIL, stage, 0, EBUSY), &err), -EBUSY);
        (void)snprintf(want, sizeof(want), "start sandbox: %s: Device or resource busy",
                       boot_stage_name(stage));
        CHECK_STR(err.msg, want);
    }
    CHECK_STR(boot_stage_name(0), "an unknown step");
    CHECK_STR(boot_stage_name(INIT_STAGE_MAX), "an unknown step");
    CHECK_STR(boot_stage_name(UINT32_MAX), "an unknown step");
}

/* clang-format off */
static const struct {
    uint16_t type;
    uint32_t step;
    int value, error;
    int code;
    const char *text;
} rows[] = {
    {IMSG_FAIL, INIT_STAGE_MOUNTS, 7, ENOENT, -ENOENT, "start sandbox: set up operation 7: No such file or directory"},
    {IMSG_FAIL, INIT_STAGE_MOUNTS, -1, ENOENT, -ENOENT, "start sandbox: set up operation -1: No such file or directory"},
    {IMSG_FAIL, UINT32_MAX, 0, EPERM, -EPERM, "start sandbox: an unknown step: Operation not permitted"},
    {IMSG_FAIL, INIT_STAGE_PIVOT, 0, 0, -EIO, "start sandbox: change the root: Input/output error"},
    {IMSG_FAIL, INIT_STAGE_PIVOT, 0, -EPERM, -EIO, "start sandbox: change the root: Input/output error"},
    {IMSG_FAIL, INIT_STAGE_PIVOT, 0, 4096, -EIO, "start sandbox: change the root: Input/output error"},
    {IMSG_FAIL, INIT_STAGE_PIVOT, 0, INT32_MIN, -EIO, "start sandbox: change the root: Input/output error"},
    {IMSG_READY, 0, 0, 0, -EPROTO, "start sandbox: unexpected message 66 after 'read the set-up plan'"},
    {IMSG_STAGE, 0, 0, 0, -EPROTO, "start sandbox: unexpected message 64 after 'read the set-up plan'"},
    {IMSG_STAGE, INIT_STAGE_MAX, 0, 0, -EPROTO, "start sandbox: unexpected message 64 after 'read the set-up plan'"},
    {IMSG_GO, 0, 0, 0, -EPROTO, "start sandbox: unexpected message 1 after 'read the set-up plan'"},
    {IMSG_STARTED, 0, 0, 0, -EPROTO, "start sandbox: unexpected message 67 after 'read the set-up plan'"},
    {IMSG_INVALID, 0, 0, 0, -EPROTO, "start sandbox: unexpected message 0 after 'read the set-up plan'"},
    {UINT16_MAX, 0, 0, 0, -EPROTO, "start sandbox: unexpected message 65535 after 'read the set-up plan'"},
};
/* clang-format on */

TEST(messages_out_of_order_are_refused)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct boot b = BOOT_INIT(-1);
        struct err err = ERR_NONE;

        CHECK_INT(feed(&b, say(rows[i].type, rows[i].step, rows[i].value, rows[i].error), &err),
                  rows[i].code);
        CHECK_STR(err.msg, rows[i].text);
    }
}

/* Ready is who has locked everything, not who says so. */
TEST(ready_too_early)
{
    for (uint32_t stage = INIT_STAGE_PLAN; stage < INIT_STAGE_INNER_LOCK; stage++) {
        struct boot b = BOOT_INIT(-1);
        struct err err = ERR_NONE;

        CHECK_INT(feed(&b, say(IMSG_STAGE, stage, 0, 0), &err), BOOT_MORE);
        CHECK_INT(feed(&b, say(IMSG_READY, 0, 0, 0), &err), -EPROTO);
    }
}

TEST(other_protocols)
{
    struct boot b = BOOT_INIT(-1);
    struct imsg msg = say(IMSG_STAGE, INIT_STAGE_PIVOT, 0, 0);
    struct err err = ERR_NONE;

    CHECK_INT(boot_feed(&b, &msg, sizeof(msg) - 1, &err), -EPROTO);
    CHECK_STR(err.msg, "start sandbox: a message of 39 bytes after 'read the set-up plan'");
    CHECK_INT(boot_feed(&b, &msg, sizeof(msg) + 1, &err), -EPROTO);
    msg.magic++;
    CHECK_INT(feed(&b, msg, &err), -EPROTO);
    CHECK_STR(err.msg, "start sandbox: a message of another protocol after 'read the set-up plan'");
    msg.magic--;
    msg.version++;
    CHECK_INT(feed(&b, msg, &err), -EPROTO);
}

TEST(no_end_of_stages)
{
    struct boot b = BOOT_INIT(-1);
    struct err err = ERR_NONE;
    int n = 0;

    while (n < 1000 && feed(&b, say(IMSG_STAGE, INIT_STAGE_LOCK, 0, 0), &err) == BOOT_MORE)
        n++;
    CHECK_INT(n, 2 * INIT_STAGE_MAX);
    CHECK_STR(err.msg, "start sandbox: too many messages after 'unshare the locked user and mount "
                       "namespace'");
}

/* ---- with a process at the other end ---- */

enum { WAITS, DIES, KILLED };

/* A process that is no init. What it says was said before. */
static pid_t stranger(int how, struct launch_sandbox *s)
{
    pid_t pid = fork();

    if (pid == 0) {
        (void)sys_close_range(3, ~0U, 0); /* the socket too: it hangs up */
        if (how == KILLED)
            (void)raise(SIGKILL);
        for (;;) {
            if (how == DIES)
                _exit(7);
            (void)pause();
        }
    }
    *s = (struct launch_sandbox){.pid = pid, .pidfd = sys_pidfd_open(pid)};
    return pid;
}

static int follow_with(int how, int stages, const void *data, size_t len, struct err *err)
{
    struct launch_sandbox s;
    int pair[2], r;
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        abort();
    pid = stranger(how, &s);
    if (data != NULL && send(pair[1], data, len, MSG_NOSIGNAL) < 0)
        abort();
    (void)close(pair[1]);
    r = boot_follow(&s, &(struct boot_ends){.control = pair[0], .stages = stages}, -1, err);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    (void)close(pair[0]);
    (void)close(s.pidfd);
    return r;
}

static int follow(int how, const void *data, size_t len, struct err *err)
{
    return follow_with(how, -1, data, len, err);
}

/* What comes by the pipe before it ends. */
static int follow_stages(const uint32_t *words, size_t count, const struct imsg *msg,
                         struct err *err)
{
    int ends[2], r;

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        abort();
    for (size_t i = 0; i < count; i++)
        (void)!write(ends[1], &words[i], sizeof(words[i]));
    r = follow_with(DIES, ends[0], msg, msg != NULL ? sizeof(*msg) : 0, err);
    (void)close(ends[0]);
    (void)close(ends[1]);
    return r;
}

TEST(each_stage_is_remembered)
{
    static const uint32_t usual[] = {INIT_STAGE_PRIVATE, INIT_STAGE_MOUNTS, INIT_STAGE_PROC},
                          whole[] = {INIT_STAGE_LOCK, INIT_STAGE_INNER_LOCK},
                          bad[] = {INIT_STAGE_MOUNTS, INIT_STAGE_MAX}, zero[] = {0};
    static uint32_t flood[20000];
    struct imsg ready = say(IMSG_READY, INIT_STAGE_LOOP, 0, 0);
    struct err err = ERR_NONE;

    CHECK_INT(follow_stages(usual, 3, NULL, &err), -ECHILD);
    CHECK_STR(err.msg, "start sandbox: died during 'mount /proc' with exit status 7");
    CHECK_INT(follow_stages(NULL, 0, NULL, &err), -ECHILD);
    CHECK_STR(err.msg, "start sandbox: died during 'read the set-up plan' with exit status 7");
    CHECK_INT(follow_stages(whole, 2, &ready, &err), 0);
    CHECK_INT(follow_stages(usual, 3, &ready, &err), -EPROTO); /* not before its last stage */
    CHECK_INT(follow_stages(bad, 2, NULL, &err), -EPROTO);
    CHECK_STR(err.msg, "start sandbox: unexpected message 64 after 'mount'");
    CHECK_INT(follow_stages(zero, 1, &ready, &err), -EPROTO);
    for (size_t i = 0; i < sizeof(flood) / sizeof(flood[0]); i++)
        flood[i] = i < 1000 ? INIT_STAGE_MOUNTS : INIT_STAGE_INNER_LOCK;
    CHECK_INT(follow_stages(flood, sizeof(flood) / sizeof(flood[0]), &ready, &err), -EPROTO);
}

TEST(how_it_ended)
{
    struct imsg stage = say(IMSG_STAGE, INIT_STAGE_PIVOT, 0, 0);
    struct err err = ERR_NONE;
    struct timespec before, after;

    CHECK_INT(follow(DIES, &stage, sizeof(stage), &err), -ECHILD);
    CHECK_STR(err.msg, "start sandbox: died during 'change the root' with exit status 7");
    CHECK_INT(follow(KILLED, NULL, 0, &err), -ECHILD);
    CHECK_STR(err.msg, "start sandbox: killed by signal 9 during 'read the set-up plan' (is the "
                       "memory limit too low to start a process?)");
    /* One that hangs up and lives on does not hold the launcher. */
    (void)clock_gettime(CLOCK_MONOTONIC, &before);
    CHECK_INT(follow(WAITS, NULL, 0, &err), -EPROTO);
    CHECK_STR(err.msg, "start sandbox: hung up during 'read the set-up plan'");
    CHECK_INT(follow(WAITS, "", 0, &err), -EPROTO); /* a message of no bytes is an end, too */
    (void)clock_gettime(CLOCK_MONOTONIC, &after);
    CHECK(after.tv_sec - before.tv_sec < 20);
}

TEST(long_messages)
{
    static char big[100000];
    struct imsg stage = say(IMSG_STAGE, INIT_STAGE_PIVOT, 0, 0);
    struct err err = ERR_NONE;

    (void)memcpy(big, &stage, sizeof(stage));
    CHECK_INT(follow(WAITS, big, sizeof(big), &err), -EPROTO);
    CHECK_STR(err.msg, "start sandbox: a message of 100000 bytes after 'read the set-up plan'");
}

TEST(too_many_descriptors)
{
    static const int fds[300];
    struct err err = ERR_NONE;

    CHECK_INT(boot_go(-1, fds, 254, &err), -E2BIG);
    CHECK_STR(err.msg, "too many mounts");
}

TAP_MAIN
