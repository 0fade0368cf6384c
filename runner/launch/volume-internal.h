#pragma once

/* Shared by the files of volumes. Private to launch/. */

#include <stdint.h>

#include "launch/sandbox.h"
#include "launch/volume.h"

#define VOLUME_KEEP   "keep"
#define VOLUME_META   "meta"
#define VOLUME_LOCK   "lock"
#define VOLUME_FILLED "filled"
#define VOLUME_DATA   "data"
#define VOLUME_NEW    "data.new"
#define VOLUME_DISK   "disk"
#define VOLUME_NEWER  "disk.new" /* while it is being filled */

/* Opens <state>/volumes/<name>. Returns the fd; -ENOENT. */
int volume_open(const struct launcher *l, const char *name, struct err *err);
/* Takes its lock, shared or exclusive (`alone`), without waiting: -EBUSY. Returns the fd that holds
 * it. */
int volume_lock(int dir_fd, const char *name, bool alone, struct err *err);
/* True if it has a disk, or a directory of contents: it was used or filled. */
bool volume_has_contents(int dir_fd);
/* Returns its contents as a detached mount with these attributes. data/ must exist, unless the
 * volume has a disk. */
int volume_data_mount(int dir_fd, const char *name, struct mount_attr *attr, struct err *err);
/* True if it has a size limit: its contents are in a file system image then. */
bool volume_has_disk(int dir_fd);
/* Checks that this creator may use the volume: -EPERM. */
int volume_check(int dir_fd, const char *name, const struct creator *who, struct err *err);

/* volume-copy.c: the filling child, once its namespaces exist. src: the root of the image's merged
 * tree; path: a directory in it; dst: an empty directory. Closes all fds but these and `report`.
 * Exits with enum fill_exit; does not return. */
enum fill_exit { FILL_DONE = 0, FILL_NOTHING = 2, FILL_FAILED = 1 };
struct fill_job {
    int src, dst, report;
    const char *path;
    uint64_t reserve; /* bytes to keep free on dst's file system */
    bool must;        /* a missing path is an error */
    bool sync;        /* sync before reporting: the source may be removed afterwards */
};
_Noreturn void fill_run(const struct fill_job *job);

/* volume-hide.c: volume_hide renames `name` of at_fd to a hidden name, at once.
 * volumes_remove_hidden removes all that is hidden; in another process if other clients wait for
 * the launcher. volumes_each_hidden returns true if there is any; with `remove` it removes it. */
int volume_hide(struct launcher *l, int at_fd, const char *name, struct err *err);
void volumes_remove_hidden(struct launcher *l);
bool volumes_each_hidden(int volumes_fd, bool remove);
