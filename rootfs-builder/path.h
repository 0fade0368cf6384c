#pragma once

/* Names in archives, made into paths beneath a directory. Pure. */

#include <stdbool.h>

#include "image/worker-proto.h"

enum { PATH_ROOM = WORKER_PATH_MAX + 1 };

/*
 * The path that name stands for beneath the top: relative, without empty, "." and ".." components;
 * "" is the top itself. As containerd reads names: absolute ones start at the top, and ".." goes
 * no higher than it. -ENAMETOOLONG when a component or the whole is longer than Linux takes.
 */
int path_clean(const char *name, char out[PATH_ROOM]);

/* Where the last component of a clean path starts; what stands in front of it and its slash goes to
 * parent ("" for the top). */
const char *path_split(const char *path, char parent[PATH_ROOM]);

/* parent + "/" + name, either of them may be "". -ENAMETOOLONG. */
int path_join(const char *parent, const char *name, char out[PATH_ROOM]);
