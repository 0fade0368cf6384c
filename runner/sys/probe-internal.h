#pragma once

/* Shared by sys/probe*.c only. */

#include <stdint.h>
#include <sys/types.h>

struct probe_env;

/* Enters new namespaces (CLONE_NEW* flags), so that later changes are not visible outside. Without
 * privileges it enters a user namespace, too, in which the caller is root. */
int probe_enter(const struct probe_env *env, int flags);
/* Enters a user namespace, and those of more flags, with the caller's uid and gid mapped to 0. */
int probe_enter_user(int flags);

/* Makes a user namespace that maps 0..65535 to base..: returns an fd, or a negative errno. Leaves
 * no process. */
int probe_userns(uint32_t base);

/* Runs fn in a grandchild that dies with its parent; returns its result. */
int probe_in_grandchild(int (*fn)(const struct probe_env *), const struct probe_env *env);
