#include "jail.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "image/worker-proto.h"
#include "proto/syscalls.h"

enum { IDS = 65536, FIRST_SPARE_FD = 256 };

static const uint64_t namespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
                                   CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;

/* The state that the child gets. */
struct cell {
    const struct jail *j; /* borrowed */
    int go;               /* a byte arrives when its id maps are written */
    int said;             /* where it writes its error */
    int control;
    int opaque;
    int trees[1 + WORKER_PARENTS_MAX]; /* detached mounts, or FD_NONE if the child makes them */
    int program;
};

static int proc_write(pid_t pid, const char *file, const char *text)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    return file_poke_at(AT_FDCWD, path, text);
}

static int write_maps(const struct jail *j, pid_t pid)
{
    char uids[64], gids[64];
    int r = 0;

    if (geteuid() == 0) {
        (void)snprintf(uids, sizeof(uids), "0 %u %d", j->base, IDS);
        (void)snprintf(gids, sizeof(gids), "0 %u %d", j->base, IDS);
    } else {
        (void)snprintf(uids, sizeof(uids), "0 %u 1", (unsigned)geteuid());
        (void)snprintf(gids, sizeof(gids), "0 %u 1", (unsigned)getegid());
        r = proc_write(pid, "setgroups", "deny");
    }
    if (r == 0)
        r = proc_write(pid, "uid_map", uids);
    return r < 0 ? r : proc_write(pid, "gid_map", gids);
}

/* Clones the directory as a detached mount, whose root has no parent. */
static int tree_detach(const char *path, bool read_only)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                          (read_only ? MOUNT_ATTR_RDONLY : 0)};
    int fd = sys_open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC), r;

    if (fd < 0)
        return fd;
    r = sys_mount_setattr(fd, "", AT_EMPTY_PATH, &attr);
    if (r < 0) {
        (void)close(fd);
        return r;
    }
    return fd;
}

/* Makes an empty directory on a read-only tmpfs. */
static int make_empty_directory(void)
{
    int fs = sys_fsopen("tmpfs"), fd;

    if (fs < 0)
        return fs;
    (void)sys_fsconfig(fs, FSCONFIG_SET_STRING, "size", "4k", 0);
    fd = sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
    if (fd == 0)
        fd = sys_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC |
                                 MOUNT_ATTR_RDONLY);
    (void)close(fs);
    return fd;
}

static int enter_empty_root(void)
{
    auto_close int root = make_empty_directory();
    int r;

    if (root < 0)
        return root;
    r = mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? -errno : 0;
    if (r == 0)
        r = sys_move_mount(root, "", AT_FDCWD, "/tmp", MOVE_MOUNT_F_EMPTY_PATH);
    if (r == 0)
        r = chdir("/tmp") < 0 ? -errno : 0;
    if (r == 0)
        r = sys_pivot_root(".", ".");
    if (r == 0)
        r = umount2(".", MNT_DETACH) < 0 ? -errno : 0;
    return r < 0 ? r : (chdir("/") < 0 ? -errno : 0);
}

/* Detaches trees that the parent was not privileged to detach; the child is, in its namespace. */
static int cell_detach_rest(struct cell *c)
{
    const char *path = c->j->tree;

    for (size_t i = 0; i <= c->j->parent_count; i++) {
        if (c->trees[i] < 0)
            c->trees[i] =
                path != NULL ? tree_detach(path, i > 0 || c->j->read_only) : make_empty_directory();
        if (c->trees[i] < 0)
            return c->trees[i];
        path = i < c->j->parent_count ? c->j->parents[i] : NULL;
    }
    return 0;
}

/* Moves all fds to their places; before that they are moved to numbers far above. */
static int cell_place_fds(struct cell *c)
{
    int *fds[4 + WORKER_PARENTS_MAX] = {&c->control, &c->trees[0], &c->opaque};
    size_t n = 3;
    int r = 0;

    for (size_t i = 0; i < c->j->parent_count; i++)
        fds[n++] = &c->trees[1 + i];
    fds[n++] = &c->program;
    for (size_t i = 0; i < n; i++) {
        *fds[i] = fcntl(*fds[i], F_DUPFD_CLOEXEC, FIRST_SPARE_FD);
        if (*fds[i] < 0)
            return -errno;
    }
    for (size_t i = 0; i + 1 < n && r == 0; i++)
        r = dup2(*fds[i], WORKER_FD_CONTROL + (int)i) < 0 ? -errno : 0;
    return r;
}

static int cell_become_worker(struct cell *c, const char **step)
{
    char count[16];
    char name[] = "rind-rootfs", verb[] = "worker";
    char *argv[] = {name, verb, count, NULL}, *envp[] = {NULL};
    char byte;
    int r;

    *step = "wait for its ids";
    if (read(c->go, &byte, 1) != 1)
        return -ECANCELED;
    *step = "become user 0";
    if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return -errno;
    *step = "bind it to its maker";
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return -errno;
    *step = "detach its directories";
    r = cell_detach_rest(c);
    if (r < 0)
        return r;
    *step = "an empty root";
    r = enter_empty_root();
    if (r < 0)
        return r;
    *step = "its descriptors";
    r = cell_place_fds(c);
    if (r < 0)
        return r;
    *step = "execute it";
    (void)snprintf(count, sizeof(count), "%zu", c->j->parent_count);
    return sys_execveat(c->program, "", argv, envp, AT_EMPTY_PATH);
}

static void cell_child_main(struct cell *c) __attribute__((noreturn));

static void cell_child_main(struct cell *c)
{
    struct err err = ERR_NONE;
    const char *step = "";
    int r = cell_become_worker(c, &step);

    (void)err_errno(&err, r, "%s", step);
    (void)write_all(c->said, &err, sizeof(err));
    _exit(127);
}

static void close_trees(const struct cell *c)
{
    for (size_t i = 0; i <= c->j->parent_count; i++)
        if (c->trees[i] >= 0)
            (void)close(c->trees[i]);
}

/* Writes the id maps, then waits for the exec, which closes `said`. */
static int child_release(const struct jail *j, pid_t pid, int go, int said, struct err *err)
{
    struct err theirs;
    ssize_t n;
    int r = write_maps(j, pid);

    if (r < 0)
        return err_errno(err, r, "write its id maps");
    if (write(go, "", 1) != 1)
        return err_errno(err, -errno, "let it go");
    n = read(said, &theirs, sizeof(theirs));
    if (n == 0)
        return 0;
    if (n != (ssize_t)sizeof(theirs))
        return err_set(err, -ECHILD, "it died at its start");
    return err_set(err, theirs.code, "%s", theirs.msg);
}

static int cell_clone(struct cell *c, int go_fd, int said_fd, pid_t *ret_pid, struct err *err)
{
    struct clone_args args = {.flags = namespaces, .exit_signal = SIGCHLD};
    int pid = sys_clone3(&args), r;

    if (pid == 0)
        cell_child_main(c);
    if (pid < 0)
        return err_errno(err, pid, "new namespaces");
    (void)close(c->said); /* so that read() sees EOF */
    c->said = FD_NONE;
    r = child_release(c->j, pid, go_fd, said_fd, err);
    if (r < 0) {
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        return r;
    }
    *ret_pid = pid;
    return 0;
}

static int cell_start(struct cell *c, pid_t *ret_pid, int *ret_control, struct err *err)
{
    auto_close int control = FD_NONE, go = FD_NONE, said = FD_NONE;
    int pair[2], pipes[2], r;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, -errno, "a socket");
    control = pair[0];
    c->control = pair[1];
    if (pipe2(pipes, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "a pipe");
    c->go = pipes[0];
    go = pipes[1];
    if (pipe2(pipes, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "a pipe");
    said = pipes[0];
    c->said = pipes[1];
    r = cell_clone(c, go, said, ret_pid, err);
    if (r == 0)
        *ret_control = take_fd(&control);
    return r;
}

int jail_start(const struct jail *j, pid_t *ret_pid, int *ret_control, struct err *err)
{
    struct cell c = {.j = j, .go = FD_NONE, .said = FD_NONE, .control = FD_NONE};
    auto_close int opaque = FD_NONE;
    int r;

    c.program = j->program;
    opaque =
        j->opaque >= 0 ? fcntl(j->opaque, F_DUPFD_CLOEXEC, 3) : memfd_create("opaque", MFD_CLOEXEC);
    if (opaque < 0)
        return err_errno(err, -errno, "a memfd");
    c.opaque = opaque;
    /* root detaches the trees before the clone, as the worker's ids may have no access to the
     * directory. */
    for (size_t i = 0; i <= j->parent_count; i++) {
        const char *path = i == 0 ? j->tree : j->parents[i - 1];

        c.trees[i] =
            path != NULL && geteuid() == 0 ? tree_detach(path, i > 0 || j->read_only) : FD_NONE;
    }
    r = cell_start(&c, ret_pid, ret_control, err);
    close_trees(&c);
    for (int *fd = (int[]){c.go, c.said, c.control, -2}; *fd != -2; fd++)
        if (*fd >= 0)
            (void)close(*fd);
    return r < 0 ? err_wrap(err, r, "start the worker") : 0;
}
