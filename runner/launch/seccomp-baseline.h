#pragma once

/*
 * The seccomp baseline: what no policy can allow. The launcher adds it to every sandbox, whatever
 * the supervisor requests. Init installs it on itself before it starts any process, so that all
 * processes inherit it. A filter cannot be removed: anything narrower on init would bind every
 * process inside.
 */

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>

enum { BASELINE_MAX = 256 };

/*
 * Writes the program to `out`; returns the number of instructions. guarded: the sandbox has a host
 * directory that it may write as the directory's owner, where no set-id file may be made. Calls
 * that could make one notify init, which decides (shim/init/guard.h). A call with only one possible
 * answer is refused by the filter itself.
 */
size_t baseline_build(struct sock_filter out[BASELINE_MAX], bool guarded);

/* Writes the additional filter for processes of a guarded sandbox; init itself needs these calls.
 * It refuses openat2, whose mode is in memory, and new user namespaces, in which a process would
 * have all capabilities over the guarded files. Init installs it on each process before execve. */
size_t baseline_build_guard(struct sock_filter out[BASELINE_MAX]);
