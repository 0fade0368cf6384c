#pragma once

/* The options of a tmpfs. */

#include <stdint.h>

#include "spec/spec.h"

struct err;

enum {
    TMPFS_MODE_DEFAULT = 01777,
    TMPFS_MODE_MAX = 07777,
    TMPFS_MODE_DIGITS_MAX = 5, /* "01777" */
};
#define TMPFS_BYTES_DEFAULT (INT64_C(64) << 20)

/* A tmpfs without a target: 64 MiB, writable, 01777 and root's. */
static inline struct tmpfs tmpfs_default(void)
{
    return (struct tmpfs){.bytes = TMPFS_BYTES_DEFAULT, .mode = TMPFS_MODE_DEFAULT};
}

/*
 * Applies "ro,noexec,size=64m,mode=0700,uid=1000" to t; of contradicting words the last one counts,
 * as in mount(8). -EINVAL, -ERANGE; -EPERM for suid and dev.
 */
int tmpfs_parse_options(const char *options, struct tmpfs *t, struct err *err);
/* Parses octal digits. */
int tmpfs_parse_mode(const char *text, uint32_t *ret, struct err *err);
