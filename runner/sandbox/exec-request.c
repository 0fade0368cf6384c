#include "sandbox/exec-request.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/socket.h"
#include "policy/policy.h"
#include "proto/plan.h"

static uint32_t strings_count(char *const *list)
{
    uint32_t n = 0;

    while (list != NULL && list[n] != NULL)
        n++;
    return n;
}

static int request_append_strings(struct buf *b, char *const *list)
{
    int r = 0;

    for (; r == 0 && list != NULL && *list != NULL; list++)
        r = buf_append(b, *list, strlen(*list) + 1);
    return r;
}

static int request_append_rlimits(struct buf *b, const struct exec_spec *spec)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < spec->rlimit_count; i++) {
        const struct plan_rlimit limit = {.resource = (uint32_t)spec->rlimits[i].resource,
                                          .soft = spec->rlimits[i].soft,
                                          .hard = spec->rlimits[i].hard};

        r = buf_append(b, &limit, sizeof(limit));
    }
    return r;
}

int exec_request(const struct exec_spec *spec, struct err *err)
{
    auto_buf struct buf b = BUF_INIT(EXEC_SIZE_MAX);
    struct exec_header h = {.magic = EXEC_MAGIC,
                            .argc = strings_count(spec->argv),
                            .envc = strings_count(spec->envp),
                            .rlimit_count = (uint32_t)spec->rlimit_count,
                            .group_count = strings_count(spec->groups)};
    int r;

    r = buf_append(&b, &h, sizeof(h));
    if (r == 0)
        r = request_append_rlimits(&b, spec);
    if (r == 0)
        r = request_append_strings(&b, spec->argv);
    if (r == 0)
        r = request_append_strings(&b, spec->envp);
    if (r == 0)
        r = buf_append(&b, spec->user, strlen(spec->user) + 1);
    if (r == 0)
        r = buf_append(&b, spec->cwd, strlen(spec->cwd) + 1);
    if (r == 0)
        r = request_append_strings(&b, spec->groups);
    if (r < 0 || h.argc > EXEC_STRINGS_MAX || h.envc > EXEC_STRINGS_MAX)
        return err_set(err, -E2BIG, "arguments and environment are larger than %d bytes",
                       EXEC_SIZE_MAX);
    h.size = (uint32_t)b.len;
    (void)memcpy(b.data, &h, sizeof(h));
    r = memfd_sealed("rind-exec", b.data, b.len);
    return r < 0 ? err_errno(err, r, "exec request") : r;
}

int channel_send(int control, const struct imsg *msg, const int *fds, int fd_count)
{
    _Static_assert((int)IMSG_FDS_MAX <= (int)SOCKET_FDS_MAX, "all go with one message");
    union socket_fds room;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)msg, .iov_len = sizeof(*msg)};
    struct msghdr hdr = {.msg_iov = &iov, .msg_iovlen = 1};

    socket_attach_fds(&hdr, &room, fds, (size_t)fd_count);
    return sendmsg(control, &hdr, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

static int channel_take_fds(struct msghdr *hdr, int fds[IMSG_FDS_MAX])
{
    int count = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(hdr); c != NULL; c = CMSG_NXTHDR(hdr, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
            int fd;

            (void)memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (count < IMSG_FDS_MAX)
                fds[count++] = fd;
            else
                (void)close(fd);
        }
    }
    return count;
}

int channel_recv(int control, int flags, struct imsg *msg, int fds[IMSG_FDS_MAX], int *ret_fd_count)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * IMSG_FDS_MAX)];
        struct cmsghdr align;
    } buffer;
    struct iovec iov = {.iov_base = msg, .iov_len = sizeof(*msg)};
    struct msghdr hdr = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = buffer.bytes,
                         .msg_controllen = sizeof(buffer.bytes)};
    int reset = 0, count;
    bool no_room;
    ssize_t n;

    /*
     * If init exits with unread messages, the kernel reports ECONNRESET before init's last
     * messages.
     */
    do
        n = recvmsg(control, &hdr, MSG_CMSG_CLOEXEC | flags);
    while (n < 0 && (errno == EINTR || (errno == ECONNRESET && !reset++)));
    if (n < 0)
        return errno == ECONNRESET ? 0 : -errno;
    count = channel_take_fds(&hdr, fds);
    /*
     * The kernel has dropped fds: there were more than an honest init sends, or this process's fd
     * table is full.
     */
    no_room = (hdr.msg_flags & MSG_CTRUNC) != 0 && count < IMSG_FDS_MAX;
    if (n == (ssize_t)sizeof(*msg) && msg->magic == IMSG_MAGIC && msg->version == IMSG_VERSION &&
        (hdr.msg_flags & MSG_TRUNC) == 0 && ((hdr.msg_flags & MSG_CTRUNC) == 0 || no_room)) {
        /* This exec gets no descriptors; an error would end the whole sandbox. */
        for (int i = 0; no_room && i < count; i++)
            (void)close(fds[i]);
        *ret_fd_count = no_room ? -EMFILE : count;
        return 1;
    }
    for (int i = 0; i < count; i++)
        (void)close(fds[i]);
    if (n >= (ssize_t)IMSG_FIXED && msg->magic == IMSG_MAGIC && msg->version != IMSG_VERSION)
        return -EPROTONOSUPPORT;
    return n == 0 ? 0 : -EPROTO;
}

/* True if stream i of a process with these flags has a socket, and no log. */
static bool stdio_has_socket(uint32_t flags, int i)
{
    if (i == 0)
        return (flags & (IMSG_TTY | IMSG_STDIN)) != 0;
    if ((flags & (IMSG_TTY | IMSG_LOGGED)) != 0)
        return false;
    return i == 1 || (flags & IMSG_COMBINED) == 0;
}

int stdio_sockets_make(uint32_t flags, struct stdio_sockets *ret)
{
    *ret = (struct stdio_sockets)STDIO_SOCKETS_NONE;
    for (int i = 0; i < 3; i++) {
        int pair[2];

        if (!stdio_has_socket(flags, i))
            continue;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
            int r = -errno;

            stdio_sockets_close(ret);
            return r;
        }
        ret->ours[i] = pair[0];
        ret->inits[i] = pair[1];
    }
    return 0;
}

void stdio_sockets_close(struct stdio_sockets *s)
{
    for (int i = 0; i < 3; i++) {
        if (s->ours[i] >= 0)
            (void)close(take_fd(&s->ours[i]));
        if (s->inits[i] >= 0)
            (void)close(take_fd(&s->inits[i]));
    }
}

int stdio_sockets_add(const struct stdio_sockets *s, uint32_t flags, int fds[IMSG_FDS_MAX],
                      int count)
{
    for (int i = 0; i < 3; i++)
        if (s->inits[i] >= 0)
            fds[count++] = s->inits[i];
    for (int i = 0; i < 3 && (flags & IMSG_PARK) != 0; i++)
        if (s->ours[i] >= 0)
            fds[count++] = s->ours[i];
    return count;
}

bool channel_socket_ok(int fd)
{
    int domain = -1, type = -1;
    socklen_t len = sizeof(int);

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_UNIX &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM;
}

const char *exec_step_name(uint32_t step)
{
    static const char *const names[EXEC_STEP_MAX] = {
        [EXEC_STEP_REQUEST] = "read the request",
        [EXEC_STEP_LIMIT] = "find room for one more process",
        [EXEC_STEP_STDIO] = "set up stdin, stdout and stderr",
        [EXEC_STEP_CGROUP] = "make its cgroup",
        [EXEC_STEP_FORK] = "fork",
        [EXEC_STEP_SESSION] = "make its session",
        [EXEC_STEP_USER] = "look up the user",
        [EXEC_STEP_GROUP] = "look up the group",
        [EXEC_STEP_RLIMIT] = "set resource limits",
        [EXEC_STEP_CAPABILITIES] = "set capabilities",
        [EXEC_STEP_IDS] = "set user and group ids",
        [EXEC_STEP_CWD] = "change to the working directory",
        [EXEC_STEP_SECCOMP] = "install the seccomp filter",
        [EXEC_STEP_EXECVE] = "execute",
    };

    return step > EXEC_STEP_INVALID && step < EXEC_STEP_MAX ? names[step] : "do something unknown";
}

const char exec_no_terminal[] = "limit maxTerminals: the sandbox has as many terminals as is its "
                                "share of those of all sandboxes";

int exec_failure(const struct imsg *msg, const char *command, const char *user, const char *cwd,
                 struct err *err)
{
    enum { STATUS_RIND = 125, STATUS_CANNOT_EXECUTE = 126, STATUS_NOT_FOUND = 127 };
    int error = msg->error > 0 && msg->error < 4096 ? msg->error : EIO;

    if (msg->step == EXEC_STEP_EXECVE && error == ENOENT) {
        (void)err_set(err, -error,
                      "'%s': not found in the sandbox (the file, or the interpreter that it names)",
                      command);
        return STATUS_NOT_FOUND;
    }
    if (msg->step == EXEC_STEP_EXECVE) {
        (void)err_errno(err, -error, "'%s': cannot be executed", command);
        return STATUS_CANNOT_EXECUTE;
    }
    if (msg->step == EXEC_STEP_USER && error == ENOENT)
        (void)err_set(
            err, -error,
            "user '%s': no such user or group in the sandbox's /etc/passwd and /etc/group", user);
    else if (msg->step == EXEC_STEP_USER && error == ERANGE)
        (void)err_set(err, -error, "user '%s': a sandbox has the ids 0 to 65535", user);
    else if (msg->step == EXEC_STEP_GROUP && error == ENOENT)
        (void)err_set(err, -error, "groups: not all of them are in the sandbox's /etc/group");
    else if (msg->step == EXEC_STEP_STDIO && error == ENOSPC)
        (void)err_set(err, -error, "%s", exec_no_terminal);
    else if (msg->step == EXEC_STEP_CWD)
        (void)err_errno(err, -error, "working directory '%s'", cwd != NULL ? cwd : "/");
    else
        (void)err_errno(err, -error, "start '%s': %s", command, exec_step_name(msg->step));
    return STATUS_RIND;
}
