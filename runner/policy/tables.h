#pragma once

/*
 * Names and numbers shared by policies and command lines. Each table ends with a {0} row (name
 * NULL).
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/strtab.h"

extern const struct strtab capability_names[]; /* "CAP_CHOWN" -> 0 */
extern const struct strtab rlimit_names[];     /* "RLIMIT_NOFILE" -> RLIMIT_NOFILE */
extern const struct strtab net_mode_names[];   /* "none" -> NET_NONE */

/* RLIMIT_* for a name in the command line's form ("nofile", "as"), or -ENOENT. */
int rlimit_by_option(const char *name);
/*
 * True if a sandbox may have this hard limit. Hard limits are raised with the host's rights. A
 * real-time priority, or a nice value below 0, would take precedence over the host's own processes.
 */
bool rlimit_grantable(uint64_t resource, uint64_t hard);
