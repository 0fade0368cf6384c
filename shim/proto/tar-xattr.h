#pragma once

/* Extended attributes in pax headers, for tar.c. Pure. */

#include <stdbool.h>
#include <stddef.h>

/*
 * Returns true for the attributes that a process of a sandbox may set: user.*, capabilities (which
 * the kernel binds to the caller's user namespace) and ACLs. Others belong to the host or to
 * another system (trusted.*, security.selinux, com.apple.*).
 */
bool tar_xattr_settable(const char *name);

/*
 * Decodes an attribute as libarchive writes it beside or instead of SCHILY.xattr, in place: %XX in
 * the name, base64 with or without padding in the value. *len is the value's length before and
 * after. Returns false for other text, and for a name with NUL or '=', which no other form of the
 * header has.
 */
bool tar_xattr_decode(char *name, char *value, size_t *len);
