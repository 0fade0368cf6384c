#pragma once

/*
 * Adds up the disk space of a directory tree: the blocks of each inode once, however many names it
 * has, without those of the top directory. Runs in the process that reads a hostile tree (B of
 * worker.c). No link is followed and no other file system entered.
 *
 * Entries, time and depth are bounded. What lies beyond a bound is left out, and the result says
 * that it is a part.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum { TREE_SIZE_DEPTH_MAX = 200 /* one fd and one buffer per level */ };

struct tree_size_limits {
    uint64_t entries;
    int64_t end_ms; /* by clock_mono_ms */
};

struct tree_size {
    uint64_t bytes, entries;
    bool partial; /* a bound was reached, or a directory could not be read */
};

/* dir_fd: borrowed. Fails only if the top directory cannot be read, or for want of memory. */
int tree_size_count(int dir_fd, const struct tree_size_limits *limits, struct tree_size *ret,
                    struct err *err);
