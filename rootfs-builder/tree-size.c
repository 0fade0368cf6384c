/*
 * Walks a tree with one open directory per level. Each is opened by its name in the one above and
 * through no link, so a directory that is moved meanwhile is counted where it was found. There is
 * no step to "..". Runs in B of a worker; called by part.c.
 */
#include "tree-size.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "proto/dents.h"

enum {
    DENTS_BYTES = 16384,
    CLOCK_EVERY = 64, /* entries from one look at the clock to the next */
    LINKS_FIRST = 1024,
    BLOCK_BYTES = 512, /* the unit of st_blocks */
};

/* Inodes with several names that are counted already: a hash table with open addressing. Inode
 * number 0 marks a free place, and is no file's. */
struct links_seen {
    uint64_t *inodes;   /* owned */
    size_t count, room; /* room: a power of two, or 0 */
};

struct size_walk {
    const struct tree_size_limits *limits; /* borrowed */
    struct tree_size *size;                /* borrowed */
    struct links_seen links;
    dev_t dev;
    bool over; /* a bound of the whole walk is reached */
};

/* ---- inodes with several names ---- */

static size_t links_place(const uint64_t *inodes, size_t room, uint64_t inode)
{
    size_t at = (size_t)((inode * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (room - 1);

    while (inodes[at] != 0 && inodes[at] != inode)
        at = (at + 1) & (room - 1);
    return at;
}

static int links_grow(struct links_seen *l)
{
    size_t room = l->room > 0 ? 2 * l->room : LINKS_FIRST;
    uint64_t *more = calloc(room, sizeof(*more));

    if (more == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < l->room; i++)
        if (l->inodes[i] != 0)
            more[links_place(more, room, l->inodes[i])] = l->inodes[i];
    free(l->inodes);
    l->inodes = more;
    l->room = room;
    return 0;
}

/* Returns 1 if the inode is new, 0 if it was counted before. */
static int links_add(struct links_seen *l, uint64_t inode)
{
    size_t at;
    int r = 2 * l->count >= l->room ? links_grow(l) : 0;

    if (r < 0)
        return r;
    at = links_place(l->inodes, l->room, inode);
    if (l->inodes[at] == inode)
        return 0;
    l->inodes[at] = inode;
    l->count++;
    return 1;
}

/* ---- the walk ---- */

/* Counts one more entry. False: a bound is reached. */
static bool walk_may_go_on(struct size_walk *w)
{
    struct tree_size *s = w->size;

    if (!w->over)
        w->over = s->entries >= w->limits->entries ||
                  (s->entries % CLOCK_EVERY == 0 && clock_mono_ms() >= w->limits->end_ms);
    if (w->over) {
        s->partial = true;
        return false;
    }
    s->entries++;
    return true;
}

static int walk_directory(struct size_walk *w, int fd, unsigned depth);

static int walk_subdirectory(struct size_walk *w, int at, const char *name, unsigned depth)
{
    auto_close int fd = FD_NONE;

    if (depth == TREE_SIZE_DEPTH_MAX) {
        w->size->partial = true;
        return 0;
    }
    fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NOATIME | O_CLOEXEC);
    if (fd < 0 && errno == EPERM) /* O_NOATIME is for a file's owner */
        fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
        return 0; /* removed or replaced meanwhile */
    if (fd < 0 || walk_directory(w, fd, depth + 1) < 0)
        w->size->partial = true;
    return 0;
}

static int walk_entry(struct size_walk *w, int at, const char *name, unsigned depth)
{
    struct stat st;
    int r;

    if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0) {
        w->size->partial |= errno != ENOENT;
        return 0;
    }
    if (st.st_dev != w->dev)
        return 0; /* a mount, or a subvolume with files of its own */
    r = !S_ISDIR(st.st_mode) && st.st_nlink > 1 ? links_add(&w->links, (uint64_t)st.st_ino) : 1;
    if (r <= 0)
        return r;
    w->size->bytes += (uint64_t)st.st_blocks * BLOCK_BYTES;
    return S_ISDIR(st.st_mode) ? walk_subdirectory(w, at, name, depth) : 0;
}

static int walk_directory(struct size_walk *w, int fd, unsigned depth)
{
    auto_free char *buf = malloc(DENTS_BYTES);
    long n;
    int r = 0;

    if (buf == NULL)
        return -ENOMEM;
    while (r == 0 && !w->over && (n = dents_read(fd, buf, DENTS_BYTES)) != 0) {
        if (n < 0)
            return (int)n;
        for (long at = 0; r == 0 && at < n;) {
            const struct dent *e = (const void *)(buf + at);

            at += e->size;
            if (dent_is_dot(e))
                continue;
            if (!walk_may_go_on(w))
                break;
            r = walk_entry(w, fd, e->name, depth);
        }
    }
    return r;
}

int tree_size_count(int dir_fd, const struct tree_size_limits *limits, struct tree_size *ret,
                    struct err *err)
{
    struct tree_size size = {.bytes = 0};
    struct size_walk w = {.limits = limits, .size = &size};
    /* The fd of a tree may be O_PATH. */
    auto_close int top = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    int r;

    if (top < 0 || fstat(top, &st) < 0)
        return err_errno(err, -errno, "size: open the directory");
    w.dev = st.st_dev;
    r = walk_directory(&w, top, 0);
    free(w.links.inodes);
    if (r < 0)
        return err_errno(err, r, "size: read the directory");
    *ret = size;
    return 0;
}
