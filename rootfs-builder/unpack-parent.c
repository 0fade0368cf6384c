/* Finds and makes the parent directory of the current entry, for unpack.c. Runs in B of worker.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "proto/rmtree.h"
#include "proto/syscalls.h"
#include "unpack-internal.h"

enum { LINKS_MAX = 40 /* the kernel's limit */ };

void parent_forget(struct unpack *u)
{
    u->parent_asked[0] = '/'; /* no clean path begins with a slash */
    u->parent_asked[1] = '\0';
}

int parent_clear(struct unpack *u, const char *name, bool *ret_whiteout)
{
    struct stat st;

    *ret_whiteout = false;
    if (fstatat(u->parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    *ret_whiteout = is_whiteout(&st);
    if (S_ISDIR(st.st_mode)) {
        char path[PATH_ROOM];
        struct dir *d;

        parent_forget(u);
        d = path_join(u->parent, name, path) == 0 ? dirs_find(&u->dirs, path) : NULL;
        if (d != NULL)
            d->opaque = false;
        return rmtree_at(u->parent_fd, name, RMTREE_ONE_MOUNT);
    }
    if (S_ISLNK(st.st_mode))
        parent_forget(u);
    return unlinkat(u->parent_fd, name, 0) < 0 ? -errno : 0;
}

/* Reads the target of the link `out`/name. Returns its length; 0 if it is not a link. */
static ssize_t link_target(const struct unpack *u, const char *out, const char *name,
                           char target[PATH_ROOM])
{
    auto_close int dir = FD_NONE;
    ssize_t n;

    dir = sys_openat2(u->root_fd, out[0] != '\0' ? out : ".", O_PATH | O_DIRECTORY, 0, OPEN_PLAIN);
    if (dir < 0)
        return 0;
    n = readlinkat(dir, name, target, PATH_ROOM);
    if (n < 0)
        return 0;
    if (n >= PATH_ROOM)
        return -ENAMETOOLONG;
    target[n] = '\0';
    return n;
}

static void path_drop_last(char *path)
{
    char *slash = strrchr(path, '/');

    *(slash != NULL ? slash : path) = '\0';
}

/* Cuts the next component off *rest. Returns false at the end. */
static bool next_component(const char **rest, char name[WORKER_NAME_MAX + 1], int *r)
{
    size_t n;

    *rest += strspn(*rest, "/");
    n = strcspn(*rest, "/");
    if (n > WORKER_NAME_MAX)
        *r = -ENAMETOOLONG;
    if (n == 0 || *r < 0)
        return false;
    (void)memcpy(name, *rest, n);
    name[n] = '\0';
    *rest += n;
    return true;
}

/* Puts a link's target before the remaining path. */
static int path_expand_link(char todo[2 * PATH_ROOM], const char **rest, const char *target,
                            char *out)
{
    char left[PATH_ROOM];
    size_t len = strlen(*rest), n = strlen(target);

    if (len >= sizeof(left) || n + 1 + len >= (size_t)2 * PATH_ROOM)
        return -ENAMETOOLONG;
    if (target[0] == '/')
        out[0] = '\0'; /* an absolute target starts at the top of the tree */
    (void)memcpy(left, *rest, len + 1);
    (void)memcpy(todo, target, n + 1);
    todo[n] = '/';
    (void)memcpy(todo + n + 1, left, len + 1);
    *rest = todo;
    return 0;
}

int parent_resolve(const struct unpack *u, const char *asked, char out[PATH_ROOM])
{
    char todo[2 * PATH_ROOM], name[WORKER_NAME_MAX + 1], target[PATH_ROOM];
    const char *rest = asked;
    unsigned links = 0;
    int r = 0;

    out[0] = '\0';
    while (r == 0 && next_component(&rest, name, &r)) {
        ssize_t n = 0;

        if (strcmp(name, ".") == 0)
            continue;
        if (strcmp(name, "..") == 0) {
            path_drop_last(out);
            continue;
        }
        n = link_target(u, out, name, target);
        if (n < 0)
            return (int)n;
        if (n == 0)
            r = path_join(out, name, out);
        else
            r = ++links > LINKS_MAX ? -ELOOP : path_expand_link(todo, &rest, target, out);
    }
    return r;
}

static int parent_set(struct unpack *u, int fd, const char *asked, const char *path)
{
    struct stat st;

    if (fstat(fd, &st) < 0) {
        (void)close(fd);
        return -errno;
    }
    if (u->parent_fd >= 0)
        (void)close(u->parent_fd);
    u->parent_fd = fd;
    u->parent_setgid = (st.st_mode & S_ISGID) != 0;
    path_copy(u->parent, path);
    path_copy(u->parent_asked, asked);
    return 0;
}

/* Enters path, through no link; a negative errno if it is no directory. */
static int parent_enter_plain(struct unpack *u, const char *asked, const char *path)
{
    int fd =
        sys_openat2(u->root_fd, path[0] != '\0' ? path : ".", O_PATH | O_DIRECTORY, 0, OPEN_PLAIN);

    return fd < 0 ? fd : parent_set(u, fd, asked, path);
}

/* Makes the directory `name` in the parent (`path` in the tree), which has no entry of its own so
 * far. */
static int parent_make_implied(struct unpack *u, const char *path, const char *name,
                               struct err *err)
{
    auto_close int fd = FD_NONE;
    bool whiteout = false;
    struct dir *d;
    int r;

    r = parent_clear(u, name, &whiteout);
    if (r < 0 && r != -ENOENT)
        return err_errno(err, r, "replace %s", path);
    if (mkdirat(u->parent_fd, name, 0755) < 0)
        return err_errno(err, -errno, "make the directory %s", path);
    r = count_entry(u, err);
    if (r < 0)
        return r;
    d = dirs_get(&u->dirs, path);
    if (d == NULL)
        return err_errno(err, -ENOMEM, "remember %s", path);
    d->implied = true;
    d->opaque = whiteout;
    d->has_times = false;
    if (u->o->plain)
        return 0;
    u->result->of_parents = true;
    if (whiteout)
        return 0;
    fd = openat(u->parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, -errno, "open %s", path);
    return lower_copy_directory(u, path, fd, err);
}

/* Enters a subdirectory of the parent, and makes it if it is missing. */
static int parent_descend(struct unpack *u, const char *path, const char *name, bool only_if_there,
                          struct err *err)
{
    struct stat st;
    int r;

    if (fstatat(u->parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno != ENOENT)
            return err_errno(err, -errno, "%s", path);
    } else if (S_ISDIR(st.st_mode)) {
        r = parent_enter_plain(u, path, path);
        return r < 0 ? err_errno(err, r, "%s", path) : 1;
    } else if (only_if_there) {
        return 0;
    }
    r = parent_make_implied(u, path, name, err);
    if (r < 0)
        return r;
    r = parent_enter_plain(u, path, path);
    return r < 0 ? err_errno(err, r, "%s", path) : 1;
}

/* Enters path from the top, and makes missing directories. */
static int parent_enter_making(struct unpack *u, const char *path, bool only_if_there,
                               struct err *err)
{
    char name[WORKER_NAME_MAX + 1], so_far[PATH_ROOM] = "";
    const char *rest = path;
    int r = parent_enter_plain(u, "", "");

    if (r < 0)
        return err_errno(err, r, "open the tree");
    r = 0;
    while (next_component(&rest, name, &r)) {
        int done = path_join(so_far, name, so_far);

        done = done < 0 ? err_errno(err, done, "%s", path)
                        : parent_descend(u, so_far, name, only_if_there, err);
        if (done <= 0)
            return done;
    }
    return r < 0 ? err_errno(err, r, "%s", path) : 1;
}

int parent_enter(struct unpack *u, const char *asked, bool only_if_there, struct err *err)
{
    char path[PATH_ROOM];
    int r;

    if (strcmp(asked, u->parent_asked) == 0)
        return 1;
    /* It nearly always exists, without a link in its path. */
    if (parent_enter_plain(u, asked, asked) == 0)
        return 1;
    r = parent_resolve(u, asked, path);
    if (r < 0)
        return err_errno(err, r, "its directory");
    r = parent_enter_making(u, path, only_if_there, err);
    if (r > 0) /* under the name by which it was requested */
        path_copy(u->parent_asked, asked);
    else
        parent_forget(u);
    return r;
}
