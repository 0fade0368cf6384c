#pragma once

/*
 * The host's own users and groups, from /etc/passwd and /etc/group. Not by libc's calls, which load
 * modules of the name service into whoever asks: rind is a static program, and runs as root.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* false: there is no such group. */
bool host_group(const char *name, gid_t *ret);
/* The name of a user, empty when there is none (or a longer one). */
void host_user_name(uid_t uid, char *name, size_t size);
