#pragma once

/*
 * Kernel parameters that a sandbox may set for itself: those that the kernel keeps for each net or
 * ipc namespace, and that take nothing from others. Pure; the launcher checks by it, too.
 */

#include <stdbool.h>
#include <stddef.h>

enum {
    SYSCTLS_MAX = 32,      /* of a sandbox */
    SYSCTL_TEXT_MAX = 127, /* bytes of "NAME=VALUE" */
    SYSCTL_NAME_MAX = 63,
};

enum sysctl_kind {
    SYSCTL_REFUSED = 0, /* unknown, or the host's */
    SYSCTL_NET,         /* of its net namespace */
    SYSCTL_IPC,         /* of its ipc namespace */
};

/* Judges "NAME=VALUE" in all: a value holds digits, signs, dots and single spaces alone. */
enum sysctl_kind sysctl_judge(const char *text);
