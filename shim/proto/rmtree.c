/*
 * Theory of operation. The walk is a stack of levels: the directory being emptied, its parent, and
 * so on up to the top. A level with a slot has an open fd and a buffer of entries. The `pinned`
 * topmost levels and some of the deepest ones have a slot.
 *
 * When slots or fds run out, the shallowest unpinned level is closed. It keeps its device and inode
 * number and its scan position. To return to it, the walk opens ".." of its child and checks that
 * it is the same inode: a child that was moved elsewhere would lead elsewhere.
 *
 * If it is another inode, or if there are too many levels to remember, the walk falls back. It
 * returns to the nearest level that still has an fd, and scans that again from its start. Each such
 * pass has removed something, or counts as a restart, whose number is limited.
 *
 * Files of a directory with more entries than a buffer holds are removed in bulk first.
 */
#include "proto/rmtree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/dents.h"
#include "proto/rmtree-bulk.h"

/* musl has no kernel headers: struct open_how of linux/openat2.h, and two of its flags. */
struct how {
    uint64_t flags, mode, resolve;
};
enum { HOW_NO_XDEV = 0x01, HOW_NO_MAGICLINKS = 0x02 };

enum {
    SLOT_BYTES = 32768,  /* entries read per call */
    RESTARTS_MAX = 1000, /* passes lost because another process moves directories about */
    SWAPS_MAX = 8, /* changes of one entry between directory and file while it is being removed */
    LEVELS_FIRST = 64,
    PROC_PATH_BYTES = 32,
};

/* 16 + 24 and one or two temporary ones: fits into 64 fds beside stdio and a few of the caller's.
 */
const struct rmtree_limits rmtree_default_limits = {.pinned = 16, .recent = 24, .levels = 131072};

struct rmtree_slot {
    int fd;       /* owned; -1 = the slot is free */
    size_t level; /* the level that uses it */
    size_t at, end;
    char *buf; /* borrowed from walk.bufs: SLOT_BYTES */
};

struct rmtree_level {
    struct rmtree_slot *slot; /* borrowed; NULL = closed */
    dev_t dev; /* set when it is closed, with ino: must be equal when it is opened again */
    ino_t ino;
    int64_t resume; /* position where its scan continues */
    size_t name;    /* offset of its name into names */
    bool skipped;   /* it was reopened: if it is not empty at its end, it is scanned once more */
    bool bulk_done; /* its files have been removed in bulk, or are few */
    bool orphan;    /* the levels between it and the previous one were dropped */
};

struct rmtree_walk {
    int dirfd; /* borrowed */
    const char *top;
    unsigned flags;
    unsigned restarts;
    struct rmtree_limits limits;
    size_t slot_count;
    struct rmtree_slot *slots;   /* owned */
    char *bufs;                  /* owned; malloc'd pages take no memory until used */
    struct rmtree_level *levels; /* owned */
    size_t depth, cap;
    char *names; /* owned; names of the levels, NUL-terminated, in order */
    size_t names_len, names_cap;
};

/* ---- system calls ---- */

static int open_once(const struct rmtree_walk *w, int dirfd, const char *name)
{
    struct how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        .resolve = HOW_NO_XDEV | HOW_NO_MAGICLINKS,
    };
    int fd;

    do {
        if (w->flags & RMTREE_ONE_MOUNT)
            fd = (int)syscall(SYS_openat2, dirfd, name, &how, sizeof(how));
        else
            fd = openat(dirfd, name, (int)how.flags);
    } while (fd < 0 && errno == EINTR);
    return fd < 0 ? -errno : fd;
}

/* Formats "/proc/self/fd/N" without printf, which would double the shim's size. */
static void proc_path(char out[PROC_PATH_BYTES], int fd)
{
    static const char prefix[] = "/proc/self/fd/";
    char digits[PROC_PATH_BYTES];
    char *d = digits + sizeof(digits) - 1;

    *d = '\0';
    do
        *--d = (char)('0' + fd % 10);
    while ((fd /= 10) > 0);
    memcpy(out, prefix, sizeof(prefix) - 1);
    memcpy(out + sizeof(prefix) - 1, d, strlen(d) + 1);
}

/* Sets mode 0700 on the directory `name`, without following a link and without read permission. The
 * open that follows shows whether it helped. */
static void unlock_child(int dirfd, const char *name)
{
    int fd = openat(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char path[PROC_PATH_BYTES];

    if (fd < 0)
        return;
    proc_path(path, fd);
    (void)chmod(path, 0700);
    (void)close(fd);
}

static bool may_chmod(const struct rmtree_walk *w, int code)
{
    return code == -EACCES && (w->flags & RMTREE_CHMOD);
}

static int unlink_once(int dirfd, const char *name, int how)
{
    return unlinkat(dirfd, name, how) < 0 ? -errno : 0;
}

/* unlinkat where -ENOENT is success: another process was faster. dirfd is a directory of the tree,
 * or the top's parent. */
static int unlink_entry(const struct rmtree_walk *w, int dirfd, const char *name, int how)
{
    int r = unlink_once(dirfd, name, how);

    if (may_chmod(w, r) && dirfd != w->dirfd && fchmod(dirfd, 0700) == 0)
        r = unlink_once(dirfd, name, how);
    return r == -ENOENT ? 0 : r;
}

/* ---- slots and levels ---- */

static struct rmtree_level *walk_deepest(struct rmtree_walk *w)
{
    return &w->levels[w->depth - 1];
}

static const char *level_name(const struct rmtree_walk *w, const struct rmtree_level *l)
{
    return l == w->levels ? w->top : w->names + l->name;
}

static struct rmtree_slot *slot_find(struct rmtree_walk *w)
{
    for (size_t i = 0; i < w->slot_count; i++)
        if (w->slots[i].fd < 0)
            return &w->slots[i];
    return NULL;
}

static void slot_close(struct rmtree_level *l)
{
    if (l->slot == NULL)
        return;
    (void)close(l->slot->fd);
    l->slot->fd = -1;
    l->slot = NULL;
}

/* walk_open_dir() has ensured that a slot is free. */
static void slot_take(struct rmtree_walk *w, int fd, size_t level)
{
    struct rmtree_slot *s = slot_find(w);

    if (s == NULL)
        abort();
    s->fd = fd;
    s->level = level;
    s->at = s->end = 0;
    w->levels[level].slot = s;
}

/* Returns the slot of the shallowest open level, from `from` on, except the deepest; NULL if there
 * is none. */
static struct rmtree_slot *walk_shallowest(struct rmtree_walk *w, size_t from)
{
    struct rmtree_slot *found = NULL;

    for (size_t i = 0; i < w->slot_count; i++) {
        struct rmtree_slot *s = &w->slots[i];

        if (s->fd >= 0 && s->level >= from && s->level + 1 < w->depth &&
            (found == NULL || s->level < found->level))
            found = s;
    }
    return found;
}

/* Closes a level to free its slot and fd: an unpinned one, or else any but the top, which is the
 * last resort of walk_fall_back. -EMFILE when there is none: all fds of the process are in use
 * elsewhere. */
static int level_evict(struct rmtree_walk *w)
{
    struct rmtree_slot *s = walk_shallowest(w, w->limits.pinned);
    struct rmtree_level *l;
    struct stat st;

    if (s == NULL)
        s = walk_shallowest(w, 1);
    if (s == NULL)
        return -EMFILE;
    if (fstat(s->fd, &st) < 0)
        return -errno;
    l = &w->levels[s->level];
    l->dev = st.st_dev;
    l->ino = st.st_ino;
    slot_close(l);
    return 0;
}

/* open_once that frees an fd or slot if necessary, and with RMTREE_CHMOD changes the mode. */
static int walk_open_dir(struct rmtree_walk *w, int dirfd, const char *name)
{
    bool tried = false;
    int fd, r;

    if (slot_find(w) == NULL) {
        r = level_evict(w);
        if (r < 0)
            return r;
    }
    for (;;) {
        fd = open_once(w, dirfd, name);
        if (fd == -EMFILE) {
            r = level_evict(w);
            if (r < 0)
                return r;
        } else if (may_chmod(w, fd) && !tried) {
            tried = true;
            if (dirfd != w->dirfd)
                (void)fchmod(dirfd, 0700); /* as in unlock_child */
            unlock_child(dirfd, name);
        } else {
            return fd;
        }
    }
}

static int walk_reserve_level(struct rmtree_walk *w)
{
    size_t cap = w->cap == 0 ? LEVELS_FIRST : w->cap * 2;
    struct rmtree_level *p;

    if (w->depth < w->cap)
        return 0;
    p = realloc(w->levels, cap * sizeof(*p));
    if (p == NULL)
        return -ENOMEM;
    w->levels = p;
    w->cap = cap;
    return 0;
}

static int walk_reserve_name(struct rmtree_walk *w, size_t len)
{
    size_t cap = w->names_cap * 2;
    char *p;

    if (w->names_len + len <= w->names_cap)
        return 0;
    if (cap < w->names_len + len)
        cap = w->names_len + len + SLOT_BYTES;
    p = realloc(w->names, cap);
    if (p == NULL)
        return -ENOMEM;
    w->names = p;
    w->names_cap = cap;
    return 0;
}

/* Drops the levels between the pinned ones and the deepest, which becomes an orphan. */
static void walk_drop_middle(struct rmtree_walk *w)
{
    size_t to = w->limits.pinned, from = w->depth - 1;
    struct rmtree_level *l = &w->levels[to];

    for (size_t i = to; i < from; i++)
        slot_close(&w->levels[i]);
    w->levels[to] = w->levels[from];
    w->names_len = w->levels[to].name; /* an orphan is not removed by name */
    w->depth = to + 1;
    l->orphan = true;
    l->slot->level = to;
}

/* Pushes a new deepest level for an open directory; takes ownership of fd. name is copied and may
 * point anywhere. */
static int level_push(struct rmtree_walk *w, int fd, const char *name)
{
    size_t len = strlen(name) + 1;
    int r;

    if (w->depth >= w->limits.levels)
        walk_drop_middle(w);
    r = walk_reserve_level(w);
    if (r == 0)
        r = walk_reserve_name(w, len);
    if (r < 0) {
        (void)close(fd);
        return r;
    }
    w->levels[w->depth] = (struct rmtree_level){.name = w->names_len};
    memcpy(w->names + w->names_len, name, len);
    w->names_len += len;
    slot_take(w, fd, w->depth++);
    return 0;
}

static void level_drop(struct rmtree_walk *w)
{
    slot_close(walk_deepest(w));
    w->names_len = walk_deepest(w)->name;
    w->depth--;
}

static int level_rescan(struct rmtree_level *l)
{
    l->slot->at = l->slot->end = 0;
    l->resume = 0;
    l->skipped = false;
    return lseek(l->slot->fd, 0, SEEK_SET) < 0 ? -errno : 0;
}

/* Drops levels up to the nearest open one (the top always is), and scans that from its start. */
static int walk_fall_back(struct rmtree_walk *w)
{
    do
        level_drop(w);
    while (walk_deepest(w)->slot == NULL);
    return level_rescan(walk_deepest(w));
}

/* Opens the parent of the deepest level again. -ESTALE if it is another directory now. */
static int walk_reopen_parent(struct rmtree_walk *w)
{
    struct rmtree_level *parent = &w->levels[w->depth - 2];
    int fd = walk_open_dir(w, walk_deepest(w)->slot->fd, "..");
    struct stat st;

    /* No permission, removed, on another mount: it is not the directory that the walk came from. */
    if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM)
        return fd;
    if (fd < 0)
        return -ESTALE;
    if (fstat(fd, &st) < 0 || st.st_dev != parent->dev || st.st_ino != parent->ino ||
        lseek(fd, parent->resume, SEEK_SET) < 0) {
        (void)close(fd);
        return -ESTALE;
    }
    parent->skipped = true;
    slot_take(w, fd, w->depth - 2);
    return 0;
}

/* ---- the walk ---- */

static int unlink_file(void *ctx, int dirfd, const char *name)
{
    return unlink_entry(ctx, dirfd, name, 0);
}

/* Called when the first read of a directory has filled the buffer: removes its files, and starts
 * its scan again. */
static int level_bulk_remove(struct rmtree_walk *w, struct rmtree_level *l)
{
    int r = level_rescan(l);

    l->bulk_done = true;
    if (r == 0)
        r = rmtree_bulk(l->slot->fd, unlink_file, w);
    if (r < 0 && r != -ENOMEM) /* without the memory it is only slower */
        return r;
    return level_rescan(l);
}

/* Reads the next entries of a level; none at its end. */
static int level_refill(struct rmtree_walk *w, struct rmtree_level *l)
{
    struct rmtree_slot *s = l->slot;
    long n;
    int r;

    for (;;) {
        n = dents_read(s->fd, s->buf, SLOT_BYTES);
        if (n < 0)
            return (int)n;
        if (l->bulk_done || n < SLOT_BYTES - DENT_BYTES_MAX)
            break;
        r = level_bulk_remove(w, l);
        if (r < 0)
            return r;
    }
    l->bulk_done = true;
    s->at = 0;
    s->end = (size_t)n;
    return 0;
}

/* Sets *ret to the next entry of the deepest level, NULL at its end. */
static int walk_next_entry(struct rmtree_walk *w, const struct dent **ret)
{
    struct rmtree_level *l = walk_deepest(w);
    struct rmtree_slot *s = l->slot;

    for (;;) {
        const struct dent *e;

        if (s->at >= s->end) {
            int r = level_refill(w, l);

            if (r < 0)
                return r;
            if (s->end == 0) {
                *ret = NULL;
                return 0;
            }
        }
        e = (const void *)(s->buf + s->at);
        s->at += e->size;
        l->resume = e->next;
        if (!dent_is_dot(e)) {
            *ret = e;
            return 0;
        }
    }
}

/* Removes an entry of the deepest level, or enters it if it is a directory. The type is a hint: the
 * kernel may not know it, and it may have changed. */
static int walk_remove_entry(struct rmtree_walk *w, const struct dent *e)
{
    bool dir = e->type == DT_DIR || e->type == DT_UNKNOWN;
    int r = 0;

    for (int i = 0; i < SWAPS_MAX; i++) {
        int parent = walk_deepest(w)->slot->fd;

        if (dir) {
            r = walk_open_dir(w, parent, e->name);
            if (r >= 0)
                return level_push(w, r, e->name);
            if (r != -ENOTDIR && r != -ELOOP)
                return r == -ENOENT ? 0 : r;
        } else {
            r = unlink_entry(w, parent, e->name, 0);
            if (r != -EISDIR)
                return r;
        }
        dir = !dir;
    }
    return r;
}

/* The deepest level has no more entries: removes it from its parent and continues there. */
static int level_leave(struct rmtree_walk *w)
{
    struct rmtree_level *l = walk_deepest(w);
    int parent, r;

    if (l->orphan)
        return walk_fall_back(w);
    if (w->depth > 1 && l[-1].slot == NULL) {
        r = walk_reopen_parent(w);
        if (r == -ESTALE)
            return ++w->restarts > RESTARTS_MAX ? -EBUSY : walk_fall_back(w);
        if (r < 0)
            return r;
    }
    parent = w->depth > 1 ? l[-1].slot->fd : w->dirfd;
    r = unlink_entry(w, parent, level_name(w, l), AT_REMOVEDIR);
    if ((r == -ENOTEMPTY || r == -EEXIST) && l->skipped)
        return level_rescan(l);
    /* Another file has replaced it, and is one more entry of its parent. */
    if (r == -ENOTDIR && w->depth > 1)
        return ++w->restarts > RESTARTS_MAX ? -EBUSY : walk_fall_back(w);
    if (r == 0)
        level_drop(w);
    return r;
}

static int walk_run(struct rmtree_walk *w)
{
    int fd = walk_open_dir(w, w->dirfd, w->top);
    int r;

    if (fd < 0)
        return fd == -ELOOP ? -ENOTDIR : fd;
    r = level_push(w, fd, "");
    while (r == 0 && w->depth > 0) {
        const struct dent *e = NULL;

        r = walk_next_entry(w, &e);
        if (r == 0)
            r = e != NULL ? walk_remove_entry(w, e) : level_leave(w);
    }
    return r;
}

static int walk_alloc(struct rmtree_walk *w)
{
    w->slot_count = w->limits.pinned + w->limits.recent;
    w->slots = calloc(w->slot_count, sizeof(*w->slots));
    w->bufs = malloc(w->slot_count * SLOT_BYTES);
    if (w->slots == NULL || w->bufs == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < w->slot_count; i++) {
        w->slots[i].fd = -1;
        w->slots[i].buf = w->bufs + i * SLOT_BYTES;
    }
    return 0;
}

int rmtree_at_limits(int dirfd, const char *name, unsigned flags,
                     const struct rmtree_limits *limits)
{
    struct rmtree_walk w = {.dirfd = dirfd, .top = name, .flags = flags, .limits = *limits};
    int r = walk_alloc(&w);

    if (r == 0)
        r = walk_run(&w);
    while (w.depth > 0)
        level_drop(&w);
    free(w.slots);
    free(w.bufs);
    free(w.levels);
    free(w.names);
    return r;
}

int rmtree_at(int dirfd, const char *name, unsigned flags)
{
    return rmtree_at_limits(dirfd, name, flags, &rmtree_default_limits);
}
