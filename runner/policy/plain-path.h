#pragma once

/* Normalized absolute paths: without "//", ".", ".." and a trailing "/". Pure. */

#include <stdbool.h>
#include <string.h>

/* False for "/". */
static inline bool path_is_plain(const char *path)
{
    if (*path != '/')
        return false;
    while (*path == '/') {
        size_t len = strcspn(++path, "/");

        if (len == 0 || (len == 1 && path[0] == '.') ||
            (len == 2 && path[0] == '.' && path[1] == '.'))
            return false;
        path += len;
    }
    return true;
}
