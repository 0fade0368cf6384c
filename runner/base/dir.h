#pragma once

/* Iterates over directories: `auto_ptr(dir_close) DIR *d = dir_open(at, name);`, then dir_next. */

#include <dirent.h>

#include "base/auto.h"

/* Opens a new stream over a directory, without following a symlink. name ".": dirfd itself, from
 * its beginning. NULL: failed, see errno. */
DIR *dir_open(int dirfd, const char *name);

/* Makes a stream over fd, which is always taken (closed on failure). NULL: failed, see errno. fd
 * < 0: NULL, errno is unchanged. */
DIR *dir_take(int fd);

/* Returns the next entry except "." and "..". NULL: the end (errno 0), or a failure (errno set). */
struct dirent *dir_next(DIR *d);

void dir_close(DIR *d);
DEFINE_AUTO(DIR, dir_close);
