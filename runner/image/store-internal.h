#pragma once

/* Shared by store.c (blobs, locks), index.c (index.json) and image.c. */

#include "image/store.h"

struct image_store {
    int dir, blobs, tmp; /* owned; O_DIRECTORY */
};

/* Locks index.json: LOCK_SH or LOCK_EX. Returns the fd. */
int store_lock(struct image_store *s, int how, struct err *err);
/* Locks `use` exclusively without waiting; -EWOULDBLOCK. */
int store_collect_lock(struct image_store *s);
/* Calls `one` for each directory entry but . and ..; stops at the first non-zero result. */
int store_each_file(int dir_fd, int (*one)(void *arg, int dir_fd, const char *name), void *arg);

/* image.c: reads an image by its manifest's digest. The caller fills in names and loaded_ms. */
int image_read(struct image_store *s, const char *manifest, struct image **ret, struct err *err);
