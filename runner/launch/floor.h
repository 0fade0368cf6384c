#pragma once

/*
 * The seccomp floor: what no policy can allow. The launcher adds it to every sandbox whatever the
 * supervisor asks for; init installs it on itself before it starts anything, so that everything
 * inside inherits it. (A filter is inherited and cannot be taken off: a narrower filter on init
 * would be a narrower filter on every process inside.)
 */

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>

enum { FLOOR_MAX = 256 };

/*
 * Writes the program; returns the number of instructions. guarded: the sandbox has a host directory
 * that it may write to as its owner, in which no set-id file may come to be. Calls that could make
 * one are then asked of init (shim/init/guard.h); those that need no asking, or where the answer
 * would be the same everywhere, are refused here.
 */
size_t floor_build(struct sock_filter out[FLOOR_MAX], bool guarded);

/*
 * What a guarded sandbox's processes may not do beside, but init itself must: ask by openat2, whose
 * mode lies in memory, and make user namespaces, in which they would have all capabilities over the
 * guarded files. It is installed on each process before its execve.
 */
size_t floor_build_guard(struct sock_filter out[FLOOR_MAX]);
