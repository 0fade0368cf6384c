#pragma once

/*
 * Landlock: a lock on files that a process puts on itself. It stays when a filter or a change of
 * ids would not hold, and needs no rights. All parts are inlines, shared by the runner (glibc) and
 * by the workers (musl); the constants are here because the headers of Debian 12 have few of them.
 *
 * Where the kernel has none, or an older interface, a process does without what is missing: it is
 * one lock of several (`rind doctor` tells).
 */

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "proto/syscalls.h"

#define LOCK_FS_EXECUTE     (UINT64_C(1) << 0)
#define LOCK_FS_WRITE_FILE  (UINT64_C(1) << 1)
#define LOCK_FS_READ_FILE   (UINT64_C(1) << 2)
#define LOCK_FS_READ_DIR    (UINT64_C(1) << 3)
#define LOCK_FS_REMOVE_DIR  (UINT64_C(1) << 4)
#define LOCK_FS_REMOVE_FILE (UINT64_C(1) << 5)
#define LOCK_FS_MAKE_CHAR   (UINT64_C(1) << 6)
#define LOCK_FS_MAKE_DIR    (UINT64_C(1) << 7)
#define LOCK_FS_MAKE_REG    (UINT64_C(1) << 8)
#define LOCK_FS_MAKE_SOCK   (UINT64_C(1) << 9)
#define LOCK_FS_MAKE_FIFO   (UINT64_C(1) << 10)
#define LOCK_FS_MAKE_BLOCK  (UINT64_C(1) << 11)
#define LOCK_FS_MAKE_SYM    (UINT64_C(1) << 12)
#define LOCK_FS_REFER       (UINT64_C(1) << 13) /* version 2 of the interface */
#define LOCK_FS_TRUNCATE    (UINT64_C(1) << 14) /* 3 */
#define LOCK_FS_IOCTL_DEV   (UINT64_C(1) << 15) /* 5 */

#define LOCK_NET_BIND_TCP (UINT64_C(1) << 0) /* 4 */

#define LOCK_SCOPE_ABSTRACT (UINT64_C(1) << 0) /* 6: abstract unix sockets */
#define LOCK_SCOPE_SIGNAL   (UINT64_C(1) << 1) /* 6 */

#define LOCK_FS_READ (LOCK_FS_READ_FILE | LOCK_FS_READ_DIR)

enum {
    LOCK_ABI_REFER = 2, /* older ones refuse every rename to another directory */
    LOCK_ABI_TRUNCATE = 3,
    LOCK_ABI_NET = 4,
    LOCK_ABI_IOCTL = 5,
    LOCK_ABI_SCOPE = 6,
    LOCK_RULE_PATH_BENEATH = 1,
};

/* A directory that stays open to the process, and what may be done beneath it. */
struct lock_dir {
    int fd;          /* borrowed; O_PATH is enough */
    uint64_t access; /* LOCK_FS_… */
};

struct lock_ruleset {
    uint64_t fs, net, scoped;
};

struct lock_path_rule {
    uint64_t access;
    int32_t fd;
} __attribute__((packed));

/* The version of the kernel's interface; -ENOSYS, or -EOPNOTSUPP: switched off at boot. */
static inline int landlock_abi(void)
{
    return (int)sys_ret(syscall(SYS_landlock_create_ruleset, NULL, 0, 1));
}

/* What this version of the interface can lock. */
static inline struct lock_ruleset landlock_known(int abi, uint64_t net, uint64_t scoped)
{
    struct lock_ruleset known = {.fs = LOCK_FS_REFER | (LOCK_FS_REFER - 1)};

    if (abi >= LOCK_ABI_TRUNCATE)
        known.fs |= LOCK_FS_TRUNCATE;
    if (abi >= LOCK_ABI_IOCTL)
        known.fs |= LOCK_FS_IOCTL_DEV;
    if (abi >= LOCK_ABI_NET)
        known.net = net;
    if (abi >= LOCK_ABI_SCOPE)
        known.scoped = scoped;
    return known;
}

/* Kernels refuse a struct with a part that they do not know. */
static inline size_t landlock_ruleset_size(int abi)
{
    if (abi >= LOCK_ABI_SCOPE)
        return sizeof(struct lock_ruleset);
    return abi >= LOCK_ABI_NET ? offsetof(struct lock_ruleset, scoped)
                               : offsetof(struct lock_ruleset, net);
}

/*
 * Locks the calling thread, and what it starts later: files can be opened, made, changed and
 * removed beneath `dirs` only, each with its `access`. Open fds stay usable. net: LOCK_NET_… that
 * no port gets; scoped: LOCK_SCOPE_…. Sets no_new_privs. 1: locked; 0: the kernel has no Landlock,
 * or one that is too old; a negative errno.
 */
static inline int landlock_lock(const struct lock_dir *dirs, size_t count, uint64_t net,
                                uint64_t scoped)
{
    const int abi = landlock_abi();
    const struct lock_ruleset set = landlock_known(abi, net, scoped);
    long fd, r = 0;

    if (abi < LOCK_ABI_REFER)
        return 0;
    fd = sys_ret(syscall(SYS_landlock_create_ruleset, &set, landlock_ruleset_size(abi), 0));
    if (fd < 0)
        return (int)fd;
    for (size_t i = 0; r == 0 && i < count; i++) {
        const struct lock_path_rule rule = {.access = dirs[i].access & set.fs, .fd = dirs[i].fd};

        r = sys_ret(syscall(SYS_landlock_add_rule, fd, LOCK_RULE_PATH_BENEATH, &rule, 0));
    }
    if (r == 0)
        r = sys_ret(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    if (r == 0)
        r = sys_ret(syscall(SYS_landlock_restrict_self, fd, 0));
    (void)close((int)fd);
    return r < 0 ? (int)r : 1;
}
