/*
 * The table of checks. A row says which function runs the check (doctor-asks.c), when the default
 * policy requires it, what rind does without it, and what fixes it.
 */

#include <linux/sched.h>

#include "doctor/doctor-internal.h"
#include "launch/cgroup.h"
#include "launch/idrange.h"
#include "policy/policy.h"

static bool required_always(const struct policy *p)
{
    (void)p;
    return true;
}

static bool required_if_memory(const struct policy *p)
{
    return p->limits.memory_bytes != LIMIT_UNSET;
}

static bool required_if_cpu(const struct policy *p)
{
    return p->limits.cpu_millis != LIMIT_UNSET;
}

static bool required_if_pids(const struct policy *p)
{
    return p->limits.pids != LIMIT_UNSET;
}

static bool required_if_internet(const struct policy *p)
{
    return p->network == NET_INTERNET;
}

#define NS_FIX     "boot a kernel with namespaces of this kind"
#define START_FAIL "no sandbox starts"

/* clang-format off */
const struct check doctor_checks[CHECK_ID_MAX] = {
    [CHECK_KERNEL] = {
        .name = "kernel", .title = "kernel 5.19 or newer", .group = "host",
        .ask = ask_kernel, .required = required_always,
        .without = START_FAIL ": layers cannot be given the ids of a sandbox",
        .fix = "apt-get install linux-image-$(dpkg --print-architecture) && reboot",
    },
    [CHECK_PRIVILEGES] = {
        .name = "privileges", .title = "rights of this user", .group = "host",
        .ask = ask_privileges, .required = required_always,
        .without = START_FAIL " for this user",
        .fix = "sudo rind",
    },

    [CHECK_NS_USER] = {
        .name = "namespace-user", .title = "user namespaces", .group = "namespaces",
        .ask = ask_probe, .probe = probe_namespace, .number = CLONE_NEWUSER, .required = required_always,
        .without = START_FAIL,
        .fix = NS_FIX,
    },
    [CHECK_NS_MOUNT] = {
        .name = "namespace-mount", .title = "mount namespaces", .group = "namespaces",
        .ask = ask_probe, .probe = probe_namespace, .number = CLONE_NEWNS, .required = required_always,
        .without = START_FAIL,
        .fix = NS_FIX,
    },
    [CHECK_NS_PID] = {
        .name = "namespace-pid", .title = "pid namespaces", .group = "namespaces",
        .ask = ask_probe, .probe = probe_namespace, .number = CLONE_NEWPID, .required = required_always,
        .without = START_FAIL,
        .fix = NS_FIX,
    },
    [CHECK_NS_NET] = {
        .name = "namespace-net", .title = "network namespaces", .group = "namespaces",
        .ask = ask_probe, .probe = probe_namespace, .number = CLONE_NEWNET, .required = required_always,
        .without = START_FAIL,
        .fix = NS_FIX,
    },
    [CHECK_NS_UTS] = {
        .name = "namespace-uts", .title = "uts namespaces", .group = "namespaces",
        .ask = ask_probe, .probe = probe_namespace, .number = CLONE_NEWUTS, .required = required_always,
        .without = START_FAIL,
        .fix = NS_FIX,
    },
    [CHECK_NS_IPC] = {
        .name = "namespace-ipc", .title = "ipc namespaces", .group = "namespaces",
        .ask = ask_probe, .probe = probe_namespace, .number = CLONE_NEWIPC, .required = required_always,
        .without = START_FAIL,
        .fix = NS_FIX,
    },
    [CHECK_NS_CGROUP] = {
        .name = "namespace-cgroup", .title = "cgroup namespaces", .group = "namespaces",
        .ask = ask_probe, .probe = probe_namespace, .number = CLONE_NEWCGROUP, .required = required_always,
        .without = START_FAIL,
        .fix = NS_FIX,
    },
    [CHECK_USERNS_LIMIT] = {
        .name = "userns-limit", .title = "number of user namespaces", .group = "namespaces",
        .ask = ask_userns_limit, .required = required_always,
        .without = START_FAIL " once they are used up; each takes two",
        .fix = "sysctl -w user.max_user_namespaces=65536",
    },
    [CHECK_USERNS_UNPRIVILEGED] = {
        .name = "userns-unprivileged", .title = "user namespaces without root",
        .group = "namespaces",
        .ask = ask_user_drop, .number = CLONE_NEWUSER,
        .without = "sandboxes that root starts work; other users cannot start any",
        .fix = "sysctl -w user.max_user_namespaces=65536",
    },
    [CHECK_USERNS_SYSCTL] = {
        .name = "userns-sysctl", .title = "unprivileged_userns_clone", .group = "namespaces",
        .ask = ask_userns_sysctl, .number = 1, .text = CLONE_SYSCTL,
        .without = "sandboxes that root starts work; other users cannot start any",
        .fix = "sysctl -w kernel.unprivileged_userns_clone=1",
    },
    [CHECK_USERNS_APPARMOR] = {
        .name = "userns-apparmor", .title = "AppArmor's restriction", .group = "namespaces",
        .ask = ask_userns_sysctl, .number = 0,
        .text = APPARMOR_SYSCTL,
        .without = "sandboxes that root starts work; other users cannot start any",
        .fix = "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    },

    [CHECK_ID_MAPS] = {
        .name = "id-maps", .title = "65536 ids for a sandbox", .group = "ids",
        .ask = ask_probe, .probe = probe_id_map, .number = IDRANGE_FIRST, .required = required_always,
        .without = START_FAIL, .fix = "start rind outside of a container whose own ids are few",
    },
    [CHECK_ID_POOL] = {
        .name = "id-pool", .title = "pool of id ranges", .group = "ids",
        .ask = ask_id_pool, .required = required_always,
        .without = START_FAIL " once the ranges are used up",
        .fix = "remove lines from /etc/subuid and /etc/subgid that reach into "
               "1879048192-2147287039",
    },
    [CHECK_SUBIDS] = {
        .name = "subordinate-ids", .title = "subordinate ids", .group = "ids",
        .ask = ask_subids,
        .without = "sandboxes that root starts work; a user's own namespaces know one user id only",
        .fix = "add this user to /etc/subuid and /etc/subgid",
    },

    [CHECK_SECCOMP] = {
        .name = "seccomp", .title = "seccomp filters", .group = "system calls",
        .ask = ask_probe, .probe = probe_seccomp, .required = required_always,
        .without = START_FAIL, .fix = "boot a kernel with CONFIG_SECCOMP_FILTER",
    },
    [CHECK_LIBSECCOMP] = {
        .name = "libseccomp", .title = "libseccomp 2.5 or newer", .group = "system calls",
        .ask = ask_libseccomp,
        .without = "filters are larger and each call slower",
        .fix = "apt-get install libseccomp-dev && make",
    },
    [CHECK_MEMFD_EXEC] = {
        .name = "memfd-exec", .title = "programs in sealed memory", .group = "system calls",
        .ask = ask_memfd, .probe = probe_memfd_exec, .required = required_always,
        .without = START_FAIL ": its init has no file on the host that could be overwritten",
        .fix = "sysctl -w vm.memfd_noexec=1",
    },
    [CHECK_PIDFD] = {
        .name = "pidfd", .title = "clone3 and pidfds", .group = "system calls",
        .ask = ask_probe, .probe = probe_pidfd, .required = required_always,
        .without = START_FAIL, .fix = "boot a kernel of 5.19 or newer",
    },
    [CHECK_OPENAT2] = {
        .name = "openat2", .title = "openat2", .group = "system calls",
        .ask = ask_probe, .probe = probe_openat2, .required = required_always,
        .without = START_FAIL ": paths could be led out of a sandbox",
        .fix = "boot a kernel of 5.19 or newer",
    },
    [CHECK_CLOSE_RANGE] = {
        .name = "close-range", .title = "close_range", .group = "system calls",
        .ask = ask_probe, .probe = probe_close_range, .required = required_always,
        .without = START_FAIL, .fix = "boot a kernel of 5.19 or newer",
    },
    [CHECK_CORE_SCHED] = {
        .name = "core-scheduling", .title = "core scheduling", .group = "system calls",
        .ask = ask_core_sched, .probe = probe_core_sched,
        .without = "a start under a policy with coreScheduling fails",
        .fix = "boot a kernel of 5.14 or newer with CONFIG_SCHED_CORE",
    },

    [CHECK_STATE_DIR] = {
        .name = "state-dir", .title = "state directory", .group = "files",
        .ask = ask_state_dir, .required = required_always,
        .without = START_FAIL, .fix = "rind --state DIR on a writable disk",
    },
    [CHECK_MOUNT_API] = {
        .name = "mount-api", .title = "new mount calls", .group = "files",
        .ask = ask_probe, .probe = probe_mount_api, .required = required_always,
        .without = START_FAIL, .fix = "boot a kernel of 5.19 or newer",
    },
    [CHECK_IDMAP] = {
        .name = "idmapped-mounts", .title = "idmapped mounts there", .group = "files",
        .ask = ask_idmap, .probe = probe_idmap, .number = IDRANGE_FIRST, .required = required_always,
        .without = START_FAIL ": layers are never chowned",
        .fix = "rind --state DIR on ext4, xfs, btrfs, or tmpfs",
    },
    [CHECK_OVERLAY] = {
        .name = "overlay", .title = "overlay there", .group = "files",
        .ask = ask_overlay, .probe = probe_overlay, .required = required_always,
        .without = START_FAIL ": the root file system is never written to",
        .fix = "modprobe overlay",
    },
    [CHECK_OVERLAY_IDMAP] = {
        .name = "overlay-idmapped", .title = "overlay on idmapped layers", .group = "files",
        .ask = ask_overlay, .probe = probe_overlay_idmap, .number = IDRANGE_FIRST,
        .required = required_always,
        .without = START_FAIL, .fix = "rind --state DIR on ext4, xfs, or btrfs",
    },
    [CHECK_OVERLAY_USER] = {
        .name = "overlay-user", .title = "overlay in a user namespace", .group = "files",
        .ask = ask_overlay, .probe = probe_overlay_user,
        .without = "sandboxes that root starts work; other users cannot start any",
        .fix = "rind --state DIR on ext4, xfs, btrfs, or tmpfs",
    },
    [CHECK_HOST_ROOTFS] = {
        .name = "host-rootfs", .title = "root file system `host`", .group = "files",
        .ask = ask_host_rootfs, .probe = probe_idmap, .number = IDRANGE_FIRST,
        .without = "a start with --rootfs host fails; directories and images can still be used",
        .fix = "have / on ext4, xfs, or btrfs",
    },
    [CHECK_PROC] = {
        .name = "proc", .title = "a new /proc", .group = "files",
        .ask = ask_proc, .probe = probe_proc, .required = required_always,
        .without = START_FAIL,
        .fix = "start the container around rind with --security-opt systempaths=unconfined",
    },
    [CHECK_SYSFS] = {
        .name = "sysfs", .title = "a new /sys", .group = "files",
        .ask = ask_proc, .probe = probe_sysfs, .required = required_always,
        .without = START_FAIL,
        .fix = "start the container around rind with --security-opt systempaths=unconfined",
    },
    [CHECK_DEVPTS] = {
        .name = "devpts", .title = "own terminals (devpts)", .group = "files",
        .ask = ask_probe, .probe = probe_fs, .text = "devpts", .required = required_always,
        .without = START_FAIL, .fix = "boot a kernel with CONFIG_UNIX98_PTYS",
    },
    [CHECK_MQUEUE] = {
        .name = "mqueue", .title = "own message queues", .group = "files",
        .ask = ask_probe, .probe = probe_fs, .text = "mqueue", .required = required_always,
        .without = START_FAIL, .fix = "boot a kernel with CONFIG_POSIX_MQUEUE",
    },
    [CHECK_FUSE] = {
        .name = "fuse", .title = "FUSE", .group = "files",
        .ask = ask_probe, .probe = probe_fuse,
        .without = "sandboxes cannot be given /dev/fuse (buckets as directories)",
        .fix = "modprobe fuse",
    },
    [CHECK_XATTRS] = {
        .name = "xattrs", .title = "extended attributes there", .group = "files",
        .ask = ask_overlay, .probe = probe_xattrs,
        .without = "layers of images and snapshots that have any, or replace a directory, cannot "
                   "be kept",
        .fix = "rind --state DIR on ext4, xfs, or btrfs",
    },
    [CHECK_DISK] = {
        .name = "loop-devices", .title = "loop devices with ext4", .group = "files",
        .ask = ask_probe, .probe = probe_disk,
        .without = "a start with a disk limit (--disk) fails",
        .fix = "modprobe -a loop ext4",
    },

    [CHECK_CGROUP_MODE] = {
        .name = "cgroup", .title = "control groups", .group = "limits",
        .ask = ask_cgroup_mode, .required = required_always,
        .without = "a start with a limit fails",
        .fix = "mount -t cgroup2 cgroup2 /sys/fs/cgroup",
    },
    [CHECK_CG_MEMORY] = {
        .name = "cgroup-memory", .title = "memory limit", .group = "limits",
        .ask = ask_controller, .number = CG_MEMORY, .required = required_if_memory,
        .without = "a start with a memory limit fails",
    },
    [CHECK_CG_CPU] = {
        .name = "cgroup-cpu", .title = "processor limit", .group = "limits",
        .ask = ask_controller, .number = CG_CPU, .required = required_if_cpu,
        .without = "a start with a processor limit fails",
    },
    [CHECK_CG_PIDS] = {
        .name = "cgroup-pids", .title = "process limit", .group = "limits",
        .ask = ask_controller, .number = CG_PIDS, .required = required_if_pids,
        .without = "a start with a process limit fails",
    },
    [CHECK_CG_FREEZER] = {
        .name = "cgroup-freezer", .title = "pause and resume", .group = "limits",
        .ask = ask_controller, .number = CG_FREEZER,
        .without = "sandboxes cannot be paused",
    },
    [CHECK_CGROUP_V2] = {
        .name = "cgroup-v2", .title = "cgroup v2 tree", .group = "limits",
        .ask = ask_cgroup_v2,
        .without = "processes are ended one by one instead of all at once",
        .fix = "mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified",
    },

    [CHECK_VETH] = {
        .name = "veth", .title = "veth devices", .group = "network",
        .ask = ask_probe, .probe = probe_veth, .required = required_if_internet,
        .without = "sandboxes have no network but their own loopback",
        .fix = "modprobe veth",
    },
    [CHECK_NFTABLES] = {
        .name = "nftables", .title = "nftables", .group = "network",
        .ask = ask_probe, .probe = probe_nftables, .required = required_if_internet,
        .without = "sandboxes have no network but their own loopback",
        .fix = "modprobe nf_tables",
    },
    [CHECK_REDIRECT] = {
        .name = "nft-redirect", .title = "redirection of connections", .group = "network",
        .ask = ask_probe, .probe = probe_redirect,
        .without = "a start with egress rules (--allow-host, --egress), or of Docker's API for "
                   "workerd, fails",
        .fix = "modprobe -a nft_chain_nat nft_redir",
    },
    [CHECK_FRAMES] = {
        .name = "nft-frames", .title = "rules for frames", .group = "network",
        .ask = ask_probe, .probe = probe_frames,
        .without = "a start of a sandbox that administers its network (--policy net-admin) fails",
        .fix = "boot a kernel with CONFIG_NF_TABLES_NETDEV and CONFIG_NETFILTER_INGRESS",
    },
    [CHECK_FORWARDING] = {
        .name = "ipv4-forwarding", .title = "IPv4 forwarding", .group = "network",
        .ask = ask_forwarding,
        .without = "sandboxes reach nothing beyond this host",
        .fix = "sysctl -w net.ipv4.ip_forward=1",
    },
    [CHECK_FORWARD_DROP] = {
        .name = "forward-drop", .title = "other firewalls", .group = "network",
        .ask = ask_forward_drop,
        .without = "sandboxes reach nothing beyond this host, unless a rule there lets them",
        .fix = "docs/network.md, Other firewalls, has a rule for each",
    },
    [CHECK_CLOSED_LINKS] = {
        .name = "closed-links", .title = "closed networks", .group = "network",
        .ask = ask_closed_links,
        .without = "their sandboxes reach nothing: firewall rules could not be put back",
        .fix = "the alias of the link (ip link) and the daemon's log say what is in the way; the "
               "daemon tries again by itself",
    },

    [CHECK_CORE_PATTERN] = {
        .name = "core-pattern", .title = "core dumps", .group = "protection of the host",
        .ask = ask_core_pattern, .text = "/proc/sys/kernel/core_pattern",
        .without = "a program that crashes in a sandbox starts that program outside, as root of the "
                   "host, with what it chooses as input",
        .fix = "sysctl -w kernel.core_pattern=core",
    },
    [CHECK_SUID_DUMPABLE] = {
        .name = "suid-dumpable", .title = "core dumps of set-id programs",
        .group = "protection of the host",
        .ask = ask_host_setting_not, .number = 1, .text = "/proc/sys/fs/suid_dumpable",
        .without = "processes that have changed their ids, rind's too, can be read by others of the "
                   "new id; execs start slower, as they then need memory of their own",
        .fix = "sysctl -w fs.suid_dumpable=0",
    },
    [CHECK_TIOCSTI] = {
        .name = "legacy-tiocsti", .title = "keys pushed into terminals", .group = "protection of the host",
        .ask = ask_tiocsti, .number = 1, .text = "/proc/sys/dev/tty/legacy_tiocsti",
        .without = "refused in sandboxes, but programs of this host that share a terminal can type "
                   "into it",
        .fix = "sysctl -w dev.tty.legacy_tiocsti=0",
    },
    [CHECK_BPF] = {
        .name = "unprivileged-bpf", .title = "bpf without root", .group = "protection of the host",
        .ask = ask_host_setting, .number = 1, .text = "/proc/sys/kernel/unprivileged_bpf_disabled",
        .without = "refused in sandboxes, but any other program of this host can load bpf programs",
        .fix = "sysctl -w kernel.unprivileged_bpf_disabled=1",
    },
    [CHECK_PERF] = {
        .name = "perf-events", .title = "performance events without root",
        .group = "protection of the host",
        .ask = ask_host_setting, .number = 2, .text = "/proc/sys/kernel/perf_event_paranoid",
        .without = "refused in sandboxes, but any other program of this host can measure the kernel",
        .fix = "sysctl -w kernel.perf_event_paranoid=2",
    },
    [CHECK_POINTERS] = {
        .name = "kptr-restrict", .title = "kernel addresses", .group = "protection of the host",
        .ask = ask_host_setting, .number = 1, .text = "/proc/sys/kernel/kptr_restrict",
        .without = "files of /proc may show addresses of the kernel, which an attack on it needs",
        .fix = "sysctl -w kernel.kptr_restrict=1",
    },
    [CHECK_KERNEL_LOG] = {
        .name = "dmesg-restrict", .title = "the kernel's log", .group = "protection of the host",
        .ask = ask_host_setting, .number = 1, .text = "/proc/sys/kernel/dmesg_restrict",
        .without = "not readable in sandboxes, but every user of this host reads it: addresses, "
                   "names of programs and their crashes",
        .fix = "sysctl -w kernel.dmesg_restrict=1",
    },
    [CHECK_RANDOM_ADDRESSES] = {
        .name = "address-randomization", .title = "random addresses of programs",
        .group = "protection of the host",
        .ask = ask_host_setting, .number = 2, .text = "/proc/sys/kernel/randomize_va_space",
        .without = "an attack on any program, rind's own too, can know its addresses",
        .fix = "sysctl -w kernel.randomize_va_space=2",
    },
    [CHECK_LOW_ADDRESSES] = {
        .name = "mmap-min-addr", .title = "the lowest addresses", .group = "protection of the host",
        .ask = ask_host_setting, .number = 4096, .text = "/proc/sys/vm/mmap_min_addr",
        .without = "a null pointer in the kernel can be made to point at a program's memory",
        .fix = "sysctl -w vm.mmap_min_addr=65536",
    },
    [CHECK_PROTECTED_LINKS] = {
        .name = "protected-links", .title = "links in shared directories",
        .group = "protection of the host",
        .ask = ask_protected_links, .number = 1, .text = "/proc/sys/fs/protected_symlinks",
        .without = "users of a writable directory, sandboxes that have it as a volume too, can lead "
                   "others' programs astray by links",
        .fix = "sysctl -w fs.protected_symlinks=1 fs.protected_hardlinks=1",
    },
    [CHECK_MITIGATIONS] = {
        .name = "cpu-mitigations", .title = "processors' known faults",
        .group = "protection of the host",
        .ask = ask_mitigations, .text = "/sys/devices/system/cpu/vulnerabilities",
        .without = "a sandbox may read memory of the kernel and of other sandboxes",
        .fix = "boot without mitigations=off",
    },
    [CHECK_SMT] = {
        .name = "smt", .title = "threads of a core (SMT)", .group = "protection of the host",
        .ask = ask_smt, .text = "/sys/devices/system/cpu/smt/active",
        .without = "sandboxes that share a core can learn what the other one computes",
        .fix = "echo off > /sys/devices/system/cpu/smt/control",
    },
    [CHECK_KSM] = {
        .name = "ksm", .title = "merging of equal pages (KSM)", .group = "protection of the host",
        .ask = ask_host_setting_not, .number = 1, .text = "/sys/kernel/mm/ksm/run",
        .without = "programs whose memory is merged can find out what others have in theirs",
        .fix = "echo 2 > /sys/kernel/mm/ksm/run",
    },
    [CHECK_LANDLOCK] = {
        .name = "landlock", .title = "Landlock", .group = "protection of the host",
        .ask = ask_landlock,
        .without = "rind's processes that read hostile data have one lock less; their ids, roots and "
                   "filters stay",
        .fix = "add landlock to lsm= on the kernel's command line",
    },
};
/* clang-format on */
