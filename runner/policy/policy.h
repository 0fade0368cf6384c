#pragma once

/*
 * A policy: a JSON file that defines what a sandbox may do (policies/README.md documents every
 * key). Pure: text in, validated struct out; it opens no file and does not ask the host. The
 * launcher does not get this struct, but values derived from it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "policy/net-rule.h"

struct err;
struct seccomp_profile; /* policy/seccomp.h */

enum {
    POLICY_TEXT_MAX = 1 << 20, /* bytes of one policy file */
    POLICY_PATHS_MAX = 64,     /* masked or read-only paths, each */
    POLICY_NAME_MAX = 64,
    RLIMITS_MAX = 16, /* RLIM_NLIMITS */
};

enum net_mode { NET_INVALID = 0, NET_NONE, NET_INTERNET, NET_MODE_MAX };

/* Ranges of limits, for policies and command lines. */
#define LIMIT_BYTES_MAX  (INT64_C(1) << 50)
#define LIMIT_MEMORY_MIN (INT64_C(4) << 20) /* with less, no process starts in a cgroup */
#define LIMIT_SHM_MIN    INT64_C(4096)
#define LIMIT_DISK_MIN   (INT64_C(16) << 20) /* room for the file system's own tables */
#define LIMIT_DISK_MAX   (INT64_C(4) << 40)
#define LIMIT_PIDS_MAX   INT64_C(4194304) /* the kernel's PID_MAX_LIMIT */
enum {
    LIMIT_CPU_MILLIS_MIN = 10, /* a quota of 1 ms in a period of 100 ms, the kernel's minimum */
    LIMIT_CPU_MILLIS_MAX = 1024000,
    LIMIT_NAMESPACES_MIN = 4, /* rind's own namespaces of a sandbox count, too */
    RLIMIT_UNLIMITED = -1,    /* in JSON and on command lines; RLIM_INFINITY in the struct */
};

/* Value of an unset limit. The unit of each limit is in its name. */
enum { LIMIT_UNSET = -1 };

struct limits {
    int64_t memory_bytes; /* memory and swap together */
    int64_t pids;
    int64_t cpu_millis; /* thousandths of one CPU */
    int64_t shm_bytes;  /* /dev/shm */
    int64_t disk_bytes; /* size of the writable layer, a file system of its own */
    /* Limits of user.max_*; without them the sandboxes of an owner share the host's counters. */
    int64_t user_namespaces, mount_namespaces, pid_namespaces, net_namespaces, ipc_namespaces,
        uts_namespaces, cgroup_namespaces, time_namespaces, inotify_instances, inotify_watches,
        fanotify_groups, fanotify_marks;
};

struct rlimit_value {
    int resource; /* RLIMIT_* */
    uint64_t soft, hard;
};

struct policy {
    char name[POLICY_NAME_MAX + 1];
    struct seccomp_profile *seccomp; /* owned; NULL after it was compiled and dropped */
    uint64_t capabilities; /* bit n = capability n: the bounding set, and the set of uid 0 */
    bool no_new_privs;
    bool fuse;       /* /dev/fuse exists; mounting also needs CAP_SYS_ADMIN and mount(2) */
    bool no_exec;    /* each process executes the program that was asked for, and no other */
    bool core_sched; /* processes of others never run on the same core at the same time */
    /* CAP_NET_ADMIN (must be listed) and CAP_NET_RAW are effective in its network. */
    bool net_admin;
    enum net_mode network;
    struct net_access access; /* exceptions from the mode */
    struct limits limits;
    struct rlimit_value rlimits[RLIMITS_MAX];
    size_t rlimit_count;
    char **masked; /* owned, NULL-terminated; absolute; a component may hold `*`, expanded with the
                      host's file names */
    char **read_only; /* owned, NULL-terminated; absolute */
};

/* A struct limits with every member LIMIT_UNSET. */
struct limits limits_unset(void);
/* Members that are set in `over` replace those of `base`. */
struct limits limits_merge(const struct limits *base, const struct limits *over);
/*
 * The limits that are in force: what is asked, or else the policy's default, and never more than
 * `most` has (NULL: no bound). An unset member of the result is no limit. The size of a disk is
 * decided once, when it is made, so `most` does not bound it here: limits_disk_size does.
 */
struct limits limits_effective(const struct limits *policy, const struct limits *asked,
                               const struct limits *most);
/* The size of the disk of a sandbox that is made now, likewise; LIMIT_UNSET: it has none. */
int64_t limits_disk_size(const struct limits *policy, const struct limits *asked,
                         const struct limits *most);

/*
 * Parses and validates a policy. `where` names the file in messages ("policies/x.json: limits.pids:
 * must be between 1 and 4194304"). -EINVAL: wrong type, unknown key, …; -ERANGE: out of range;
 * -ENOMEM. The caller frees *ret with policy_free.
 */
int policy_parse(const char *text, size_t len, const char *where, struct policy **ret,
                 struct err *err);
void policy_free(struct policy *p);
DEFINE_AUTO(struct policy, policy_free);

/*
 * Text of a shipped policy ("untrusted", "compute", "container", "build", "fuse", "net-admin"),
 * embedded in the binary. NULL: no such policy.
 */
const char *policy_builtin(const char *name, size_t *ret_len);
/* Names of the shipped policies, NULL-terminated. */
const char *const *policy_builtin_names(void);
/*
 * True for a valid name: 1 to POLICY_NAME_MAX letters, digits, _ . - that does not begin with a dot
 * or hyphen. A path is none.
 */
bool policy_name_ok(const char *name);
