/* Walks a tree by fds (cmd.h). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "files/cmd.h"

enum { READ_BYTES = 32768 };

/* Layout of getdents64. */
struct walk_entry {
    uint64_t ino;
    int64_t next;
    uint16_t size;
    uint8_t type;
    char name[];
};

static void walk_push(struct walk *w, int fd)
{
    struct walk_level *l = &w->levels[w->depth++];

    l->fd = fd;
    l->path_len = w->path_len;
    l->at = l->have = 0;
    if (l->buf == NULL)
        l->buf = malloc(READ_BYTES); /* kept for the next directory at this depth */
    if (l->buf == NULL)
        shim_die_errno(-ENOMEM);
}

void walk_init(struct walk *w, int fd)
{
    w->depth = 0;
    w->kinds_only = false;
    w->path_len = 0;
    w->path[0] = '\0';
    walk_push(w, fd);
}

void walk_done(struct walk *w)
{
    while (w->depth > 0)
        (void)close(w->levels[--w->depth].fd);
}

int walk_dir(const struct walk *w)
{
    return w->levels[w->depth - 1].fd;
}

/* Returns the next name and type of a directory, without "." and ".."; NULL at its end. */
static int level_next_name(struct walk_level *l, const char **ret, uint8_t *ret_type)
{
    for (;;) {
        const struct walk_entry *e;

        if (l->at >= l->have) {
            long n = syscall(SYS_getdents64, l->fd, l->buf, READ_BYTES);

            /* A directory that was removed while it is open has no entries. */
            if (n < 0 && errno != ENOENT)
                return -errno;
            *ret = NULL;
            if (n <= 0)
                return 0;
            l->at = 0;
            l->have = (size_t)n;
        }
        e = (const void *)(l->buf + l->at);
        l->at += e->size;
        *ret = e->name;
        *ret_type = e->type;
        if (strcmp(e->name, ".") != 0 && strcmp(e->name, "..") != 0)
            return 0;
    }
}

/* Appends the name to the directory's path. */
static int walk_set_name(struct walk *w, const struct walk_level *l, const char *name)
{
    size_t at = l->path_len, len = strlen(name);

    if (at > 0)
        at++;
    if (at + len > FILE_PATH_MAX)
        return -ENAMETOOLONG;
    if (at > 0)
        w->path[at - 1] = '/';
    memcpy(w->path + at, name, len + 1);
    w->path_len = at + len;
    w->name = w->path + at;
    return 0;
}

static int walk_pop(struct walk *w)
{
    struct walk_level *l = &w->levels[--w->depth];

    (void)close(l->fd);
    w->path_len = l->path_len;
    w->path[w->path_len] = '\0';
    return w->depth > 0 ? WALK_LEAVE : WALK_END;
}

void walk_leave(struct walk *w)
{
    (void)walk_pop(w);
}

/* Stats the entry; skips that if only the type is needed and d_type has it. */
static int walk_stat(struct walk *w, uint8_t type)
{
    if (w->kinds_only && type != DT_UNKNOWN) {
        w->st = (struct stat){.st_mode = (mode_t)DTTOIF(type)};
        return 0;
    }
    return fstatat(w->dirfd, w->name, &w->st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

int walk_next(struct walk *w)
{
    while (w->depth > 0) {
        struct walk_level *l = &w->levels[w->depth - 1];
        const char *name = NULL;
        uint8_t type = DT_UNKNOWN;
        int r = level_next_name(l, &name, &type);

        if (r < 0) {
            w->path_len = l->path_len;
            w->path[w->path_len] = '\0';
            return r;
        }
        if (name == NULL)
            return walk_pop(w);
        r = walk_set_name(w, l, name);
        if (r < 0)
            return r;
        w->dirfd = l->fd;
        w->error = walk_stat(w, type);
        if (w->error != -ENOENT)
            return WALK_ENTRY;
    }
    return WALK_END;
}

int walk_enter(struct walk *w)
{
    int fd;

    if (w->depth > FILE_LIST_DEPTH_MAX)
        return -ELOOP;
    fd = cmd_open_at(w->dirfd, w->name, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return fd;
    walk_push(w, fd);
    return 0;
}
