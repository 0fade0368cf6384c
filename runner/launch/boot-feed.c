/*
 * Checks the messages of a starting init, one at a time. Has no side effects except reading the
 * plan's text, so the launcher, unit tests and a fuzzer share it. Runs in the launcher; called by
 * boot.c.
 *
 * Init runs the launcher's own program, but among a hostile image's files. So each message is
 * validated before it is used, and the number of messages is bounded.
 */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "launch/sandbox.h"
#include "proto/init-msg.h"

enum {
    /* Each stage is announced once; INIT_STAGE_PROC comes between two INIT_STAGE_MOUNTS. */
    BOOT_MESSAGES_MAX = 2 * INIT_STAGE_MAX,
    ERRNO_MAX = 4095, /* MAX_ERRNO of the kernel */
};

static const char *const stage_names[INIT_STAGE_MAX] = {
    [INIT_STAGE_PLAN] = "read the set-up plan",
    [INIT_STAGE_PRIVATE] = "make mounts private",
    [INIT_STAGE_CGROUP_NS] = "unshare the cgroup namespace",
    [INIT_STAGE_LOOPBACK] = "bring the loopback interface up",
    [INIT_STAGE_HOSTNAME] = "set the host name",
    [INIT_STAGE_INNER] = "clone the inner pid namespace",
    [INIT_STAGE_PROC] = "mount /proc",
    [INIT_STAGE_MOUNTS] = "mount",
    [INIT_STAGE_PIVOT] = "change the root",
    [INIT_STAGE_ENTER_PID] = "enter the inner pid namespace",
    [INIT_STAGE_LOCK] = "unshare the locked user and mount namespace",
    [INIT_STAGE_INNER_LOCK] = "lock the inner process's namespaces",
    [INIT_STAGE_PTS] = "open /dev/pts",
    [INIT_STAGE_SECCOMP] = "install the seccomp floor",
    [INIT_STAGE_LOOP] = "become ready",
    [INIT_STAGE_CGROUP_ENTER] = "enter its cgroups",
    [INIT_STAGE_NAMESPACES] = "unshare the network, ipc and uts namespaces",
    [INIT_STAGE_BOUNDING] = "drop capabilities",
    [INIT_STAGE_ADMIN] = "make a network for the sandbox to administer",
};

const char *boot_stage_name(uint32_t stage)
{
    return stage > INIT_STAGE_INVALID && stage < INIT_STAGE_MAX ? stage_names[stage]
                                                                : "an unknown step";
}

static int boot_failed(const struct boot *b, const struct imsg *msg, struct err *err)
{
    int error = msg->error > 0 && msg->error <= ERRNO_MAX ? msg->error : EIO;
    char what[256];

    if (msg->step == INIT_STAGE_MOUNTS) {
        plan_describe(b->plan_fd, msg->value, what, sizeof(what));
        return err_errno(err, -error, "start sandbox: %s", what);
    }
    if (msg->step == INIT_STAGE_INNER && error == EAGAIN)
        return err_set(err, -error,
                       "start sandbox: no process left (is the pids limit too low to start one?)");
    return err_errno(err, -error, "start sandbox: %s", boot_stage_name(msg->step));
}

static int boot_unexpected(const struct boot *b, unsigned type, struct err *err)
{
    return err_set(err, -EPROTO, "start sandbox: unexpected message %u after '%s'", type,
                   boot_stage_name(b->stage));
}

int boot_stage(struct boot *b, uint32_t stage, struct err *err)
{
    if (stage <= INIT_STAGE_INVALID || stage >= INIT_STAGE_MAX)
        return boot_unexpected(b, IMSG_STAGE, err);
    b->stage = stage;
    return BOOT_MORE;
}

int boot_feed(struct boot *b, const void *data, size_t len, struct err *err)
{
    struct imsg msg;

    if (len != sizeof(msg))
        return err_set(err, -EPROTO, "start sandbox: a message of %zu bytes after '%s'", len,
                       boot_stage_name(b->stage));
    (void)memcpy(&msg, data, sizeof(msg));
    if (msg.magic != IMSG_MAGIC || msg.version != IMSG_VERSION)
        return err_set(err, -EPROTO, "start sandbox: a message of another protocol after '%s'",
                       boot_stage_name(b->stage));
    if (++b->messages > BOOT_MESSAGES_MAX)
        return err_set(err, -EPROTO, "start sandbox: too many messages after '%s'",
                       boot_stage_name(b->stage));

    switch (msg.type) {
    case IMSG_STAGE:
        return boot_stage(b, msg.step, err);
    case IMSG_FAIL:
        return boot_failed(b, &msg, err);
    case IMSG_READY:
        return b->stage == INIT_STAGE_INNER_LOCK ? BOOT_READY : boot_unexpected(b, msg.type, err);
    default:
        return boot_unexpected(b, msg.type, err);
    }
}
