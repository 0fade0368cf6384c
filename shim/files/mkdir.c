/* `mkdir`, and `mkdir --recursive`, which behaves like Rust's recursive DirBuilder. */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/shim.h"

enum { DEPTH_MAX = PATH_MAX / 2 + 1 };

/* True if the last byte is redundant: a slash, or a "." component; not for "/" or a leading ".". */
static bool path_has_redundant_end(const char *path, size_t len)
{
    return len > 1 && (path[len - 1] == '/' || (path[len - 1] == '.' && path[len - 2] == '/'));
}

static size_t path_trim(const char *path, size_t len)
{
    while (path_has_redundant_end(path, len))
        len--;
    return len;
}

ssize_t shim_parent_length(const char *path, size_t len)
{
    len = path_trim(path, len);
    if (len == 0 || (len == 1 && path[0] == '/'))
        return -1;
    while (len > 0 && path[len - 1] != '/')
        len--;
    return (ssize_t)path_trim(path, len);
}

/* mkdir of the first len bytes. Returns -ENOENT when a directory above is missing, 0 when a
 * directory exists afterwards. */
static int mkdir_level(char *path, size_t len)
{
    char cut = path[len];
    struct stat st;
    int r = 0;

    path[len] = '\0';
    if (mkdir(path, 0777) < 0) {
        r = -errno;
        if (r != -ENOENT && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
            r = 0;
    }
    path[len] = cut;
    return r;
}

/* Goes up until a directory exists or can be made, then down again. Each path above is at least two
 * bytes shorter, and the first mkdir refuses a path of PATH_MAX or more with ENAMETOOLONG. So
 * DEPTH_MAX levels are enough. */
static int mkdir_all(char *path)
{
    static unsigned short missing[DEPTH_MAX];
    size_t depth = 0;
    ssize_t len = (ssize_t)strlen(path);
    int r = 0;

    while (len > 0) {
        r = mkdir_level(path, (size_t)len);
        if (r != -ENOENT)
            break;
        if (depth == DEPTH_MAX)
            return -ENAMETOOLONG;
        missing[depth++] = (unsigned short)len;
        len = shim_parent_length(path, (size_t)len);
        if (len < 0)
            return -EIO; /* the root itself is missing: there is no errno for that */
        r = 0;
    }
    while (r == 0 && depth > 0)
        r = mkdir_level(path, missing[--depth]);
    return r;
}

int shim_cmd_mkdir(char **args)
{
    if (args[1] != NULL && strcmp(args[1], "--recursive") != 0)
        shim_die("mkdir accepts only --recursive after the path");
    if (args[1] != NULL && args[2] != NULL)
        shim_die("mkdir accepts one path and optional --recursive");
    if (args[1] != NULL)
        return shim_answer(STDOUT_FILENO, mkdir_all(args[0]));
    return shim_answer(STDOUT_FILENO, mkdir(args[0], 0777) < 0 ? -errno : 0);
}
