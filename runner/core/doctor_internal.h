#pragma once

/* Between doctor.c (frame, barriers, JSON) and doctor_checks.c (the table), and for their test. */

#include "core/doctor.h"
#include "sys/probe.h"

struct policy;
struct cgroup_host;

/* What this process may do, as far as it decides what an answer of the kernel means. */
struct doctor_caller {
    bool privileged;    /* CAP_SYS_ADMIN here */
    bool root;          /* uid 0 here, with it or without */
    bool filtered;      /* a seccomp filter is in force */
    bool kernel_is_new; /* it has every call that the checks try */
};

/* What the checks share. */
struct doctor {
    struct doctor_caller who;
    struct probe_env env; /* env.dir: the state directory, or the nearest that exists above it */
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
    CHECK_ID_MAX
};

struct check;
/* The rows' ways to ask: state and found, and fix where it depends on what was found. */
typedef void check_ask_fn(const struct doctor *d, const struct check *c, struct check_result *r);
check_ask_fn ask_probe, ask_kernel, ask_privileges, ask_userns_limit, ask_user_drop,
    ask_userns_sysctl, ask_id_pool, ask_subids, ask_libseccomp, ask_memfd, ask_state_dir, ask_idmap,
    ask_host_rootfs, ask_overlay, ask_proc, ask_cgroup_mode, ask_cgroup_v2, ask_controller,
    ask_forwarding, ask_forward_drop, ask_closed_links;

#define APPARMOR_SYSCTL "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
#define CLONE_SYSCTL    "/proc/sys/kernel/unprivileged_userns_clone"

struct check {
    const char *name, *title, *group;
    check_ask_fn *ask;
    /* For `ask` = ask_probe: the probe and what it is asked for. */
    probe_fn *probe;
    long number;
    const char *text;
    /* Whether the default policy needs it; NULL = never. */
    bool (*required)(const struct policy *p);
    const char *without;
    const char *fix; /* the command; in words where no command can do it */
};

extern const struct check doctor_checks[CHECK_ID_MAX];

void doctor_look_at_caller(struct doctor_caller *ret);
/* What a probe's answer means: state and text into *r, and a fix where a filter or a capability is
 * the cause. Pure. */
void doctor_judge(int code, const struct doctor_caller *who, struct check_result *r);
/* The fix for a cgroup that could not be made, where code tells one: of a read-only mount, and of a
 * user without the right. For other errors the errno in `found` is all that is known. Pure. */
void doctor_fix_cgroup(int code, const struct doctor_caller *who, struct check_result *r);
