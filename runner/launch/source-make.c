/*
 * Makes the directory of the host that a bind of Docker's API names and that is not there yet, with
 * the rights of the sandbox's creator. Runs in the child that opens such paths (source.c), so that
 * a file system which does not answer delays no other start.
 *
 * The supervisor, which the launcher does not trust, says which paths these are. As the owner it
 * could have empty directories made, and so only outside those of the system and of rind's own.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "launch/sandbox.h"
#include "proto/syscalls.h"

/* What is made by source_make; a call of rights_do. */
struct source_making {
    const char *rest;  /* the path below `root` */
    const char *state; /* the state directory's path; NULL: only the creator's rights count */
    int root;
};

static int part_open(int parent, const char *name)
{
    return sys_openat2(parent, name, O_PATH | O_DIRECTORY | O_CLOEXEC, 0,
                       RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

/* True if the path `rest` below the directory `parent` is of a kind that users put their own
 * directories in. */
static bool part_may_be_made(int parent, const char *rest, const char *state)
{
    char link[64], path[2 * PATH_MAX];
    ssize_t n;

    if (state == NULL)
        return true;
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", parent);
    n = readlink(link, path, PATH_MAX - 1);
    if (n <= 0 || n >= PATH_MAX - 1)
        return false;
    if (n == 1)
        n = 0; /* "/" */
    (void)snprintf(path + n, sizeof(path) - (size_t)n, "/%s", rest);
    return path_kind(path, state) == PATH_ANY;
}

/* Makes a directory, or finds that another process just has. */
static int part_make(int parent, const char *name, const char *rest, const char *state)
{
    if (!part_may_be_made(parent, rest, state))
        return -EPERM;
    if (mkdirat(parent, name, 0755) < 0 && errno != EEXIST)
        return -errno;
    return part_open(parent, name);
}

static int call_make(void *data)
{
    const struct source_making *m = data;
    auto_close int at = part_open(m->root, ".");
    char name[NAME_MAX + 1];

    for (const char *p = m->rest; at >= 0 && *p != '\0';) {
        const size_t len = strcspn(p, "/");
        int next;

        if (len > NAME_MAX)
            return -ENAMETOOLONG;
        (void)snprintf(name, sizeof(name), "%.*s", (int)len, p);
        if (strcmp(name, "..") == 0)
            return -EINVAL;
        if (len > 0 && strcmp(name, ".") != 0) {
            next = part_open(at, name);
            if (next == -ENOENT)
                next = part_make(at, name, p, m->state);
            (void)close(at);
            at = next;
        }
        p += len + (p[len] == '/');
    }
    return at < 0 ? at : 0;
}

int source_make(const struct creator *c, int root, const char *rest, const char *state)
{
    struct source_making m = {.rest = rest, .state = state, .root = root};
    const mode_t mask = umask(022);
    int r = -EPERM;

    if (c->kind == CREATOR_OWNER)
        r = call_make(&m);
    m.state = NULL;
    if (c->kind == CREATOR_CLIENT)
        r = rights_do(c->uid, c->gid, c->groups, c->group_count, call_make, &m);
    (void)umask(mask);
    return r;
}
