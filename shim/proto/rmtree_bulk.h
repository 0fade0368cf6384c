#pragma once

/*
 * A part of rmtree: removes the files of a large directory in the order of their inode numbers. In
 * hash order, the order of a scan, ext4 takes nearly twice as long.
 */

/* 0 or a negative errno; -EISDIR: the entry is no file. */
typedef int rmtree_unlink_fn(void *ctx, int dirfd, const char *name);

/*
 * Calls unlink for each file of the directory, from the fd's position on, and stops at the first
 * error but -EISDIR. What is no file is left where it is. Takes some MiB for the time of the call;
 * -ENOMEM when they are not to be had, and then nothing was done.
 */
int rmtree_bulk(int dirfd, rmtree_unlink_fn *unlink, void *ctx);
