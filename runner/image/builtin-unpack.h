#pragma once

/*
 * Unpacks the archives embedded in the binary, as rootfs-builder/ustar.py writes them: files,
 * directories and symbolic links. It is not meant for archives from outside.
 */

#include <stddef.h>

struct err;

/*
 * Unpacks into an empty directory owned by this user. Entries never follow links or replace files;
 * owners, modes and times are the archive's. Syncs everything below dirfd; the caller syncs dirfd
 * itself. After a failure the entries already unpacked stay. Blocks.
 */
int builtin_unpack(int dirfd, const void *data, size_t len, struct err *err);
