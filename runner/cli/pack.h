#pragma once

/* Packs a local file or directory tree into a tar archive, for a sandbox. */

#include <stddef.h>

struct err;

/*
 * Consumes bytes of the archive. Returns 0; 1: no more are wanted (pack then returns 1); negative:
 * failed.
 */
typedef int pack_put(void *data, const void *bytes, size_t len, struct err *err);

/*
 * Packs path; its last component is named `name` in the archive ("": only the directory's
 * contents). Symbolic links stay links; `follow` resolves the last component of path. Sockets,
 * devices and FIFOs are skipped with a message on stderr, and counted. If a file changes meanwhile,
 * pack fails at the end. Blocks.
 */
int pack(const char *path, const char *name, int follow, pack_put *put, void *data,
         size_t *ret_skipped, struct err *err);
