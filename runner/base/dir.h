#pragma once

/* Directories, entry by entry: `auto_ptr(dir_close) DIR *d = dir_open(at, name);`, dir_next. */

#include <dirent.h>

#include "base/auto.h"

/* A stream of its own over a directory; a link in its place is refused. ".": over the one that
 * dirfd is, from its beginning. NULL with errno. */
DIR *dir_open(int dirfd, const char *name);

/* A stream over fd, which is the stream's from now on, and closed where there is none: NULL with
 * errno. fd < 0: NULL, errno as it is. */
DIR *dir_take(int fd);

/* The next entry but "." and "..". NULL: the end, with errno 0, or a failure, with its errno. */
struct dirent *dir_next(DIR *d);

void dir_close(DIR *d);
DEFINE_AUTO(DIR, dir_close);
