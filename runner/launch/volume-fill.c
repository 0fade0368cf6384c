/*
 * Fills a volume from an image. The image's files are hostile and may be many. So a child copies
 * them (volume-copy.c), in namespaces of its own, as root of a user namespace that maps the ids
 * that volumes have on disk. It has the image's merged tree and an empty directory, as detached
 * mounts, and the pipe for its report, but no other fd. It is killed with the launcher.
 *
 * The directory becomes the volume's data only when the child has exited with success, and only by
 * the launcher. An interrupted fill is discarded and started again.
 *
 * Runs in the launcher.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/socket.h"
#include "launch/launcher.h"
#include "launch/volume-internal.h"
#include "proto/syscalls.h"

/* ---- the result ---- */

static void fill_commit(struct launcher *l, const struct volume_fill *f, int status)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : FILL_FAILED;
    const bool disk = volume_has_disk(f->dir_fd);
    const char *made = disk ? VOLUME_NEWER : VOLUME_NEW, *own = disk ? VOLUME_DISK : VOLUME_DATA;

    /* Replaces an empty directory that is not mounted: the launcher has the volume's lock. */
    if (code == FILL_DONE && renameat(f->dir_fd, made, f->dir_fd, own) == 0)
        (void)close(openat(f->dir_fd, VOLUME_FILLED, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    else if (code == FILL_NOTHING)
        (void)renameat(f->dir_fd, made, f->dir_fd, own); /* the empty volume */
    else
        (void)volume_hide(l, f->dir_fd, made, NULL);
}

static void fill_on_exit(void *owner, const struct child_process *c, int status)
{
    struct launcher *l = owner;
    struct volume_fill *f = l->fills;

    while (f->pid != c->pid)
        f++;
    fill_commit(l, f, status);
    (void)close(f->dir_fd);
    (void)close(f->lock_fd);
    if (f->source_fd >= 0)
        (void)close(f->source_fd);
    *f = l->fills[--l->fill_count];
    /* Only now: a forked process that removes it would briefly hold a copy of the locks. */
    volumes_remove_hidden(l);
}

struct volume_report volume_report_read(int pipe_fd)
{
    struct volume_report last = {.code = VOLUME_STEP, .message = "make or fill the volume"}, next;
    ssize_t n;

    while ((n = read(pipe_fd, &next, sizeof(next))) == (ssize_t)sizeof(next) ||
           (n < 0 && errno == EINTR))
        if (n > 0)
            last = next;
    last.message[sizeof(last.message) - 1] = '\0';
    if (last.code < -4095 || last.code > VOLUME_STEP)
        last.code = -EPROTO;
    return last;
}

int volume_report_result(const struct volume_report *report, struct err *err)
{
    if (report->code == 0)
        return 0;
    if (report->code == VOLUME_STEP)
        return err_set(err, -ECHILD, "%s: its process was killed", report->message);
    return err_set(err, report->code, "%s", report->message);
}

int volume_result(int pipe_fd, struct err *err)
{
    const struct volume_report last = volume_report_read(pipe_fd);

    return volume_report_result(&last, err);
}

/* ---- is there anything to fill? ---- */

static bool dir_is_empty(int dir_fd, const char *name)
{
    auto_ptr(dir_close) DIR *d = dir_open(dir_fd, name);

    return d != NULL && dir_next(d) == NULL;
}

/* As Docker: only a volume that is empty and that was never filled. */
static bool volume_wants_filling(int dir_fd)
{
    if (faccessat(dir_fd, VOLUME_FILLED, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return false;
    return volume_has_disk(dir_fd) ||
           faccessat(dir_fd, VOLUME_DATA, F_OK, AT_SYMLINK_NOFOLLOW) < 0 ||
           dir_is_empty(dir_fd, VOLUME_DATA);
}

/* ---- the child ---- */

/* Removes what an interrupted fill has left. */
static int fill_clear_target(struct launcher *l, int dir_fd, const char *name, struct err *err)
{
    int r;

    if (faccessat(dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    r = volume_hide(l, dir_fd, name, err);
    if (r == 0)
        volumes_remove_hidden(l);
    return r;
}

/* Makes a new image of the same size, which replaces the volume's only when it is complete. */
static int fill_make_disk_target(struct launcher *l, int dir_fd, struct mount_attr *attr,
                                 struct err *err)
{
    struct stat st;
    int r = fill_clear_target(l, dir_fd, VOLUME_NEWER, err);

    if (r < 0)
        return r;
    if (fstatat(dir_fd, VOLUME_DISK, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return err_errno(err, -errno, "the disk of a volume");
    r = disk_make(dir_fd, VOLUME_NEWER, (uint64_t)st.st_size, true, err);
    return r < 0 ? r : disk_attach(dir_fd, VOLUME_NEWER, IDRANGE_LAYERS, attr, err);
}

static int fill_make_target(struct launcher *l, int dir_fd, struct err *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC};
    auto_close int dir = FD_NONE;
    int r;

    if (volume_has_disk(dir_fd))
        return fill_make_disk_target(l, dir_fd, &attr, err);
    r = fill_clear_target(l, dir_fd, VOLUME_NEW, err);
    if (r < 0)
        return r;
    if (mkdirat(dir_fd, VOLUME_NEW, 0755) < 0 || fchmodat(dir_fd, VOLUME_NEW, 0755, 0) < 0 ||
        fchownat(dir_fd, VOLUME_NEW, IDRANGE_LAYERS, IDRANGE_LAYERS, AT_SYMLINK_NOFOLLOW) < 0)
        return err_errno(err, -errno, "make the directory of a volume");
    dir = openat(dir_fd, VOLUME_NEW, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return err_errno(err, -errno, "make the directory of a volume");
    return mount_clone(dir, &attr, "a volume", err);
}

struct child {
    pid_t pid;
    int pidfd, go, report; /* owned: the launcher's ends */
};

static void child_done(struct child *c)
{
    const int fds[] = {c->pidfd, c->go, c->report};

    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
}

/* Waits for its id map and its job, and then fills. Is killed with the launcher meanwhile, too. */
static _Noreturn void fill_child_main(int go, struct fill_job *job)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * 2)];
        struct cmsghdr align;
    } control;
    static char path[LAUNCH_PATH_MAX + 1];
    struct iovec iov = {.iov_base = path, .iov_len = sizeof(path) - 1};
    struct msghdr hdr = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *c;
    int fds[2];

    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || recvmsg(go, &hdr, MSG_CMSG_CLOEXEC) <= 0 ||
        (c = CMSG_FIRSTHDR(&hdr)) == NULL || c->cmsg_len != CMSG_LEN(sizeof(fds)))
        _exit(FILL_FAILED);
    (void)memcpy(fds, CMSG_DATA(c), sizeof(fds));
    job->src = fds[0];
    job->dst = fds[1];
    job->path = path;
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGINT, SIG_DFL);
    fill_run(job);
}

static int fill_start_child(uint64_t reserve, const struct launch_request *q, struct child *ret,
                            struct err *err)
{
    auto_close int our_go = FD_NONE, its_go = FD_NONE, our_report = FD_NONE, its_report = FD_NONE;
    int pidfd = FD_NONE, pair[2];
    struct clone_args args = {.flags = CLONE_PIDFD | CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID |
                                       CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP,
                              .pidfd = (uint64_t)(uintptr_t)&pidfd,
                              .exit_signal = SIGCHLD};
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, -errno, "fill a volume");
    our_go = pair[0];
    its_go = pair[1];
    if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_errno(err, -errno, "fill a volume");
    our_report = pair[0];
    its_report = pair[1];
    pid = sys_clone3(&args);
    if (pid < 0)
        return err_errno(err, pid, "fill a volume: clone");
    if (pid == 0) {
        struct fill_job job = {.report = its_report,
                               .reserve = reserve,
                               .must = q->sandbox != NULL || q->volume_name != NULL,
                               .sync = q->sandbox != NULL};

        (void)close(our_go); /* the child must see EOF when the launcher closes it */
        fill_child_main(its_go, &job);
    }
    *ret = (struct child){
        .pid = pid, .pidfd = pidfd, .go = take_fd(&our_go), .report = take_fd(&our_report)};
    return 0;
}

static int fill_send_job(const struct child *c, int src, int dst, const char *path)
{
    const int fds[2] = {src, dst};
    union socket_fds control;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)path, .iov_len = strlen(path)};
    struct msghdr hdr = {.msg_iov = &iov, .msg_iovlen = 1};

    socket_attach_fds(&hdr, &control, fds, sizeof(fds) / sizeof(fds[0]));
    return sendmsg(c->go, &hdr, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Opens the source as a read-only mount with the ids of volumes: a sandbox's root, another volume,
 * or an image's directory. */
static int fill_open_source(struct launcher *l, const struct launch_request *q,
                            const struct creator *creator, int userns, int *ret_lock,
                            struct err *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_RDONLY};
    auto_close int dir = FD_NONE;
    int r;

    if (q->sandbox != NULL) {
        struct launch_sandbox *s = sandbox_new(q->sandbox);

        if (s == NULL)
            return err_errno(err, -ENOMEM, "fill a volume");
        r = sandbox_dir_peek(l, s, err);
        if (r == 0)
            r = sandbox_dir_whole(s, err);
        /* parts of the host that the sandbox shows are opened with its creator's rights */
        if (r == 0)
            r = creator_load(s->dir_fd, KEEP_FILE, s->creator, err);
        if (r == 0)
            r = root_mount_read_only(l, s->creator, q, userns, s, err);
        sandbox_free(s);
        return r;
    }
    if (q->volume_name == NULL)
        return root_mount_read_only(l, creator, q, userns, NULL, err);
    dir = volume_open(l, q->volume_name, err);
    r = dir < 0 ? dir : volume_check(dir, q->volume_name, creator, err);
    if (r < 0)
        return r;
    *ret_lock = volume_lock(dir, q->volume_name, false, err);
    return *ret_lock < 0 ? *ret_lock : volume_data_mount(dir, q->volume_name, &attr, err);
}

/* Gives the child its id map, the source and the target. */
static int fill_give_job(struct launcher *l, const struct launch_request *q,
                         const struct creator *creator, const struct child *c, int dir_fd,
                         int *ret_lock, struct err *err)
{
    auto_close int userns = FD_NONE, src = FD_NONE, dst = FD_NONE;
    char path[64];
    int r;

    r = idmap_write(c->pid, IDRANGE_LAYERS, err);
    if (r < 0)
        return r;
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)c->pid);
    userns = open(path, O_RDONLY | O_CLOEXEC);
    if (userns < 0)
        return err_errno(err, -errno, "fill a volume: its user namespace");
    src = fill_open_source(l, q, creator, userns, ret_lock, err);
    if (src < 0)
        return src;
    dst = fill_make_target(l, dir_fd, err);
    if (dst < 0)
        return dst;
    r = fill_send_job(c, src, dst, q->volume_name != NULL ? "/" : q->volumes[0].target);
    return r < 0 ? err_errno(err, r, "fill a volume") : 0;
}

/* Sets the creator: if the image is a directory of the host, the creator's rights apply. */
static int fill_get_creator(struct launcher *l, const struct launch_request *q, struct creator *ret,
                            struct err *err)
{
    *ret = (struct creator){.kind = CREATOR_OWNER};
    return l->clients.len == 0 ? 0 : creator_ask(q->client_fd, &l->clients, ret, err);
}

int launcher_volume_fill(struct launcher *l, const struct launch_request *q, int ret[2],
                         struct err *err)
{
    const char *name = q->volumes[0].source;
    auto_close int dir = volume_open(l, name, err);
    auto_close int lock = FD_NONE, source_lock = FD_NONE;
    struct child c __attribute__((cleanup(child_done))) = {0, FD_NONE, FD_NONE, FD_NONE};
    struct creator creator;
    int r = dir < 0 ? dir : fill_get_creator(l, q, &creator, err);

    if (r == 0)
        r = volume_check(dir, name, &creator, err);
    if (r < 0 || !volume_wants_filling(dir))
        return r;
    if (l->fill_count == LAUNCH_FILLS_MAX)
        return err_set(err, -EAGAIN, "%d volumes are being filled already", LAUNCH_FILLS_MAX);
    lock = volume_lock(dir, name, true, NULL);
    if (lock == -EBUSY && faccessat(dir, VOLUME_DATA, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return 0; /* the volume is mounted, so it stays empty */
    if (lock < 0)
        return err_errno(err, lock, "volume '%s'", name);
    if (!volume_wants_filling(dir))
        return 0; /* another request has just filled it */
    r = disk_check_reserve(l, 0, err);
    if (r == 0)
        r = fill_start_child(volume_has_disk(dir) ? 0 : disk_reserve_bytes(l), q, &c, err);
    if (r < 0)
        return r;
    r = fill_give_job(l, q, &creator, &c, dir, &source_lock, err);
    if (r == 0 && !child_table_has_room(&l->children))
        r = err_set(err, -EAGAIN, "fill a volume: too many processes of the launcher still run");
    if (r < 0) {
        (void)sys_pidfd_send_signal(c.pidfd, SIGKILL);
        while (waitpid(c.pid, NULL, 0) < 0 && errno == EINTR)
            ;
        return r;
    }
    struct volume_fill *f = &l->fills[l->fill_count++];

    *f = (struct volume_fill){.pid = c.pid,
                              .dir_fd = take_fd(&dir),
                              .lock_fd = take_fd(&lock),
                              .source_fd = take_fd(&source_lock)};
    child_table_add(&l->children, c.pid, NULL, fill_on_exit);
    ret[0] = take_fd(&c.pidfd);
    ret[1] = take_fd(&c.report);
    return 1;
}
