/* The commands rind-copy and rind-move. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "files/cmd.h"
#include "proto/rmtree.h"
#include "proto/syscalls.h"

enum { TRIES = 16, NOREPLACE = 1 /* RENAME_NOREPLACE */ };

struct ends {
    int from_dir, to_dir;
    char from[NAME_MAX + 1], to[NAME_MAX + 1];
    const char *what, *path; /* the failed step and its path; path may be "" */
};

static bool is_dot_name(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static int ends_open(struct ends *e, char **args)
{
    bool from_slash, to_slash;
    struct stat st;

    e->what = "open";
    e->path = args[0];
    e->from_dir = cmd_open_parent(args[0], e->from, &from_slash);
    if (e->from_dir < 0)
        return e->from_dir;
    if (fstatat(e->from_dir, e->from, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (from_slash && !S_ISDIR(st.st_mode))
        return -ENOTDIR;
    e->path = args[1];
    e->to_dir = cmd_open_parent(args[1], e->to, &to_slash);
    if (e->to_dir < 0)
        return e->to_dir;
    if (is_dot_name(e->to))
        return -EEXIST;
    return to_slash && !S_ISDIR(st.st_mode) ? -ENOTDIR : 0;
}

static int ends_answer(const struct ends *e, int r)
{
    return r < 0 ? cmd_answer_error(STDOUT_FILENO, r, e->what, e->path)
                 : shim_answer_success(STDOUT_FILENO);
}

/* rind-copy FROM TO [--no-replace]: calls copy_tree. */
int cmd_copy(char **args)
{
    static struct ends e;
    bool keep = false;
    const char *path = "";
    int r;

    cmd_options(args + 2, (const struct cmd_option[]){{.name = "--no-replace", .flag = &keep},
                                                      {.name = NULL}});
    r = ends_open(&e, args);
    if (r < 0)
        return ends_answer(&e, r);
    e.path = args[0];
    r = copy_tree(e.from_dir, e.from, e.to_dir, e.to, !keep, &e.what, &path);
    if (path[0] != '\0')
        e.path = path;
    return ends_answer(&e, r);
}

static void temp_remove(int dirfd, const char *name)
{
    if (unlinkat(dirfd, name, 0) < 0 && errno == EISDIR)
        (void)rmtree_at(dirfd, name, 0);
}

static int ends_remove_source(struct ends *e)
{
    int r = unlinkat(e->from_dir, e->from, 0) < 0 ? -errno : 0;

    if (r == -EISDIR)
        r = rmtree_at(e->from_dir, e->from, 0);
    e->what = "moved, but not removed";
    return r;
}

/* Copies under a temporary name, and renames the complete copy to the target; only then the source
 * is removed. */
static int ends_move_by_copy(struct ends *e, bool keep)
{
    char temp[NAME_MAX + 1];
    const char *path = "";
    int r = -EEXIST;

    for (int i = 0; i < TRIES && r == -EEXIST; i++) {
        cmd_temp_name(e->to, temp);
        r = copy_tree(e->from_dir, e->from, e->to_dir, temp, false, &e->what, &path);
    }
    if (r == -EEXIST)
        return r; /* an existing file is not this process's to remove */
    if (path[0] != '\0')
        e->path = path;
    if (r == 0 &&
        syscall(SYS_renameat2, e->to_dir, temp, e->to_dir, e->to, keep ? NOREPLACE : 0) < 0) {
        r = -errno;
        e->what = "rename";
    }
    if (r < 0) {
        temp_remove(e->to_dir, temp);
        return r;
    }
    return ends_remove_source(e);
}

/* rind-move FROM TO [--no-replace]: renames, also across file systems. */
int cmd_move(char **args)
{
    static struct ends e;
    bool keep = false;
    int r;

    cmd_options(args + 2, (const struct cmd_option[]){{.name = "--no-replace", .flag = &keep},
                                                      {.name = NULL}});
    if (syscall(SYS_renameat2, AT_FDCWD, args[0], AT_FDCWD, args[1], keep ? NOREPLACE : 0) == 0)
        return shim_answer_success(STDOUT_FILENO);
    r = -errno;
    e.what = "rename";
    e.path = args[0];
    if (r == -EXDEV)
        r = ends_open(&e, args);
    else
        return ends_answer(&e, r);
    if (r == 0 && is_dot_name(e.from))
        r = -EBUSY;
    if (r == 0)
        r = ends_move_by_copy(&e, keep);
    return ends_answer(&e, r);
}
