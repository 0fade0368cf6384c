/* The command `remove`. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/shim.h"
#include "proto/rmtree.h"

struct options {
    bool recursive, force;
};

/* Accepts the options in either order, each at most once. */
static bool parse_options(char **args, struct options *o)
{
    for (; *args != NULL; args++) {
        bool *flag = strcmp(*args, "--recursive") == 0 ? &o->recursive
                     : strcmp(*args, "--force") == 0   ? &o->force
                                                       : NULL;

        if (flag == NULL || *flag)
            return false;
        *flag = true;
    }
    return true;
}

static int remove_path(const char *path, bool recursive)
{
    struct stat st;

    if (recursive) {
        if (lstat(path, &st) < 0)
            return -errno;
        if (S_ISDIR(st.st_mode))
            return rmtree_at(AT_FDCWD, path, 0);
    }
    return unlink(path) < 0 ? -errno : 0;
}

int shim_cmd_remove(char **args)
{
    struct options o = {.recursive = false};
    struct stat st;
    int r;

    if (!parse_options(args + 1, &o))
        shim_die("remove accepts one path and optional --recursive and --force");
    r = remove_path(args[0], o.recursive);
    /* ENOENT may come from inside a tree that another process changes: only a missing top path is a
     * success. */
    if (r == -ENOENT && o.force && lstat(args[0], &st) < 0 && errno == ENOENT)
        r = 0;
    return shim_answer(STDOUT_FILENO, r);
}
