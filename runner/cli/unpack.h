#pragma once

/*
 * Unpacks an archive that comes from a sandbox, which is hostile: each name is resolved beneath the
 * destination and through no link, what is there is replaced and never written through, nothing
 * becomes a device, and no file gets more rights than its owner's. Directories stay directories.
 */

#include <stddef.h>
#include <sys/types.h>

struct err;

/* As tar_in's read: up to len bytes, fewer only at the end; negative errno. */
typedef ssize_t unpack_read(void *data, void *buf, size_t len);

/*
 * Beneath dirfd (borrowed). only: the one name that all entries must be, or be beneath; NULL: any.
 * What is no file, directory or link is left out, told on stderr, and counted in *ret_skipped. On
 * failure what was unpacked stays.
 */
int unpack(int dirfd, const char *only, unpack_read *read, void *data, size_t *ret_skipped,
           struct err *err);
