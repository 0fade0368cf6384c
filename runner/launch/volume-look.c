/*
 * Searches a directory of root before a sandbox may write to it. No process inside can give a file
 * set-id bits or capabilities there. But a file that has them keeps them while it is written
 * through a shared mapping. A user of the host that executes it would act as its owner. So a start
 * is refused if its sandbox could write to such a file.
 *
 * The search walks the mount that the sandbox gets: it contains no other file system, no path leads
 * out of it, and it shows the owners as the sandbox sees them. The tree may be large, and its file
 * system may not answer. So a child with a deadline and without locks does it, while the launcher
 * goes on with the start.
 *
 * Owns one child per start that needs a search, and its pipe. Runs in the launcher and in that
 * child; called by launcher.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/dir.h"
#include "base/err.h"
#include "launch/sandbox.h"

enum {
    LOOK_MS = 3000,
    SILENT_MS = LOOK_MS + 500, /* the child exits by itself unless its file system hangs */
    DEPTH_MAX = 256,           /* one fd per level */
    SHOWN_MAX = 120,           /* bytes of a path in a message */
    SHOWN_TEXT = SHOWN_MAX + 16,
    PATH_ROOM = (DEPTH_MAX + 2) * 256, /* names have at most 255 bytes */
    URGENT = -10,                      /* niceness */
    NO_ID = 65534, /* the owner that a file shows if the mount does not map its id */
};

#define WAYS_OUT "share it read-only (:ro), or a directory without"

/* ---- paths in messages ---- */

/* Formats the end of a long path, with every byte printable. */
static const char *path_shown(const char *path, char text[SHOWN_TEXT])
{
    size_t len = strlen(path), at = 0;

    if (len > SHOWN_MAX) {
        at = (size_t)snprintf(text, SHOWN_TEXT, "...");
        path += len - SHOWN_MAX;
    }
    for (; *path != '\0' && at < SHOWN_MAX + 4; path++) {
        const unsigned char c = (unsigned char)*path;

        if (c < 0x20 || c == 0x7f)
            at += (size_t)snprintf(text + at, 5, "\\x%02x", c);
        else
            text[at++] = *path;
    }
    text[at] = '\0';
    return text;
}

/* ---- the search ---- */

struct look {
    const char *source; /* borrowed; of the volume being searched */
    uid_t uid;          /* of the sandbox's user, as files on the mount show it */
    int64_t end_ms;
    char path[PATH_ROOM]; /* the current file, relative to the source */
    struct err err;
};

static int look_refuse(struct look *k, int code, const char *what)
{
    char source[SHOWN_TEXT], file[SHOWN_TEXT];

    return err_set(&k->err, code, "volume '%s': '%s' %s", path_shown(k->source, source),
                   path_shown(k->path, file), what);
}

static int look_failed(struct look *k, int code, const char *step)
{
    char source[SHOWN_TEXT], file[SHOWN_TEXT];

    return err_errno(&k->err, code,
                     "volume '%s', looked through for set-id programs as root owns it: %s '%s'",
                     path_shown(k->source, source), step, path_shown(k->path, file));
}

/* Appends a name to k->path. Returns the previous length. */
static size_t path_push(struct look *k, const char *name)
{
    const size_t len = strlen(k->path);

    (void)snprintf(k->path + len, sizeof(k->path) - len, "%s%s", len > 0 ? "/" : "", name);
    return len;
}

/* True if the sandbox could change the file's contents. A file's owner could give itself permission
 * (by an ACL, without chmod). The group bits are the mask of an ACL, so they may apply to anyone.
 */
static bool sandbox_could_write(const struct look *k, const struct stat *st)
{
    return st->st_uid == k->uid || (st->st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

/* The file counts even if it is not executable: an ACL can change that and keeps the set-id bits.
 * get: getxattr or lgetxattr, called with `path`. */
static int look_at_file(struct look *k, const char *path,
                        ssize_t (*get)(const char *, const char *, void *, size_t),
                        const struct stat *st)
{
    if (!S_ISREG(st->st_mode) || !sandbox_could_write(k, st))
        return 0;
    if ((st->st_mode & S_ISUID) != 0)
        return look_refuse(k, -EPERM,
                           "in it is a set-user-id program, which the sandbox could change for "
                           "users of the host: " WAYS_OUT " such files, or take the bit away "
                           "(chmod u-s)");
    if ((st->st_mode & S_ISGID) != 0)
        return look_refuse(k, -EPERM,
                           "in it is a set-group-id program, which the sandbox could change for "
                           "users of the host: " WAYS_OUT " such files, or take the bit away "
                           "(chmod g-s)");
    if (get(path, "security.capability", NULL, 0) >= 0)
        return look_refuse(k, -EPERM,
                           "in it is a program with capabilities, which the sandbox could change "
                           "for users of the host: " WAYS_OUT " such files, or take them away "
                           "(setcap -r)");
    /* ENOENT: removed meanwhile. EOVERFLOW would mean capabilities of another namespace, so it is
     * an error. */
    if (errno != ENODATA && errno != EOPNOTSUPP && errno != ENOENT)
        return look_failed(k, -errno, "capabilities of");
    return 0;
}

static int look_in_time(struct look *k)
{
    char source[SHOWN_TEXT];

    if (clock_mono_ms() < k->end_ms)
        return 0;
    return err_set(&k->err, -ETIMEDOUT,
                   "volume '%s', which root owns, was to be looked through for set-id programs, "
                   "and has more files than that takes %d s for: " WAYS_OUT " so many",
                   path_shown(k->source, source), LOOK_MS / 1000);
}

static int look_through(struct look *k, int at, const char *name, int depth);

static int look_at_entry(struct look *k, DIR *d, const struct dirent *e, int depth)
{
    struct stat st = {.st_mode = 0};

    if (e->d_type == DT_DIR)
        return look_through(k, dirfd(d), e->d_name, depth + 1);
    if (e->d_type != DT_REG && e->d_type != DT_UNKNOWN)
        return 0;
    if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : look_failed(k, -errno, "look at");
    if (S_ISDIR(st.st_mode))
        return look_through(k, dirfd(d), e->d_name, depth + 1);
    return look_at_file(k, e->d_name, lgetxattr, &st);
}

/* A directory that root here may not open because its owner is unmapped: the sandbox may not open
 * it either. */
static int look_not_opened(struct look *k, int at, const char *name, int code)
{
    struct stat st;

    if (code == -ENOENT || code == -ENOTDIR || code == -ELOOP) /* changed meanwhile */
        return 0;
    if (code == -EACCES && fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_uid == NO_ID)
        return 0;
    return look_failed(k, code, "open");
}

/* Searches a directory. It becomes the cwd, because extended attributes of its files are read by
 * path. */
static int look_through(struct look *k, int at, const char *name, int depth)
{
    auto_ptr(dir_close) DIR *d = dir_open(at, name);
    const struct dirent *e;
    size_t len;
    int r = 0;

    if (d == NULL)
        return look_not_opened(k, at, name, -errno);
    if (depth > DEPTH_MAX)
        return look_refuse(k, -ELOOP,
                           "is deeper than 256 directories, too deep to look for set-id programs, "
                           "as root owns it: " WAYS_OUT " such a depth");
    if (fchdir(dirfd(d)) < 0)
        return look_failed(k, -errno, "enter");
    while (r == 0 && (e = dir_next(d)) != NULL) {
        r = look_in_time(k);
        if (r < 0)
            break;
        len = path_push(k, e->d_name);
        r = look_at_entry(k, d, e, depth);
        if (r == 0)
            k->path[len] = '\0';
        if (r == 0 && (e->d_type == DT_DIR || e->d_type == DT_UNKNOWN) && fchdir(dirfd(d)) < 0)
            r = look_failed(k, -errno, "enter");
    }
    if (r == 0 && errno != 0)
        r = look_failed(k, -errno, "read");
    return r;
}

/* The mount is of a directory, or of one file. */
static int look_at_mount(struct look *k, int mount)
{
    char path[64];
    struct stat st;

    k->path[0] = '\0';
    if (fstat(mount, &st) < 0)
        return look_failed(k, -errno, "look at");
    if (S_ISDIR(st.st_mode))
        return look_through(k, mount, ".", 0);
    (void)snprintf(k->path, sizeof(k->path), "%s",
                   strrchr(k->source, '/') != NULL ? strrchr(k->source, '/') + 1 : k->source);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", mount);
    return look_at_file(k, path, getxattr, &st);
}

/* ---- the child ---- */

/* Writes a struct err, whose code is 0 if the start is allowed. */
static _Noreturn void look_child_main(const struct volume_look *all, int answer, pid_t launcher)
{
    static struct look k;
    int fds[LAUNCH_VOLUMES_MAX + 1];
    int r = 0;

    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGINT, SIG_DFL);
    (void)prctl(PR_SET_NAME, "rind-look");
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* the launcher waits for it, and all clients for the launcher */
    (void)setpriority(PRIO_PROCESS, 0, URGENT);
    fds[0] = answer;
    for (size_t i = 0; i < all->count; i++)
        fds[i + 1] = all->of[i].mount;
    if (getppid() != launcher || removal_keep_only(fds, (int)all->count + 1, 0) < 0)
        _exit(1);
    k.end_ms = clock_mono_ms() + LOOK_MS;
    for (size_t i = 0; r == 0 && i < all->count; i++) {
        k.source = all->of[i].source;
        k.uid = all->of[i].uid;
        r = look_at_mount(&k, fds[i + 1]);
    }
    _exit(write(0, &k.err, sizeof(k.err)) != (ssize_t)sizeof(k.err));
}

void volume_look_add(struct volume_look *k, int mount, const char *source, uid_t uid)
{
    k->of[k->count].mount = mount;
    k->of[k->count].source = source;
    k->of[k->count++].uid = uid;
}

int volume_look_start(struct launcher *l, struct volume_look *k, struct err *err)
{
    auto_close int in = FD_NONE, out = FD_NONE;
    const pid_t self = getpid();
    int pair[2];
    pid_t pid;

    if (k->count == 0)
        return 0;
    if (!removal_has_room(l))
        return err_set(err, -EBUSY, "volume '%s': too many others wait for file systems",
                       k->of[0].source);
    if (pipe2(pair, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "volume '%s': look through it", k->of[0].source);
    in = pair[0];
    out = pair[1];
    pid = fork();
    if (pid < 0)
        return err_errno(err, -errno, "volume '%s': look through it", k->of[0].source);
    if (pid == 0)
        look_child_main(k, out, self);
    k->pid = pid;
    k->answer = take_fd(&in);
    k->end_ms = clock_mono_ms() + SILENT_MS;
    return 0;
}

/* Returns 0, -ETIMEDOUT, or -ECHILD when the child has exited without an answer. */
static int look_answer(const struct volume_look *k, struct err *ret)
{
    struct pollfd p = {.fd = k->answer, .events = POLLIN};
    int64_t left;
    int r;

    do {
        left = k->end_ms - clock_mono_ms();
        r = poll(&p, 1, left > 0 ? (int)left : 0);
    } while (r < 0 && errno == EINTR);
    if (r <= 0)
        return r < 0 ? -errno : -ETIMEDOUT;
    return read(k->answer, ret, sizeof(*ret)) == (ssize_t)sizeof(*ret) ? 0 : -ECHILD;
}

int volume_look_finish(struct launcher *l, const struct creator *c, struct volume_look *k,
                       struct err *err)
{
    struct err answer;
    int r;

    if (k->pid == 0)
        return 0;
    r = look_answer(k, &answer);
    if (r == -ETIMEDOUT) {
        source_punish(l, c);
        return err_set(err, r, "volume '%s': its file system has not answered for %d ms",
                       k->of[0].source, SILENT_MS);
    }
    /* An answer is its last action: it exits now. */
    if (r == 0) {
        while (waitpid(k->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        k->pid = 0;
    }
    if (r < 0)
        return err_errno(err, r, "volume '%s': look through it", k->of[0].source);
    answer.msg[sizeof(answer.msg) - 1] = '\0';
    return answer.code < 0 ? err_set(err, answer.code, "%s", answer.msg) : 0;
}

void volume_look_close(struct launcher *l, struct volume_look *k)
{
    if (k->answer >= 0)
        (void)close(take_fd(&k->answer));
    if (k->pid == 0)
        return;
    /* A child that hangs in its file system may not even die before that answers. */
    (void)kill(k->pid, SIGKILL);
    if (waitpid(k->pid, NULL, WNOHANG) == 0)
        removal_keep(l, k->pid, NULL);
    k->pid = 0;
}
