#pragma once

/* Names in archives, made into paths beneath a directory. Pure. */

#include <stdio.h>

#include "image/worker-proto.h"

enum { PATH_ROOM = WORKER_PATH_MAX + 1 };

/* Names of whiteouts, as AUFS began them and OCI has them. */
#define WHITEOUT        ".wh."
#define WHITEOUT_META   ".wh..wh."
#define WHITEOUT_OPAQUE ".wh..wh..opq"

/*
 * The path that name stands for beneath the top: relative, without empty, "." and ".." components;
 * "" is the top itself. As containerd reads names: absolute ones start at the top, and ".." goes
 * no higher than it. -ENAMETOOLONG when a component or the whole is longer than Linux takes.
 */
int path_clean(const char *name, char out[PATH_ROOM]);

/* Where the last component of a clean path starts; what stands in front of it and its slash goes to
 * parent ("" for the top). */
const char *path_split(const char *path, char parent[PATH_ROOM]);

static inline void path_copy(char out[PATH_ROOM], const char *path)
{
    (void)snprintf(out, PATH_ROOM, "%s", path);
}

/* parent + "/" + name, either of them may be "". -ENAMETOOLONG. */
int path_join(const char *parent, const char *name, char out[PATH_ROOM]);
