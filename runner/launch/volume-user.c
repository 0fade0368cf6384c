/*
 * Resolves a sandbox's user to numbers before the sandbox exists: its volumes are mapped to that
 * owner. Names are looked up in files of the image, whose text is hostile. So the launcher only
 * reads the bytes. A child without any rights parses them; it can only write its answer, and must
 * do so before a deadline. Init looks the user up again, inside.
 *
 * Runs in the launcher and in that child; called by launcher.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "launch/sandbox.h"
#include "proto/syscalls.h"
#include "proto/userdb.h"

enum {
    FILE_MAX = 1 << 20, /* bytes of passwd and of group, as in init */
    ANSWER_MS = 2000,   /* parsing a megabyte takes a millisecond */
    INSIDE_MAX = 65535, /* the highest id of a sandbox */
};

struct volume_user_answer {
    int32_t error; /* negative errno */
    uint32_t uid, gid;
};

struct volume_user_text {
    char *data; /* owned; may be NULL */
    size_t len;
};

static void text_done(struct volume_user_text *t)
{
    free(t->data);
}

/* Reads a file of the image, resolved inside it. A missing file is empty. */
static int image_read_file(int root, const char *path, struct volume_user_text *ret,
                           struct err *err)
{
    auto_close int fd = sys_openat2(root, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0,
                                    RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
    struct stat st;

    if (fd == -ENOENT || fd == -ENOTDIR)
        return 0;
    if (fd < 0)
        return err_errno(err, fd, "user: /%s of the sandbox", path);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return err_set(err, -EINVAL, "user: /%s of the sandbox is not a regular file", path);
    return file_read_fd(fd, FILE_MAX, &ret->data, &ret->len, err);
}

static void lookup_user(const char *user, const struct volume_user_text *passwd,
                        const struct volume_user_text *group, struct volume_user_answer *ret)
{
    struct userdb_identity who;
    struct userdb_spec spec;

    ret->error = userdb_parse(user, &spec, NULL);
    if (ret->error == 0)
        ret->error = userdb_resolve(&spec, passwd->data != NULL ? passwd->data : "", passwd->len,
                                    group->data != NULL ? group->data : "", group->len, &who, NULL);
    if (ret->error != 0)
        return;
    ret->uid = who.uid;
    ret->gid = who.gid;
}

/* The child has no fd but its pipe, no rights, and no system calls but read, write, exit and
 * sigreturn. */
static _Noreturn void lookup_child_main(int out, uid_t nobody, const char *user,
                                        const struct volume_user_text *passwd,
                                        const struct volume_user_text *group)
{
    struct volume_user_answer a = {.error = -EPERM};

    if (dup2(out, 0) == 0 && sys_close_range(1, ~0U, 0) == 0 &&
        syscall(SYS_setgroups, 0, NULL) == 0 &&
        syscall(SYS_setresgid, nobody, nobody, nobody) == 0 &&
        syscall(SYS_setresuid, nobody, nobody, nobody) == 0 &&
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0) {
        lookup_user(user, passwd, group, &a);
        (void)!write(0, &a, sizeof(a));
    }
    for (;;)
        (void)syscall(SYS_exit, 0);
}

static int lookup_receive(int in, struct volume_user_answer *ret)
{
    struct pollfd p = {.fd = in, .events = POLLIN};
    int r;

    do
        r = poll(&p, 1, ANSWER_MS);
    while (r < 0 && errno == EINTR);
    if (r <= 0)
        return r < 0 ? -errno : -ETIMEDOUT;
    return read(in, ret, sizeof(*ret)) == (ssize_t)sizeof(*ret) ? 0 : -EBADMSG;
}

static int lookup_in_child(uid_t nobody, const char *user, const struct volume_user_text *passwd,
                           const struct volume_user_text *group, struct volume_user_answer *ret)
{
    auto_close int in = FD_NONE, out = FD_NONE;
    int pair[2], r;
    pid_t pid;

    if (pipe2(pair, O_CLOEXEC) < 0)
        return -errno;
    in = pair[0];
    out = pair[1];
    pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0)
        lookup_child_main(out, nobody, user, passwd, group);
    (void)close(take_fd(&out));
    r = lookup_receive(in, ret);
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return r;
}

int volume_user(const struct launch_sandbox *s, int root, const char *user, uint32_t *ret_uid,
                uint32_t *ret_gid, struct err *err)
{
    struct volume_user_text passwd __attribute__((cleanup(text_done))) = {.data = NULL};
    struct volume_user_text group __attribute__((cleanup(text_done))) = {.data = NULL};
    struct volume_user_answer a;
    int r;

    r = image_read_file(root, "etc/passwd", &passwd, err);
    if (r == 0)
        r = image_read_file(root, "etc/group", &group, err);
    if (r < 0)
        return r;
    r = lookup_in_child(s->ids.base, user, &passwd, &group, &a);
    if (r < 0)
        return err_errno(err, r, "user '%s': look it up", user);
    if (a.error == -ENOENT)
        return err_set(err, -ENOENT,
                       "user '%s': no such user or group in the sandbox's /etc/passwd and "
                       "/etc/group",
                       user);
    if (a.error < 0)
        return err_errno(err, a.error > -4096 ? a.error : -EBADMSG, "user '%s'", user);
    if (a.uid > INSIDE_MAX || a.gid > INSIDE_MAX)
        return err_set(err, -ERANGE, "user '%s': a sandbox has the ids 0 to 65535", user);
    *ret_uid = a.uid;
    *ret_gid = a.gid;
    return 0;
}
