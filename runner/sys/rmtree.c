#include "sys/rmtree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "sys/openat2.h"

/*
 * A sandbox can make a tree that is deeper than any number of fds or any stack. So the walk goes
 * down DEPTH_MAX levels; a directory below that is moved up into the top directory, where the next
 * round finds it.
 */
enum { DEPTH_MAX = 32, RACES_MAX = 16 };

struct walk {
    int top_fd;     /* borrowed; the directory that is being emptied */
    unsigned moved; /* number for the next moved directory's name */
    unsigned races; /* directories that were not empty after we had emptied them */
    bool again;     /* something was moved up, or came while we read: one more round */
    struct err *err;
};

static void closedir_auto(DIR **d)
{
    if (*d != NULL)
        (void)closedir(*d);
}

static int move_up(struct walk *w, int fd, const char *name)
{
    char unique[32];
    int r;

    do { /* an end is certain: only names that the tree itself holds can be taken */
        (void)snprintf(unique, sizeof(unique), ".rind-rm-%u", w->moved++);
        r = renameat2(fd, name, w->top_fd, unique, RENAME_NOREPLACE) < 0 ? -errno : 0;
    } while (r == -EEXIST);
    if (r < 0)
        return err_errno(w->err, r, "move %s", name);
    w->again = true;
    return 0;
}

static int empty_dir(struct walk *w, int parent, const char *name, int depth);

static int remove_entry(struct walk *w, int fd, const char *name, int depth)
{
    int r;

    if (unlinkat(fd, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR)
        return err_errno(w->err, -errno, "remove %s", name);
    if (unlinkat(fd, name, AT_REMOVEDIR) == 0)
        return 0;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return err_errno(w->err, -errno, "remove %s", name);
    if (depth >= DEPTH_MAX)
        return move_up(w, fd, name);

    r = empty_dir(w, fd, name, depth + 1);
    if (r < 0)
        return r;
    if (unlinkat(fd, name, AT_REMOVEDIR) == 0)
        return 0;
    /* Some file systems' readdir skips entries when others are removed meanwhile: look again. */
    if ((errno != ENOTEMPTY && errno != EEXIST) || ++w->races > RACES_MAX)
        return err_errno(w->err, -errno, "remove %s", name);
    w->again = true;
    return 0;
}

/* Removes what one pass over the directory shows. */
static int empty_dir(struct walk *w, int parent, const char *name, int depth)
{
    __attribute__((cleanup(closedir_auto))) DIR *dir = NULL;
    struct dirent *entry;
    int fd, r;

    /* NO_XDEV: a mount that was left here is not ours to empty. */
    fd = sys_openat2(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0,
                     OPEN_PLAIN | RESOLVE_NO_XDEV);
    if (fd < 0)
        return err_errno(w->err, fd, "open %s", name);
    dir = fdopendir(fd);
    if (dir == NULL) {
        (void)close(fd);
        return err_errno(w->err, -ENOMEM, "read %s", name);
    }
    if (depth == 0)
        w->top_fd = fd;

    while (errno = 0, (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        r = remove_entry(w, dirfd(dir), entry->d_name, depth);
        if (r < 0)
            return r;
    }
    return errno == 0 ? 0 : err_errno(w->err, -errno, "read %s", name);
}

int rmtree_at(int dirfd, const char *name, struct err *err)
{
    struct walk w = {.top_fd = FD_NONE, .err = err};
    int r;

    if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR)
        return err_errno(err, -errno, "remove %s", name);
    do {
        w.again = false;
        r = empty_dir(&w, dirfd, name, 0);
        if (r < 0)
            return r;
    } while (w.again);
    return unlinkat(dirfd, name, AT_REMOVEDIR) < 0 ? err_errno(err, -errno, "remove %s", name) : 0;
}
