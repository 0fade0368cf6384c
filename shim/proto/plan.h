#pragma once

/*
 * The set-up plan: what the launcher tells init to build, computed beforehand and flat, so that
 * init has nothing to parse. It travels in a sealed memfd at fd PLAN_FD:
 *
 *   struct plan_header | struct plan_op[op_count] | struct plan_rlimit[rlimit_count] | floor filter
 * | guard filter | policy filter | strings
 *
 * Offsets are from the start of the plan; strings are offsets into the string area, NUL-terminated;
 * 0 is the empty string. Descriptors that operations use arrive at PLAN_FD_OPS,
 * PLAN_FD_OPS+1, …; an operation names them by index.
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

    PLAN_CONTROL_FD = 3, /* SEQPACKET to the launcher, afterwards to the supervisor */
    PLAN_STAGE_FD = 4,   /* a pipe to the launcher for the stages; until READY */
    PLAN_FD = 5,
    PLAN_LEASE_FD = 6,  /* holds the id range's and the state directory's locks; never used */
    PLAN_CGROUP_FD = 7, /* the delegated cgroup directory; /dev/null where there is none */
    PLAN_FD_OPS = 8,
};

enum plan_flags {
    PLAN_ATTACHED = 1 << 0,   /* the sandbox ends when the control socket is closed */
    PLAN_REAPER = 1 << 1,     /* PID 1 inside is a reaper; the main process is its sibling */
    PLAN_HAS_CGROUP = 1 << 2, /* PLAN_CGROUP_FD is a cgroup directory */
    PLAN_NO_NEW_PRIVS = 1 << 3,
    PLAN_LOOPBACK = 1 << 4, /* bring `lo` up */
    PLAN_LISTEN =
        1 << 5, /* the last operation descriptor is a bound SEQPACKET socket: listen on it */
    PLAN_GUARD = 1 << 6,        /* the floor has notifications, which init answers (guard.h) */
    PLAN_GUARD_FSETID = 1 << 7, /* of PLAN_GUARD: the policy grants CAP_FSETID, which is not in
                                   `capabilities`; a broker may use it outside the guarded mounts */
    PLAN_FLAGS_ALL = (1 << 8) - 1,
};

/* What an operation does; see shim/init/setup.c. Paths are relative to the new root and have no
 * leading slash. */
enum plan_op_type {
    PLAN_OP_INVALID = 0,
    PLAN_OP_ROOT,     /* fd: the root mount */
    PLAN_OP_ATTACH,   /* fd onto path; flags say how the path is resolved and whether it is made */
    PLAN_OP_FSMOUNT,  /* a new file system of type `text`, options in `options` (k=v, k separated by
                         ','), attr, onto path */
    PLAN_OP_PROC,     /* waits for the inner PID 1's /proc and puts it at path */
    PLAN_OP_MASK,     /* covers path if it exists: a directory by fd, the same for all and an empty
                         one, a file by the null device */
    PLAN_OP_READONLY, /* path, if it exists, read-only (and nosuid, nodev, noexec) */
    PLAN_OP_SYSCTL,  /* writes text to /proc/sys/<path>; a missing one is skipped when PLAN_OPTIONAL
                      */
    PLAN_OP_ROOT_RO, /* the root mount becomes read-only */
    PLAN_OP_DISCARD, /* fd: a detached mount that others were made of; it goes with the old root */
    PLAN_OP_MAX
};

enum plan_op_flags {
    PLAN_STRICT = 1 << 0,    /* ours, not the client's: no symbolic link in path, because what the
                                image ships must not redirect it */
    PLAN_MAKE_DIR = 1 << 1,  /* make path a directory when missing, parents too */
    PLAN_MAKE_FILE = 1 << 2, /* make path an empty file when missing, parents too */
    PLAN_OPTIONAL = 1 << 3,
    PLAN_READY = 1 << 4,   /* of ATTACH: a file system with a type of its own, not /dev */
    PLAN_GUARDED = 1 << 5, /* of ATTACH, with PLAN_GUARD: files of the host's owner, on which no
                              set-id bit is set from inside */
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
    uint32_t size; /* of the whole plan */
    uint32_t flags;
    uint32_t fd_count;
    uint32_t op_count, ops;
    uint32_t rlimit_count, rlimits;
    uint32_t floor_count, floor;   /* struct sock_filter */
    uint32_t guard_count, guard;   /* of PLAN_GUARD: for all but init and its brokers */
    uint32_t policy_count, policy; /* struct sock_filter; 0 = none */
    uint32_t strings_size, strings;
    uint32_t hostname;
    uint64_t capabilities; /* the bounding set */
};

_Static_assert(sizeof(struct plan_op) == 24, "plan_op is a wire format");
_Static_assert(sizeof(struct plan_rlimit) == 24, "plan_rlimit is a wire format");
_Static_assert(sizeof(struct plan_header) == 80, "plan_header is a wire format");
