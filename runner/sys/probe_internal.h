#pragma once

/* For the files of sys/probe*.c only. */

#include <stdint.h>
#include <sys/types.h>

struct probe_env;

/*
 * Enters new namespaces (CLONE_NEW* flags), so that nothing done afterwards is seen outside.
 * Without privileges a user namespace comes with them, in which the caller is root.
 */
int probe_enter(const struct probe_env *env, int flags);
/* Enters a user namespace, with more flags, where the caller's uid and gid are 0. */
int probe_enter_user(int flags);
/* A new mount namespace from which nothing propagates. */
int probe_enter_mounts(const struct probe_env *env);

/* A user namespace that maps 0..65535 to base..: an fd, or a negative errno. Leaves no process. */
int probe_userns(uint32_t base);

/* Forks a grandchild that dies with its parent and runs fn; its result. */
int probe_in_grandchild(int (*fn)(const struct probe_env *), const struct probe_env *env);
