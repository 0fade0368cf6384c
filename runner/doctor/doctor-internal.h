#pragma once

/*
 * Shared by doctor.c (core, barriers, JSON), doctor-checks.c (the table), doctor-asks.c and
 * doctor-host.c (the checks) and their unit test.
 */

#include "doctor/doctor.h"
#include "sys/probe.h"

struct policy;
struct cgroup_host;

/* The caller's privileges, which decide what an errno from the kernel means. */
struct doctor_caller {
    bool privileged;    /* CAP_SYS_ADMIN here */
    bool root;          /* uid 0 here, with or without CAP_SYS_ADMIN */
    bool filtered;      /* a seccomp filter is in force */
    bool kernel_is_new; /* the kernel has every call that the checks try */
};

/* State shared by all checks. */
struct doctor {
    struct doctor_caller who;
    struct probe_env env; /* env.dir: the state directory, or its nearest existing ancestor */
    const char *scratch;  /* for the overlay probes, or NULL */
    int scratch_errno;
    const struct policy *policy;      /* the default one */
    const struct cgroup_host *cgroup; /* or NULL */
    const char *cgroup_error;
};

enum check_id {
    CHECK_KERNEL = 0,
    CHECK_PRIVILEGES,
    CHECK_NS_USER,
    CHECK_NS_MOUNT,
    CHECK_NS_PID,
    CHECK_NS_NET,
    CHECK_NS_UTS,
    CHECK_NS_IPC,
    CHECK_NS_CGROUP,
    CHECK_USERNS_LIMIT,
    CHECK_USERNS_UNPRIVILEGED,
    CHECK_USERNS_SYSCTL,
    CHECK_USERNS_APPARMOR,
    CHECK_ID_MAPS,
    CHECK_ID_POOL,
    CHECK_SUBIDS,
    CHECK_SECCOMP,
    CHECK_LIBSECCOMP,
    CHECK_MEMFD_EXEC,
    CHECK_PIDFD,
    CHECK_OPENAT2,
    CHECK_CLOSE_RANGE,
    CHECK_CORE_SCHED,
    CHECK_STATE_DIR,
    CHECK_MOUNT_API,
    CHECK_IDMAP,
    CHECK_OVERLAY,
    CHECK_OVERLAY_IDMAP,
    CHECK_OVERLAY_USER,
    CHECK_HOST_ROOTFS,
    CHECK_PROC,
    CHECK_SYSFS,
    CHECK_DEVPTS,
    CHECK_MQUEUE,
    CHECK_FUSE,
    CHECK_XATTRS,
    CHECK_DISK,
    CHECK_CGROUP_MODE,
    CHECK_CG_MEMORY,
    CHECK_CG_CPU,
    CHECK_CG_PIDS,
    CHECK_CG_FREEZER,
    CHECK_CGROUP_V2,
    CHECK_VETH,
    CHECK_NFTABLES,
    CHECK_REDIRECT,
    CHECK_FRAMES,
    CHECK_FORWARDING,
    CHECK_FORWARD_DROP,
    CHECK_CLOSED_LINKS,
    CHECK_CORE_PATTERN,
    CHECK_SUID_DUMPABLE,
    CHECK_TIOCSTI,
    CHECK_BPF,
    CHECK_PERF,
    CHECK_POINTERS,
    CHECK_KERNEL_LOG,
    CHECK_RANDOM_ADDRESSES,
    CHECK_LOW_ADDRESSES,
    CHECK_PROTECTED_LINKS,
    CHECK_MITIGATIONS,
    CHECK_SMT,
    CHECK_KSM,
    CHECK_LANDLOCK,
    CHECK_ID_MAX
};

struct check;
/* Check functions: each sets state and found, and also fix where that depends on what was found. */
typedef void check_ask_fn(const struct doctor *d, const struct check *c, struct check_result *r);
check_ask_fn ask_probe, ask_kernel, ask_privileges, ask_userns_limit, ask_user_drop,
    ask_userns_sysctl, ask_id_pool, ask_subids, ask_libseccomp, ask_memfd, ask_state_dir, ask_idmap,
    ask_host_rootfs, ask_overlay, ask_proc, ask_cgroup_mode, ask_cgroup_v2, ask_controller,
    ask_forwarding, ask_forward_drop, ask_closed_links, ask_host_setting, ask_host_setting_not,
    ask_core_pattern, ask_tiocsti, ask_protected_links, ask_mitigations, ask_smt, ask_landlock,
    ask_core_sched;

#define APPARMOR_SYSCTL "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
#define CLONE_SYSCTL    "/proc/sys/kernel/unprivileged_userns_clone"

struct check {
    const char *name, *title, *group;
    check_ask_fn *ask;
    /* For `ask` = ask_probe: the probe and its arguments. */
    probe_fn *probe;
    long number;
    const char *text;
    /* True if the default policy requires the check; NULL = never. */
    bool (*required)(const struct policy *p);
    const char *without;
    const char *fix; /* a command, or a sentence where no command can help */
};

extern const struct check doctor_checks[CHECK_ID_MAX];

/* Fills in the privileges of the calling process. */
void doctor_look_at_caller(struct doctor_caller *ret);
/*
 * Maps a probe's errno to state and text in *r, and sets a fix if a seccomp filter or a missing
 * capability is the cause. Pure.
 */
void doctor_judge(int code, const struct doctor_caller *who, struct check_result *r);
/*
 * Sets the fix for a cgroup that could not be created: read-only mount, or missing permission.
 * Other errors leave only the errno in `found`. Pure.
 */
void doctor_fix_cgroup(int code, const struct doctor_caller *who, struct check_result *r);
