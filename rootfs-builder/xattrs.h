#pragma once

/* Which extended attributes are packed and unpacked. Pure. */

#include <stdbool.h>

/* Returns true for user attributes, capabilities (which the kernel binds to the user namespace in
 * which they are set), and ACLs. Not for those that overlayfs interprets, in any namespace, and not
 * for trusted.* and security labels, which belong to the host. */
bool xattr_is_carried(const char *name);
