#pragma once

/* What unpack has to remember of directories until its end: times, because each file that is made
 * in one changes them; and which are opaque. By path; nothing is ever forgotten. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct dir {
    size_t path; /* offset into dirs.text */
    struct timespec atime, mtime;
    bool has_times;
    bool implied; /* it is there because something in it is; the archive has no entry for it */
    bool opaque;
};

struct dirs {
    struct dir *items; /* owned */
    size_t count, cap;
    char *text; /* owned: the paths, each with a NUL */
    size_t text_len, text_cap;
    uint32_t *slots; /* owned: hash table of 1 + index */
    size_t slot_count;
    uint64_t seed; /* of the hash */
};

void dirs_done(struct dirs *d);
/* The directory's record, made when there is none; NULL: out of memory. Valid until the next call.
 */
struct dir *dirs_get(struct dirs *d, const char *path);
/* The same, NULL when there is none. */
struct dir *dirs_find(const struct dirs *d, const char *path);
static inline const char *dirs_path(const struct dirs *d, const struct dir *dir)
{
    return d->text + dir->path;
}
