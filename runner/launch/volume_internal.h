#pragma once

/* What the files of volumes share. Private to launch/. */

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
#define VOLUME_NEWER  "disk.new" /* one that is being filled */

/* Opens <state>/volumes/<name>. Returns the fd; -ENOENT. */
int volume_open(const struct launcher *l, const char *name, struct err *err);
/* Its lock, shared or alone, without waiting: -EBUSY. Returns the fd that holds it. */
int volume_lock(int dir_fd, const char *name, bool alone, struct err *err);
/* What is in it, as a detached mount with these attributes. data/ is there, unless it has a size.
 */
int volume_data_mount(int dir_fd, const char *name, struct mount_attr *attr, struct err *err);
/* Whether it has a size: what is in it is in a file system of its own then. */
bool volume_has_disk(int dir_fd);
/* Whether who makes a sandbox may have this volume: -EPERM. */
int volume_check(int dir_fd, const char *name, const struct creator *who, struct err *err);

/*
 * volume-copy.c: what a filling process does, from its namespaces' being there to its end. src: the
 * root directory of the image's merged tree; path: in it; dst: an empty directory. All fds but
 * these and `report` are closed. Never returns; exits with enum fill_exit.
 */
enum fill_exit { FILL_DONE = 0, FILL_NOTHING = 2, FILL_FAILED = 1 };
struct fill_job {
    int src, dst, report;
    const char *path;
    uint64_t reserve; /* bytes that stay free where dst is */
    bool must;        /* nothing there is a failure */
    bool sync;        /* it is on the disk before it is told: what it is copied from may go */
};
_Noreturn void fill_run(const struct fill_job *job);

/* trash.c: moves `name` of at_fd out of the way, at once and for good; trash_empty removes what
 * lies there, in a process of its own where others wait for us. */
int trash_put(struct launcher *l, int at_fd, const char *name, struct err *err);
void trash_empty(struct launcher *l);
