#pragma once

/*
 * Unpacks an archive from a sandbox, which is hostile. Each name is resolved beneath the
 * destination without following links. Existing files are replaced, never written through; existing
 * directories stay. No devices are created, and modes are limited to 0777.
 */

#include <stddef.h>
#include <sys/types.h>

struct err;

/* As the read callback of tar_in: returns len bytes, fewer only at the end, or a negative errno. */
typedef ssize_t unpack_read(void *data, void *buf, size_t len);

/*
 * Unpacks into dirfd (borrowed). only: all entries must have this path or be beneath it; NULL: any.
 * Entries that are no file, directory or link are skipped with a message on stderr, and counted in
 * *ret_skipped. After a failure the entries already unpacked stay. Blocks.
 */
int unpack(int dirfd, const char *only, unpack_read *read, void *data, size_t *ret_skipped,
           struct err *err);
