#pragma once

/* Names and numbers that policies and command lines share. All end with {0} rows (name NULL). */

#include "base/strtab.h"

extern const struct strtab capability_names[]; /* "CAP_CHOWN" -> 0 */
extern const struct strtab rlimit_names[];     /* "RLIMIT_NOFILE" -> RLIMIT_NOFILE */
extern const struct strtab net_mode_names[];   /* "none" -> NET_NONE */

/* RLIMIT_* of a name as command lines write it ("nofile", "as"), or -ENOENT. */
int rlimit_by_option(const char *name);
