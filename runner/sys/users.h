#pragma once

/* The host's users and groups, from /etc/passwd and /etc/group. libc's functions would load NSS
 * modules into the process: rind is statically linked, and runs as root. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Looks up a user or group. Returns false if there is none. */
bool host_user(const char *name, uid_t *ret);
bool host_group(const char *name, gid_t *ret);
/* Looks up a user's name; "" when there is none or it does not fit. */
void host_user_name(uid_t uid, char *name, size_t size);
