/* Walks down by the names in each directory and keeps no directory open. The current entry is
 * opened by its whole path, through no link, in both trees. So a path that is replaced meanwhile is
 * another entry of the tree or none, never one of another tree. */
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

/* A directory above the current entry. */
struct changes_level {
    struct changes_level *up; /* NULL: the top */
    size_t len;               /* length of its path */
    bool told;                /* the directory's record is written; the top needs none */
};

struct changes_walk {
    const struct changes_options *o; /* borrowed */
    const struct changes_sink *sink; /* borrowed */
    struct opaque opaque;
    uint64_t entries;
    char path[1 + PATH_ROOM]; /* the current entry's path; path[0] is '/' */
};

static int walk_too_many(const struct changes_walk *w, struct err *err)
{
    return err_set(err, -E2BIG, "more than %" PRIu64 " entries", w->o->entries);
}

static int walk_count(struct changes_walk *w, struct err *err)
{
    if (w->entries >= w->o->entries)
        return walk_too_many(w, err);
    w->entries++;
    if (w->o->shown != NULL)
        *w->o->shown = w->entries;
    return 0;
}

/* ---- records ---- */

static int record_put(struct changes_walk *w, char kind, size_t len, struct err *err)
{
    int r = w->sink->bytes(w->sink->data, &kind, 1, err);

    if (r == 0)
        r = w->sink->bytes(w->sink->data, w->path, len, err);
    return r < 0 ? r : w->sink->bytes(w->sink->data, "", 1, err);
}

static int record_write_dirs(struct changes_walk *w, struct changes_level *l, struct err *err)
{
    int r;

    if (l->told)
        return 0;
    r = record_write_dirs(w, l->up, err);
    if (r < 0)
        return r;
    l->told = true;
    return record_put(w, 'C', l->len, err);
}

/* Writes a record for w->path, an entry of the directory l, after those of the directories above.
 */
static int record_write(struct changes_walk *w, struct changes_level *l, char kind, struct err *err)
{
    int r = record_write_dirs(w, l, err);

    return r < 0 ? r : record_put(w, kind, strlen(w->path), err);
}

/* ---- the trees ---- */

static const char *walk_relative_path(const struct changes_walk *w)
{
    return w->path[1] != '\0' ? w->path + 1 : ".";
}

/* Stats w->path in a tree. Returns 1, or 0 if it does not exist. */
static int tree_stat(const struct changes_walk *w, int tree, struct stat *ret, struct err *err)
{
    auto_close int fd =
        sys_openat2(tree, walk_relative_path(w), O_PATH | O_NOFOLLOW, 0, OPEN_PLAIN);

    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
        return 0;
    if (fd < 0)
        return err_errno(err, fd, "open");
    return fstat(fd, ret) < 0 ? err_errno(err, -errno, "stat") : 1;
}

/* Reads the names in the directory w->path of a tree; none if it does not exist. */
static int tree_list(const struct changes_walk *w, int tree, struct sorted_names *ret,
                     struct err *err)
{
    auto_close int fd =
        sys_openat2(tree, walk_relative_path(w), O_RDONLY | O_DIRECTORY, 0, OPEN_PLAIN);
    int r;

    *ret = (struct sorted_names){.count = 0};
    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
        return 0;
    if (fd < 0)
        return err_errno(err, fd, "open");
    r = names_read(ret, fd, w->o->entries - w->entries);
    if (r == -E2BIG)
        return walk_too_many(w, err);
    return r < 0 ? err_errno(err, r, "read the directory") : 0;
}

static int walk_push_name(struct changes_walk *w, size_t len, const char *name, struct err *err)
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

static int walk_directory(struct changes_walk *w, struct changes_level *l, bool below,
                          struct err *err);

/* Compares w->path; lower: the entry that it covers, or NULL. */
static int walk_entry(struct changes_walk *w, struct changes_level *l, const struct stat *upper,
                      const struct stat *lower, struct err *err)
{
    struct changes_level own = {.up = l, .len = strlen(w->path)};
    bool merged = S_ISDIR(upper->st_mode) && lower != NULL && S_ISDIR(lower->st_mode);
    int r = 0;

    if (is_whiteout(upper))
        return lower != NULL ? record_write(w, l, 'D', err) : 0;
    if (!merged || !is_same_directory(upper, lower)) {
        own.told = true;
        r = record_write(w, l, lower != NULL ? 'C' : 'A', err);
    }
    return r < 0 || !S_ISDIR(upper->st_mode) ? r : walk_directory(w, &own, merged, err);
}

/* Writes a record for each entry below that an opaque directory hides and does not replace. */
static int walk_hidden(struct changes_walk *w, struct changes_level *l,
                       const struct sorted_names *upper, struct err *err)
{
    struct sorted_names lower;
    int r = tree_list(w, w->o->lower_fd, &lower, err);

    for (size_t i = 0; r == 0 && i < lower.count; i++) {
        if (names_has(upper, lower.items[i]))
            continue;
        r = walk_count(w, err);
        if (r == 0)
            r = walk_push_name(w, l->len, lower.items[i], err);
        if (r == 0)
            r = record_write(w, l, 'D', err);
        if (r == 0)
            w->path[l->len] = '\0';
    }
    names_done(&lower);
    return r;
}

/* below: the lower tree has a directory of this path, too. */
static int walk_directory(struct changes_walk *w, struct changes_level *l, bool below,
                          struct err *err)
{
    struct sorted_names names;
    int r = tree_list(w, w->o->upper_fd, &names, err);

    if (r == 0 && below && opaque_has(&w->opaque, w->path + 1))
        r = walk_hidden(w, l, &names, err);
    for (size_t i = 0; r == 0 && i < names.count; i++) {
        struct stat upper, lower;
        int there = 0;

        r = walk_count(w, err);
        if (r == 0)
            r = walk_push_name(w, l->len, names.items[i], err);
        if (r < 0)
            break;
        r = tree_stat(w, w->o->upper_fd, &upper, err);
        if (r > 0)
            there = below ? tree_stat(w, w->o->lower_fd, &lower, err) : 0;
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
    struct changes_level top = {.len = 1, .told = true};
    struct changes_walk *w = calloc(1, sizeof(*w));
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
