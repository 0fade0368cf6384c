#pragma once

/* A part of rmtree: removes the files of a large directory in the order of their inode numbers. In
 * hash order, the order of getdents, ext4 takes nearly twice as long. */

/* Returns 0 or a negative errno; -EISDIR: the entry is a directory. */
typedef int rmtree_unlink_fn(void *ctx, int dirfd, const char *name);

/* Calls unlink for each file of the directory, from the fd's position on, and stops at the first
 * error but -EISDIR. Directories are left where they are. Takes some MiB during the call; -ENOMEM
 * without them, and then nothing was done. */
int rmtree_bulk(int dirfd, rmtree_unlink_fn *unlink, void *ctx);
