/*
 * The walk goes down by the names of each directory on the way, of which none is kept open: what is
 * at hand is opened by its whole path, through no link, in both trees. So what is swapped meanwhile
 * is another entry, or none, but never one of another tree.
 */
#include "changes.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "names.h"
#include "proto/syscalls.h"

/* A directory on the way to the entry at hand. */
struct level {
    struct level *up; /* NULL: the top */
    size_t len;       /* of its path */
    bool told;        /* whether it has a record; the top needs none */
};

struct walk {
    const struct changes_options *o; /* borrowed */
    const struct changes_sink *sink; /* borrowed */
    struct opaque opaque;
    uint64_t entries;
    char path[1 + PATH_ROOM]; /* of the entry at hand; path[0] is '/' */
};

static int too_many(const struct walk *w, struct err *err)
{
    return err_set(err, -E2BIG, "more than %" PRIu64 " entries", w->o->entries);
}

static int count(struct walk *w, struct err *err)
{
    if (w->entries >= w->o->entries)
        return too_many(w, err);
    w->entries++;
    if (w->o->shown != NULL)
        *w->o->shown = w->entries;
    return 0;
}

/* ---- records ---- */

static int put(struct walk *w, char kind, size_t len, struct err *err)
{
    int r = w->sink->bytes(w->sink->data, &kind, 1, err);

    if (r == 0)
        r = w->sink->bytes(w->sink->data, w->path, len, err);
    return r < 0 ? r : w->sink->bytes(w->sink->data, "", 1, err);
}

static int tell_dirs(struct walk *w, struct level *l, struct err *err)
{
    int r;

    if (l->told)
        return 0;
    r = tell_dirs(w, l->up, err);
    if (r < 0)
        return r;
    l->told = true;
    return put(w, 'C', l->len, err);
}

/* w->path, an entry of the directory l. */
static int tell(struct walk *w, struct level *l, char kind, struct err *err)
{
    int r = tell_dirs(w, l, err);

    return r < 0 ? r : put(w, kind, strlen(w->path), err);
}

/* ---- the trees ---- */

static const char *relative(const struct walk *w)
{
    return w->path[1] != '\0' ? w->path + 1 : ".";
}

/* What w->path is in a tree: 1, or 0 when it is not there. */
static int look(const struct walk *w, int tree, struct stat *ret, struct err *err)
{
    auto_close int fd = sys_openat2(tree, relative(w), O_PATH | O_NOFOLLOW, 0, OPEN_PLAIN);

    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
        return 0;
    if (fd < 0)
        return err_errno(err, fd, "open");
    return fstat(fd, ret) < 0 ? err_errno(err, -errno, "stat") : 1;
}

/* The names in the directory w->path of a tree; none where it is not there. */
static int list(const struct walk *w, int tree, struct names *ret, struct err *err)
{
    auto_close int fd = sys_openat2(tree, relative(w), O_RDONLY | O_DIRECTORY, 0, OPEN_PLAIN);
    int r;

    *ret = (struct names){.count = 0};
    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
        return 0;
    if (fd < 0)
        return err_errno(err, fd, "open");
    r = names_read(ret, fd, w->o->entries - w->entries);
    if (r == -E2BIG)
        return too_many(w, err);
    return r < 0 ? err_errno(err, r, "read the directory") : 0;
}

static int append(struct walk *w, size_t len, const char *name, struct err *err)
{
    size_t n = strlen(name), slash = len > 1;

    if (len - 1 + slash + n > WORKER_PATH_MAX)
        return err_errno(err, -ENAMETOOLONG, "%.64s in it", name);
    if (slash > 0)
        w->path[len] = '/';
    (void)memcpy(w->path + len + slash, name, n + 1);
    return 0;
}

static bool is_whiteout(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

static bool is_same_directory(const struct stat *a, const struct stat *b)
{
    return a->st_mode == b->st_mode && a->st_uid == b->st_uid && a->st_gid == b->st_gid &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static int walk_directory(struct walk *w, struct level *l, bool below, struct err *err);

/* w->path; lower: what it is below, or NULL. */
static int walk_entry(struct walk *w, struct level *l, const struct stat *upper,
                      const struct stat *lower, struct err *err)
{
    struct level own = {.up = l, .len = strlen(w->path)};
    bool merged = S_ISDIR(upper->st_mode) && lower != NULL && S_ISDIR(lower->st_mode);
    int r = 0;

    if (is_whiteout(upper))
        return lower != NULL ? tell(w, l, 'D', err) : 0;
    if (!merged || !is_same_directory(upper, lower)) {
        own.told = true;
        r = tell(w, l, lower != NULL ? 'C' : 'A', err);
    }
    return r < 0 || !S_ISDIR(upper->st_mode) ? r : walk_directory(w, &own, merged, err);
}

/* What an opaque directory hides of the one below, and has nothing of its own for. */
static int tell_hidden(struct walk *w, struct level *l, const struct names *upper, struct err *err)
{
    struct names lower;
    int r = list(w, w->o->lower_fd, &lower, err);

    for (size_t i = 0; r == 0 && i < lower.count; i++) {
        if (names_has(upper, lower.items[i]))
            continue;
        r = count(w, err);
        if (r == 0)
            r = append(w, l->len, lower.items[i], err);
        if (r == 0)
            r = tell(w, l, 'D', err);
        if (r == 0)
            w->path[l->len] = '\0';
    }
    names_done(&lower);
    return r;
}

/* below: whether there is a directory of this path below, too. */
static int walk_directory(struct walk *w, struct level *l, bool below, struct err *err)
{
    struct names names;
    int r = list(w, w->o->upper_fd, &names, err);

    if (r == 0 && below && opaque_has(&w->opaque, w->path + 1))
        r = tell_hidden(w, l, &names, err);
    for (size_t i = 0; r == 0 && i < names.count; i++) {
        struct stat upper, lower;
        int there = 0;

        r = count(w, err);
        if (r == 0)
            r = append(w, l->len, names.items[i], err);
        if (r < 0)
            break;
        r = look(w, w->o->upper_fd, &upper, err);
        if (r > 0)
            there = below ? look(w, w->o->lower_fd, &lower, err) : 0;
        if (r > 0)
            r = there < 0 ? there : walk_entry(w, l, &upper, there > 0 ? &lower : NULL, err);
        if (r == 0)
            w->path[l->len] = '\0';
    }
    names_done(&names);
    return r;
}

int tree_changes(const struct changes_options *o, const struct changes_sink *sink,
                 uint64_t *ret_entries, char *reterr_entry, struct err *err)
{
    struct level top = {.len = 1, .told = true};
    struct walk *w = calloc(1, sizeof(*w));
    int r;

    reterr_entry[0] = '\0';
    if (w == NULL)
        return err_errno(err, -ENOMEM, "changes");
    w->o = o;
    w->sink = sink;
    w->path[0] = '/';
    r = opaque_index(&w->opaque, o->opaque, o->opaque_len, err);
    if (r == 0)
        r = walk_directory(w, &top, true, err);
    if (r < 0)
        path_copy(reterr_entry, w->path + 1);
    *ret_entries = w->entries;
    opaque_done(&w->opaque);
    free(w);
    return r;
}
