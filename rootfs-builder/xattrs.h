#pragma once

/* Which extended attributes go into a tree, and out of one. Pure. */

#include <stdbool.h>

/*
 * Data of users, capabilities (which the kernel binds to the user namespace that they are set in),
 * and access lists. Not what overlayfs takes orders from, in whatever name space it looks for them,
 * and not trusted.* and the marks of security modules, which are the host's.
 */
bool xattr_is_carried(const char *name);
