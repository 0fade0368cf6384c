/*
 * Terminals of all sandboxes. The kernel limits the terminals of the host (kernel.pty.max) and
 * reserves kernel.pty.reserve of them for its first mount namespace. Sandboxes share the rest,
 * minus a reserve for other containers on the host. Each devpts has a limit of its own; they are
 * chosen so that their sum never exceeds the total.
 *
 * A sandbox gets one, and a fraction of those not needed to give one to every other sandbox: the
 * first ones get about fifty, later ones fewer.
 *
 * Runs in the launcher.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "launch/sandbox.h"
#include "sys/mountinfo.h"

enum {
    KERNEL_MAX = 4096, /* the kernel's defaults, if /proc/sys is not readable */
    KERNEL_RESERVE = 1024,
    HOST_RESERVE = 256, /* left to other containers and to rind */
    MOUNTS_TEXT_MAX = 256 << 10,
};

uint32_t terminals_share(uint32_t left)
{
    uint32_t more = left > TERMINALS_SINGLES ? (left - TERMINALS_SINGLES) / TERMINALS_PART : 0;

    if (left == 0)
        return 0;
    return more + 1 < TERMINALS_MAX ? more + 1 : TERMINALS_MAX;
}

static uint32_t sysctl_read_number(const char *path, uint32_t otherwise)
{
    auto_free char *text = NULL;
    size_t len = 0;
    long n;

    if (file_read_at(AT_FDCWD, path, 64, &text, &len, NULL) < 0)
        return otherwise;
    n = strtol(text, NULL, 10);
    return n >= 0 && n <= 1 << 20 ? (uint32_t)n : otherwise;
}

static uint32_t host_terminals(void)
{
    uint32_t max = sysctl_read_number("/proc/sys/kernel/pty/max", KERNEL_MAX);
    uint32_t kept =
        sysctl_read_number("/proc/sys/kernel/pty/reserve", KERNEL_RESERVE) + HOST_RESERVE;

    return max > kept ? max - kept : 0;
}

void terminals_open(struct launcher *l, uint32_t configured)
{
    uint32_t host = host_terminals();

    l->terminals = configured == 0 || configured > host ? host : configured;
    l->terminals_shared = configured == 0;
}

int terminals_take(struct launcher *l, struct launch_sandbox *s, struct err *err)
{
    uint32_t taken = l->terminals_taken;

    /* For other launchers only the terminals in use are known. */
    if (l->terminals_shared)
        taken += sysctl_read_number("/proc/sys/kernel/pty/nr", 0);
    s->terminals = terminals_share(l->terminals > taken ? l->terminals - taken : 0);
    if (s->terminals == 0)
        return err_set(err, -EAGAIN,
                       "limit maxTerminals: %u sandboxes have the %u terminals that there are for "
                       "all (raise it, and the host's kernel.pty.max)",
                       l->sandbox_count, l->terminals);
    return 0;
}

/* Returns the largest max= of a devpts among the mounts: the sandbox may have mounted more. */
static uint32_t mounts_max_terminals(char *text, size_t len)
{
    struct mountinfo m;
    struct mountinfo_entry e;
    uint32_t found = 0;
    int r;

    mountinfo_init(&m, text, len);
    while ((r = mountinfo_next(&m, &e)) != 0) {
        const char *at =
            r > 0 && strcmp(e.fstype, "devpts") == 0 ? strstr(e.super_options, "max=") : NULL;
        long n = at != NULL ? strtol(at + 4, NULL, 10) : 0;

        if (n > (long)found)
            found = n < TERMINALS_MAX ? (uint32_t)n : TERMINALS_MAX;
    }
    return found;
}

void terminals_find(struct launch_sandbox *s)
{
    auto_free char *text = NULL;
    char path[64];
    size_t len = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/mountinfo", (int)s->pid);
    if (file_read_at(AT_FDCWD, path, MOUNTS_TEXT_MAX, &text, &len, NULL) == 0)
        s->terminals = mounts_max_terminals(text, len);
    if (s->terminals == 0)
        s->terminals = TERMINALS_MAX; /* not readable: assume the maximum */
}
