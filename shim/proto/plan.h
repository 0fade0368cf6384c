#pragma once

/*
 * The set-up plan: what the launcher tells init to build. It is computed beforehand and flat, so
 * that init has nothing to parse. It is a sealed memfd at fd PLAN_FD:
 *
 *   struct plan_header | struct plan_op[op_count] | struct plan_rlimit[rlimit_count]
 *   | floor filter | guard filter | policy filter | strings
 *
 * Offsets are from the start of the plan. Strings are offsets into the string area, NUL-terminated;
 * 0 is the empty string. Fds that operations use are at PLAN_FD_OPS, PLAN_FD_OPS+1 and so on; an
 * operation names them by index.
 */

#include <stdint.h>

enum {
    PLAN_MAGIC = 0x504e4452, /* "RDNP" */
    PLAN_VERSION = 3,
    PLAN_SIZE_MAX = 1 << 20, /* bytes */
    PLAN_OPS_MAX = 1024,
    PLAN_RLIMITS_MAX = 16,
    PLAN_FILTER_MAX = 4096, /* BPF_MAXINSNS */
    PLAN_FDS_MAX = 256,

    PLAN_CONTROL_FD = 3, /* SEQPACKET to the launcher, later to the supervisor */
    PLAN_STAGE_FD = 4,   /* a pipe to the launcher for the stages, until READY */
    PLAN_FD = 5,
    PLAN_LEASE_FD = 6,  /* the sandbox's lock file, kept open; not used otherwise */
    PLAN_CGROUP_FD = 7, /* the delegated cgroup directory; /dev/null if there is none */
    PLAN_FD_OPS = 8,
};

enum plan_flags {
    PLAN_ATTACHED = 1 << 0,   /* the sandbox ends when the control socket is closed */
    PLAN_REAPER = 1 << 1,     /* PID 1 inside is a reaper; the main process is its sibling */
    PLAN_HAS_CGROUP = 1 << 2, /* PLAN_CGROUP_FD is a cgroup directory */
    PLAN_NO_NEW_PRIVS = 1 << 3,
    PLAN_LOOPBACK = 1 << 4, /* bring `lo` up */
    PLAN_LISTEN =
        1 << 5,          /* the last operation fd is a bound SEQPACKET socket: init listens on it */
    PLAN_GUARD = 1 << 6, /* the baseline has notifications, which init answers (guard.h) */
    /* with PLAN_GUARD: the policy grants CAP_FSETID, which `capabilities` lacks; a broker may use
     * it outside the guarded mounts */
    PLAN_GUARD_FSETID = 1 << 7,
    PLAN_NO_EXEC = 1 << 8, /* a process executes one program, and no other (exec-once.h) */
    PLAN_FLAGS_ALL = (1 << 9) - 1,
};

/* Operations; see shim/init/setup.c. Paths are relative to the new root and have no leading slash.
 */
enum plan_op_type {
    PLAN_OP_INVALID = 0,
    PLAN_OP_ROOT, /* fd: the root mount */
    /* mounts fd on path; flags tell how the path is resolved and whether it is made */
    PLAN_OP_ATTACH,
    /* mounts a new file system of type `text` on path, with `options` (k=v, separated by ',') and
     * attr */
    PLAN_OP_FSMOUNT,
    PLAN_OP_PROC, /* waits for the inner PID 1's /proc and mounts it on path */
    /* covers path if it exists: a directory by fd, which is empty and shared by all; a file by the
     * null device */
    PLAN_OP_MASK,
    PLAN_OP_READONLY, /* makes path, if it exists, read-only (and nosuid, nodev, noexec) */
    /* writes text to /proc/sys/<path>; with PLAN_OPTIONAL a missing one is skipped */
    PLAN_OP_SYSCTL,
    PLAN_OP_ROOT_RO, /* makes the root mount read-only */
    /* fd: a detached mount that others were cloned from; it is dropped with the old root */
    PLAN_OP_DISCARD,
    PLAN_OP_MAX
};

enum plan_op_flags {
    /* rind's own mount, not the client's: no symbolic link in path, as the image must not redirect
     * it */
    PLAN_STRICT = 1 << 0,
    PLAN_MAKE_DIR = 1 << 1,  /* make path a directory if missing, with its parents */
    PLAN_MAKE_FILE = 1 << 2, /* make path an empty file if missing, with its parents */
    PLAN_OPTIONAL = 1 << 3,
    PLAN_READY = 1 << 4, /* with ATTACH: a file system of a type of its own, not /dev */
    /* with ATTACH and PLAN_GUARD: files of a host owner, on which no process inside may set set-id
     * bits */
    PLAN_GUARDED = 1 << 5,
    PLAN_OP_FLAGS_ALL = (1 << 6) - 1,
};

struct plan_op {
    uint16_t type;
    uint16_t flags;
    int32_t fd; /* index, or -1 */
    uint32_t path;
    uint32_t text;
    uint32_t options;
    uint32_t attr; /* MOUNT_ATTR_*, or a mode */
};

struct plan_rlimit {
    uint32_t resource, reserved;
    uint64_t soft, hard;
};

struct plan_header {
    uint32_t magic;
    uint16_t version, reserved;
    uint32_t size; /* bytes of the whole plan */
    uint32_t flags;
    uint32_t fd_count;
    uint32_t op_count, ops;
    uint32_t rlimit_count, rlimits;
    uint32_t baseline_count, baseline; /* struct sock_filter */
    uint32_t guard_count, guard;   /* with PLAN_GUARD: for all processes but init and its brokers */
    uint32_t policy_count, policy; /* struct sock_filter; 0 = none */
    uint32_t strings_size, strings;
    uint32_t hostname;
    uint64_t capabilities; /* the bounding set */
};

_Static_assert(sizeof(struct plan_op) == 24, "plan_op is a wire format");
_Static_assert(sizeof(struct plan_rlimit) == 24, "plan_rlimit is a wire format");
_Static_assert(sizeof(struct plan_header) == 80, "plan_header is a wire format");
