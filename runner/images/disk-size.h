#pragma once

/*
 * The disk space that a sandbox's writable layer or a volume takes: blocks of the file system, each
 * inode once. A confined worker walks the tree, which is hostile: its entries and its time are
 * bounded. Few workers run at a time; the others wait in a queue, and are given up when they have
 * waited for long. A result is kept for some seconds.
 *
 * Runs in the supervisor's event loop.
 */

#include <stdbool.h>
#include <stdint.h>

struct err;
struct images;

enum disk_size_kind { DISK_SIZE_SANDBOX, DISK_SIZE_VOLUME };

struct disk_size {
    int64_t bytes; /* -1: not counted */
    bool partial;  /* a bound was reached: there are at least so many */
};

/* Returns true with a result that is still kept. name: the full id of a sandbox, or a volume's. */
bool disk_size_kept(const struct images *im, enum disk_size_kind kind, const char *name,
                    struct disk_size *ret);

/* Called once, from the event loop, never inside disk_size_count. */
typedef void (*disk_size_cb)(void *data, const struct disk_size *size);
/* Counts. -EAGAIN: too many wait already. A tree that cannot be read has -1 bytes. */
int disk_size_count(struct images *im, enum disk_size_kind kind, const char *name, disk_size_cb cb,
                    void *data, struct err *err);
