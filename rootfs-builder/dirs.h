#pragma once

/* Records of directories that unpack needs until its end. Times, because each file made in a
 * directory changes them; and which directories are opaque. Indexed by path; no record is ever
 * removed. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct dir {
    size_t path; /* offset into dirs.text */
    struct timespec atime, mtime;
    bool has_times;
    bool implied; /* made because an entry is in it; the archive has no entry for it */
    bool opaque;
};

struct dirs {
    struct dir *items; /* owned */
    size_t count, cap;
    char *text; /* owned: the paths, each with a NUL */
    size_t text_len, text_cap;
    uint32_t *slots; /* owned: hash table of 1 + index */
    size_t slot_count;
    uint64_t seed; /* of the hash function */
};

void dirs_done(struct dirs *d);
/* Returns the directory's record, and makes it if there is none; NULL: out of memory. Valid until
 * the next call. */
struct dir *dirs_get(struct dirs *d, const char *path);
/* Like dirs_get; NULL if there is none. */
struct dir *dirs_find(const struct dirs *d, const char *path);
static inline const char *dirs_path(const struct dirs *d, const struct dir *dir)
{
    return d->text + dir->path;
}
