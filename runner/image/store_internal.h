#pragma once

/* What the files of the store share: store.c (blobs, locks), index.c (index.json), image.c. */

#include "image/store.h"

struct image_store {
    int dir, blobs, tmp; /* owned; O_DIRECTORY */
};

/* The lock of index.json: LOCK_SH or LOCK_EX. Returns the fd. */
int store_lock(struct image_store *s, int how, struct err *err);
/* `use`, alone; -EWOULDBLOCK. */
int store_collect_lock(struct image_store *s);
/* Each entry of a directory but . and ..; ends at the first that is not 0. */
int store_each_file(int dir_fd, int (*one)(void *arg, int dir_fd, const char *name), void *arg);

/* image.c: by the digest of its manifest; names and loaded_ms are the caller's to fill in. */
int image_read(struct image_store *s, const char *manifest, struct image **ret, struct err *err);
