/* Whiteouts and opaque directories, for unpack.c. Runs in B of worker.c. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "proto/dents.h"
#include "proto/rmtree.h"
#include "proto/syscalls.h"
#include "unpack-internal.h"

enum { HOLLOW_DEPTH_MAX = 16 };

bool is_whiteout(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

/* Marks a directory (relative to the tree) as opaque: it hides the layers below. */
static int opaque_mark(struct unpack *u, const char *path, struct err *err)
{
    struct dir *d = dirs_get(&u->dirs, path);

    if (d == NULL)
        return err_errno(err, -ENOMEM, "remember %s", path);
    d->opaque = true;
    return 0;
}

static bool is_directory(const struct unpack *u, const char *path)
{
    auto_close int fd =
        sys_openat2(u->root_fd, path[0] != '\0' ? path : ".", O_PATH | O_DIRECTORY, 0, OPEN_PLAIN);

    return fd >= 0;
}

int opaque_report(struct unpack *u, struct err *err)
{
    size_t total = 0;
    int r = 0;

    for (size_t i = 0; r == 0 && i < u->dirs.count; i++) {
        const char *path = dirs_path(&u->dirs, &u->dirs.items[i]);
        const char *shown = path[0] != '\0' ? path : ".";

        if (!u->dirs.items[i].opaque || !is_directory(u, path))
            continue;
        total += strlen(shown) + 1;
        if (total > WORKER_OPAQUE_MAX)
            return err_set(err, -EMSGSIZE, "more opaque directories than fit into %d bytes",
                           WORKER_OPAQUE_MAX);
        r = u->o->opaque_fd < 0 ? -EOPNOTSUPP
                                : write_all(u->o->opaque_fd, shown, strlen(shown) + 1);
    }
    return r < 0 ? err_errno(err, r, "list opaque directories") : 0;
}

static bool is_hollow(struct unpack *u, int dir_fd, const char *path, unsigned depth);

static bool is_hollow_entry(struct unpack *u, int dir_fd, const char *path, const char *name,
                            unsigned depth)
{
    char inner[PATH_ROOM];
    struct stat st;

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    if (is_whiteout(&st))
        return true;
    if (!S_ISDIR(st.st_mode) || depth >= HOLLOW_DEPTH_MAX || path_join(path, name, inner) < 0)
        return false;
    return is_hollow(u, dir_fd, inner, depth + 1);
}

/* True if a directory contains only whiteouts, and was made only for them: then it can be replaced
 * by a whiteout of itself. Stops at the first other file. */
static bool is_hollow(struct unpack *u, int dir_fd, const char *path, unsigned depth)
{
    const struct dir *d = dirs_find(&u->dirs, path);
    const char *slash = strrchr(path, '/');
    auto_close int fd = FD_NONE;
    _Alignas(8) char buf[4096];
    long n;

    if (d == NULL || !d->implied)
        return false;
    fd = openat(dir_fd, slash != NULL ? slash + 1 : path,
                O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return false;
    while ((n = dents_read(fd, buf, sizeof(buf))) > 0)
        for (long at = 0; at < n;) {
            const struct dent *e = (const void *)(buf + at);

            at += e->size;
            if (!dent_is_dot(e) && !is_hollow_entry(u, fd, path, e->name, depth))
                return false;
        }
    return n == 0;
}

static int whiteout_mknod(struct unpack *u, const char *name, struct err *err)
{
    int r = count_entry(u, err);

    if (r < 0)
        return r;
    if (mknodat(u->parent_fd, name, S_IFCHR | 0600, makedev(0, 0)) < 0)
        return err_errno(err, -errno, "make a whiteout");
    return 0;
}

/* Makes a whiteout of `name` in the parent. */
static int whiteout_make(struct unpack *u, const char *name, struct err *err)
{
    char path[PATH_ROOM];
    const struct dir *d;
    struct stat st;
    int r;

    if (fstatat(u->parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? whiteout_mknod(u, name, err) : err_errno(err, -errno, "whiteout");
    /* The layer has a file of its own there, which stays whether it comes before or after the
     * whiteout. */
    if (!S_ISDIR(st.st_mode))
        return 0;
    r = path_join(u->parent, name, path);
    if (r < 0)
        return err_errno(err, r, "whiteout");
    d = dirs_find(&u->dirs, path);
    if (d != NULL && d->opaque)
        return 0;
    if (!is_hollow(u, u->parent_fd, path, 0))
        return opaque_mark(u, path, err);
    parent_forget(u);
    r = rmtree_at(u->parent_fd, name, RMTREE_ONE_MOUNT);
    return r < 0 ? err_errno(err, r, "whiteout") : whiteout_mknod(u, name, err);
}

int whiteout_apply(struct unpack *u, const char *parent, const char *name, struct err *err)
{
    const char *hidden = name + strlen(WHITEOUT);
    bool opaque = strcmp(name, WHITEOUT_OPAQUE) == 0;
    int r;

    /* AUFS's internal files had such names. */
    if (!opaque && strncmp(name, WHITEOUT_META, strlen(WHITEOUT_META)) == 0)
        return 0;
    if (hidden[0] == '\0' || strcmp(hidden, ".") == 0 || strcmp(hidden, "..") == 0)
        return err_set(err, -EBADMSG, "a whiteout of nothing");
    if (u->o->bottom) {
        u->result->of_parents = true;
        return 0;
    }
    r = parent_enter(u, parent, !opaque, err);
    if (r <= 0)
        return r; /* a file of this layer hides it already */
    return opaque ? opaque_mark(u, u->parent, err) : whiteout_make(u, hidden, err);
}
