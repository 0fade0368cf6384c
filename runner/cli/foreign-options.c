/* The tables behind foreign-options.h: data alone. */

#include "cli/foreign-options.h"

/* Texts that several rows share. */
#define ALWAYS_NEW "every sandbox has all its namespaces to itself; leave it out"
#define NO_CAPS                                                                                    \
    "capabilities are the policy's: --policy container has Docker's 14, net-admin and fuse more; " \
    "others in a copy of one, --policy ./FILE"
#define NO_DEVICES                                                                                 \
    "devices of the host are not passed on, as their drivers are no boundary; --policy fuse has "  \
    "/dev/fuse"
#define NO_IO                                                                                      \
    "only the disk where sandboxes are kept has weights (--io-weight); --device-read-bps limits "  \
    "others"
#define CPU_TIME     "processor time is limited by --cpus NUMBER, such as 0.5"
#define HEALTH       "the CLI sets the command alone, --health-cmd; the rest comes with the image"
#define LOGS         "the daemon keeps the logs, at most logBytes of each stream (rind logs)"
#define OTHER_CGROUP "each sandbox has a cgroup of its own below the daemon's; leave it out"
#define BIND         "a directory of the host is shown by -v SRC:DST, or -v SRC:DST:ro"
#define IDS          "each sandbox has a range of 65536 user ids of its own; leave it out"
#define USER         "-u USER[:GROUP] says as which user the command runs"
#define ROOT_ENTRY                                                                                 \
    "the root file system is an image's, --rootfs DIR, or the one that rind carries, and has it; " \
    "-v adds directories"

#define ROW(long_name, text)                                                                       \
    {                                                                                              \
        .name = (long_name), .help = (text), .flags = OPT_FOREIGN                                  \
    }
#define ROW_LETTER(long_name, short_name, text)                                                    \
    {                                                                                              \
        .name = (long_name), .letter = (short_name), .help = (text), .flags = OPT_FOREIGN          \
    }

/* clang-format off */
const struct opt foreign_run_options[] = {
    /* ---- docker and podman: isolation ---- */
    ROW("privileged", "no sandbox is privileged, as that would be no sandbox; --policy container is what "
                      "images expect, build, fuse and net-admin allow more"),
    ROW("cap-add", NO_CAPS),
    ROW("cap-drop", "capabilities are the policy's: untrusted, the default, has 8; fewer in a copy of it, "
                    "--policy ./FILE"),
    ROW("security-opt", "system calls, paths and noNewPrivileges are the policy's (--policy); a profile of "
                        "Docker's is no policy"),
    ROW("device", NO_DEVICES),
    ROW("device-cgroup-rule", NO_DEVICES),
    ROW("gpus", "a GPU is not passed on, as its driver is part of the host's kernel and no boundary"),
    ROW("pid", "the pid namespace is always the sandbox's own: it never sees processes of the host or of "
               "another sandbox; leave it out"),
    ROW("ipc", "the ipc namespace is always the sandbox's own; leave it out. Sandboxes share files by a "
               "volume, -v NAME:DST"),
    ROW("uts", "the host name is always the sandbox's own: --hostname NAME"),
    ROW("userns", IDS),
    ROW("uidmap", IDS),
    ROW("gidmap", IDS),
    ROW("subuidname", IDS),
    ROW("subgidname", IDS),
    ROW("cgroupns", ALWAYS_NEW),
    ROW("cgroup-parent", OTHER_CGROUP),
    ROW("cgroups", OTHER_CGROUP),
    ROW("cgroup-conf", OTHER_CGROUP),
    ROW("isolation", "there is one kind of isolation, and --policy says how tight it is"),
    ROW("use-api-socket", "no sandbox gets the daemon's socket; leave it out"),
    ROW("systemd", "no cgroups are writable inside; --init reaps orphans, and systemd does not run"),
    ROW("secret", "-v FILE:DST:ro, or --env-file"),
    ROW("umask", "set it inside: sh -c 'umask 077; exec \"$@\"' sh CMD"),
    /* ---- limits ---- */
    ROW("pids-limit", "here it is --pids COUNT"),
    ROW("memory-swappiness", "cgroups of version 2 have no such setting; --memory-swap SIZE limits swap"),
    ROW("kernel-memory", "--memory SIZE counts the kernel's memory, too"),
    ROW("oom-kill-disable", "a sandbox past --memory is always killed; give it more, or leave it out"),
    ROW("cpu-period", CPU_TIME),
    ROW("cpu-quota", CPU_TIME),
    ROW("cpu-count", CPU_TIME),
    ROW("cpu-percent", CPU_TIME),
    ROW("cpu-rt-period", CPU_TIME),
    ROW("cpu-rt-runtime", CPU_TIME),
    ROW("blkio-weight", "here it is --io-weight NUMBER, of the disk where sandboxes are kept"),
    ROW("blkio-weight-device", NO_IO),
    ROW("storage-opt", "--disk SIZE limits what the sandbox's own layer holds"),
    /* ---- network ---- */
    ROW("expose", "ports need no declaration: -p HOST:PORT publishes one, rind expose makes a URL of it"),
    ROW_LETTER("publish-all", 'P', "each port is published by itself: -p :PORT chooses one of the host"),
    ROW("link", "sandboxes of one --network NAME reach each other by name; --network-alias adds names"),
    ROW("ip6", "networks have subnets of IPv4 (--ip); in a --network NAME sandboxes find each other by name"),
    ROW("link-local-ip", "addresses are chosen by rind; leave it out"),
    ROW("mac-address", "a sandbox's link carries addresses and no Ethernet; leave it out"),
    ROW("no-hosts", "rind makes /etc/hosts; --add-host adds lines"),
    ROW("http-proxy", "nothing of rind's environment is passed on; -e http_proxy takes one variable over"),
    /* ---- files ---- */
    ROW("volumes-from", "volumes are named: -v NAME:DST in both sandboxes"),
    ROW("volume-driver", "named volumes are directories of the daemon's state; leave it out"),
    ROW("image-volume", "volumes of the image are anonymous ones; leave it out"),
    ROW("read-only-tmpfs", "--read-only --tmpfs /tmp"),
    ROW("chrootdirs", "-v SRC:DST"),
    /* ---- life ---- */
    ROW("health-interval", HEALTH),
    ROW("health-retries", HEALTH),
    ROW("health-start-interval", HEALTH),
    ROW("health-start-period", HEALTH),
    ROW("health-timeout", HEALTH),
    ROW("no-healthcheck", "--health-cmd none"),
    ROW("init-path", "--init is rind's own; leave it out"),
    ROW("log-driver", LOGS),
    ROW("log-opt", LOGS),
    ROW_LETTER("attach", 'a', "rind run is attached without -d; rind create --attach, or rind attach"),
    ROW("sig-proxy", "signals are always passed on to the command; -d leaves it alone"),
    ROW_LETTER("quiet", 'q', "nothing is pulled, so nothing is said of it; leave it out"),
    ROW("platform", "images run on the processor that they are made for, which has to be the host's; leave it out"),
    ROW("arch", "images run on the processor that they are made for, which has to be the host's; leave it out"),
    ROW("os", "only Linux images run; leave it out"),
    ROW("disable-content-trust", "there are no registries yet; leave it out"),
    ROW("label-file", "-l KEY=VALUE, once for each label"),
    ROW("annotation", "-l KEY=VALUE puts a label on the sandbox"),
    ROW("replace", "rind rm --force NAME, and then again"),
    ROW("pod", "sandboxes share a network by --network NAME or --network container:NAME"),
    ROW("env-host", "nothing of rind's environment is passed on; -e KEY takes one variable over"),
    ROW("unsetenv", "the environment has only what the image, -e and --env-file say; -e KEY= empties one"),
    ROW("unsetenv-all", "--entrypoint env IMAGE -i CMD"),
    ROW("pidfile", "rind inspect NAME shows the pid, under which the main process runs inside"),
    ROW("conmon-pidfile", "there is no process to watch; rind wait NAME"),
    ROW("tz", "-e TZ=ZONE"),
    /* ---- bwrap ---- */
    ROW("unshare-all", ALWAYS_NEW),
    ROW("unshare-user", ALWAYS_NEW),
    ROW("unshare-user-try", ALWAYS_NEW),
    ROW("unshare-ipc", ALWAYS_NEW),
    ROW("unshare-pid", ALWAYS_NEW),
    ROW("unshare-net", ALWAYS_NEW "; --network none is the default"),
    ROW("unshare-uts", ALWAYS_NEW),
    ROW("unshare-cgroup", ALWAYS_NEW),
    ROW("unshare-cgroup-try", ALWAYS_NEW),
    ROW("share-net", "the host's network is never shared; --network internet reaches public addresses, "
                     "--host-port PORT one port of the host"),
    ROW("die-with-parent", "always so: when rind run is killed, nothing of it stays behind; leave it out"),
    ROW("new-session", "always so: the command is in a session of its own, without rind's terminal; leave it out"),
    ROW("as-pid-1", "always so without --init; leave it out"),
    ROW("bind", BIND),
    ROW("bind-try", BIND),
    ROW("bind-fd", BIND),
    ROW("ro-bind", "here it is -v SRC:DST:ro; for bwrap's --ro-bind / /: --rootfs host"),
    ROW("ro-bind-try", "here it is -v SRC:DST:ro; for bwrap's --ro-bind / /: --rootfs host"),
    ROW("ro-bind-fd", "here it is -v SRC:DST:ro"),
    ROW("dev-bind", NO_DEVICES),
    ROW("dev-bind-try", NO_DEVICES),
    ROW("remount-ro", "-v SRC:DST:ro, or --read-only for the root file system"),
    ROW("overlay", "the root file system is an overlay: --rootfs DIR is not written to"),
    ROW("overlay-src", "the root file system is an overlay: --rootfs DIR is not written to"),
    ROW("tmp-overlay", "the root file system is an overlay: --rootfs DIR is not written to"),
    ROW("ro-overlay", "the root file system is an overlay: --rootfs DIR is not written to"),
    ROW("proc", "/proc is there; leave it out"),
    ROW("dev", "/dev is there, with the devices that programs expect; leave it out"),
    ROW("mqueue", "/dev/mqueue is there; leave it out"),
    ROW("dir", ROOT_ENTRY),
    ROW("file", ROOT_ENTRY),
    ROW("bind-data", ROOT_ENTRY),
    ROW("ro-bind-data", ROOT_ENTRY),
    ROW("symlink", ROOT_ENTRY),
    ROW("perms", ROOT_ENTRY),
    ROW("chmod", ROOT_ENTRY),
    ROW("size", "--tmpfs DST:SIZE"),
    ROW("setenv", "-e KEY=VALUE"),
    ROW("clearenv", "always so: nothing of rind's environment is passed on; leave it out"),
    ROW("chdir", "-w DIR"),
    ROW("uid", USER),
    ROW("gid", USER),
    ROW("argv0", "the command's own name is passed; leave it out"),
    ROW("args", "options are arguments alone; rind create --help lists them"),
    ROW("seccomp", "the filter is the policy's, as JSON: --policy FILE"),
    ROW("add-seccomp-fd", "the filter is the policy's, as JSON: --policy FILE"),
    ROW("exec-label", "there are no SELinux labels; --policy says what is allowed"),
    ROW("file-label", "there are no SELinux labels; --policy says what is allowed"),
    ROW("userns-block-fd", ALWAYS_NEW),
    ROW("disable-userns", "how many user namespaces there may be is the policy's: limits.userNamespaces"),
    ROW("assert-userns-disabled", "how many user namespaces there may be is the policy's: limits.userNamespaces"),
    ROW("info-fd", "rind create --json, or rind inspect NAME"),
    ROW("json-status-fd", "rind events --json, or the exit status"),
    ROW("sync-fd", "rind wait NAME"),
    ROW("block-fd", "rind create, and then rind start"),
    ROW("lock-file", "rind holds its locks itself; leave it out"),
    {0},
};

const struct opt foreign_exec_options[] = {
    ROW("privileged", "a command has what the sandbox's policy allows; make it with another --policy"),
    ROW("cap-add", NO_CAPS),
    ROW_LETTER("latest", 'l', "name the sandbox; rind ls lists them, the newest last"),
    ROW("preserve-fds", "file descriptors are not passed on; -i passes standard input"),
    {0},
};

const struct opt foreign_list_options[] = {
    ROW_LETTER("filter", 'f', "here it is --label KEY[=VALUE]; rind ls --status STATE for states"),
    ROW_LETTER("last", 'n', "sandboxes are listed in the order in which they were made: rind ls | tail -n COUNT"),
    ROW_LETTER("latest", 'l', "sandboxes are listed in the order in which they were made: rind ls | tail -n 1"),
    ROW_LETTER("size", 's', "rind system df shows what all take; rind diff NAME what one has changed"),
    {0},
};

const struct opt foreign_inspect_options[] = {
    ROW("type", "sandboxes are shown; others by rind images inspect, volume inspect, network inspect"),
    ROW_LETTER("size", 's', "rind diff NAME shows what it has changed"),
    {0},
};

const struct opt foreign_logs_options[] = {
    ROW("details", "a log has no attributes; rind inspect NAME shows labels and environment"),
    {0},
};

const struct opt foreign_image_options[] = {
    ROW("digests", "rind images inspect NAME shows the digest"),
    ROW("filter", "rind images ls | grep TEXT, or --json"),
    ROW("no-trunc", "rind images --json shows ids in full"),
    ROW("platform", "an archive's image for this machine is loaded; leave it out"),
    ROW_LETTER("input", 'i', "the file is the operand: rind load FILE"),
    {0},
};

const struct opt foreign_top_options[] = {
    ROW_LETTER("host", 'H', "here it is --socket PATH, or $RIND_SOCKET; $DOCKER_HOST is for Docker's clients"),
    ROW_LETTER("context", 'c', "there are no contexts; --socket PATH names the daemon"),
    ROW("config", "rind has no configuration of its own; the daemon's is rind serve --config FILE"),
    ROW("log-level", "--debug logs what is done"),
    ROW("tls", "the daemon is behind a unix socket, without TLS; leave it out"),
    ROW("root", "here it is --state DIR"),
    ROW("remote", "--socket PATH names the daemon"),
    ROW("url", "--socket PATH names the daemon"),
    {0},
};
/* clang-format on */
