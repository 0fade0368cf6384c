#pragma once

/*
 * A policy: one JSON file that says what a sandbox may do (policies/README.md documents every key).
 * Pure: text in, validated struct out; no file is opened here, and nothing of the host is asked.
 * The launcher does not see this struct: it gets the flat results.
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

/* The ranges of limits, the same for policies and command lines. */
#define LIMIT_BYTES_MAX  (INT64_C(1) << 50)
#define LIMIT_MEMORY_MIN (INT64_C(4) << 20) /* below this no process starts in a cgroup */
#define LIMIT_SHM_MIN    INT64_C(4096)
#define LIMIT_DISK_MIN   (INT64_C(16) << 20) /* room for the file system's own tables */
#define LIMIT_DISK_MAX   (INT64_C(4) << 40)
#define LIMIT_PIDS_MAX   INT64_C(4194304) /* the kernel's PID_MAX_LIMIT */
enum {
    LIMIT_CPU_MILLIS_MIN = 10, /* a quota of 1 ms in a period of 100 ms: the kernel's least */
    LIMIT_CPU_MILLIS_MAX = 1024000,
    LIMIT_NAMESPACES_MIN = 4, /* what rind itself makes for a sandbox counts */
    RLIMIT_UNLIMITED = -1,    /* in JSON and on command lines; RLIM_INFINITY in the struct */
};

/* What a number that is not set holds. Every limit below is in the unit that its name says. */
enum { LIMIT_UNSET = -1 };

struct limits {
    int64_t memory_bytes; /* memory and swap together */
    int64_t pids;
    int64_t cpu_millis; /* thousandths of one CPU */
    int64_t shm_bytes;  /* /dev/shm */
    int64_t disk_bytes; /* the writable layer: a file system of its own of this size */
    /* Per-user-namespace counters (user.max_*): shared by owner on the host unless bounded here. */
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
    struct seccomp_profile *seccomp; /* owned; NULL once it is compiled and dropped */
    uint64_t capabilities; /* bit n = capability n: the bounding set, and what uid 0 has */
    bool no_new_privs;
    bool fuse;      /* has /dev/fuse; mounting takes CAP_SYS_ADMIN and mount(2) as well */
    bool net_admin; /* its CAP_NET_ADMIN, which it lists, and CAP_NET_RAW count in its network */
    enum net_mode network;
    struct net_access access; /* exceptions from it */
    struct limits limits;
    struct rlimit_value rlimits[RLIMITS_MAX];
    size_t rlimit_count;
    char **masked;    /* owned, NULL-terminated; absolute; a component may hold `*` (expanded by the
                         plan on the host's names) */
    char **read_only; /* owned, NULL-terminated; absolute */
};

/* A struct limits with every member LIMIT_UNSET. */
struct limits limits_unset(void);
/* Members of `over` that are set replace those of `base`. */
struct limits limits_merge(const struct limits *base, const struct limits *over);

/*
 * Parses and validates a policy. `where` names the file in messages ("policies/x.json: limits.pids:
 * must be between 1 and 4194304"). -EINVAL wrong shape or type or unknown key, -ERANGE out of
 * range, -ENOMEM. *ret is the caller's, for policy_free.
 */
int policy_parse(const char *text, size_t len, const char *where, struct policy **ret,
                 struct err *err);
void policy_free(struct policy *p);
DEFINE_AUTO(struct policy, policy_free);

/* The shipped policies ("untrusted", "container", "build", "fuse", "net-admin"), carried in the
 * binary. NULL when there is no such name. */
const char *policy_builtin(const char *name, size_t *ret_len);
/* Names of the shipped policies, NULL-terminated. */
const char *const *policy_builtin_names(void);
/* Whether a policy can be called so: 1 to POLICY_NAME_MAX letters, digits, _ . - and neither a dot
 * nor a hyphen first. A path cannot. */
bool policy_name_ok(const char *name);
