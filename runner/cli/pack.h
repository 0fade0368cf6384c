#pragma once

/* Packs a file or a tree of ours into an archive, for a sandbox. */

#include <stddef.h>

struct err;

/* Takes bytes of the archive: 0; 1: no more are wanted (then pack ends with 1); negative: failed.
 */
typedef int pack_put(void *data, const void *bytes, size_t len, struct err *err);

/*
 * path, whose last component is named `name` in the archive ("": its contents alone). Links are
 * packed as links, the last one of path only without `follow`. Sockets, devices and FIFOs are left
 * out, told on stderr, and counted. A file that changes meanwhile is an error at the end.
 */
int pack(const char *path, const char *name, int follow, pack_put *put, void *data,
         size_t *ret_skipped, struct err *err);
