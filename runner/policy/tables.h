#pragma once

/* Names and numbers that policies and command lines share. All end with {0} rows (name NULL). */

#include <stdbool.h>
#include <stdint.h>

#include "base/strtab.h"

extern const struct strtab capability_names[]; /* "CAP_CHOWN" -> 0 */
extern const struct strtab rlimit_names[];     /* "RLIMIT_NOFILE" -> RLIMIT_NOFILE */
extern const struct strtab net_mode_names[];   /* "none" -> NET_NONE */

/* RLIMIT_* of a name as command lines write it ("nofile", "as"), or -ENOENT. */
int rlimit_by_option(const char *name);
/*
 * Whether a sandbox may have this hard limit at all. A hard limit is raised from outside, with the
 * host's rights: a real-time priority, or a nice value below 0, would be the host's processors
 * before everybody else's.
 */
bool rlimit_grantable(uint64_t resource, uint64_t hard);
