#pragma once

/* Converts names in archives to paths below a directory. Pure. */

#include <stdio.h>

#include "image/worker-proto.h"

enum { PATH_ROOM = WORKER_PATH_MAX + 1 };

/* Names of whiteouts: AUFS's, adopted by OCI. */
#define WHITEOUT        ".wh."
#define WHITEOUT_META   ".wh..wh."
#define WHITEOUT_OPAQUE ".wh..wh..opq"

/* Converts name to a path below the top: relative, without empty, "." and ".." components; "" is
 * the top itself. As in containerd, absolute names start at the top, and ".." does not go above it.
 * -ENAMETOOLONG when a component or the whole is longer than Linux allows. */
int path_clean(const char *name, char out[PATH_ROOM]);

/* Returns the last component of a clean path; the part before it and its slash is copied to parent
 * ("" for the top). */
const char *path_split(const char *path, char parent[PATH_ROOM]);

static inline void path_copy(char out[PATH_ROOM], const char *path)
{
    (void)snprintf(out, PATH_ROOM, "%s", path);
}

/* Joins parent + "/" + name; either may be "". -ENAMETOOLONG. */
int path_join(const char *parent, const char *name, char out[PATH_ROOM]);
