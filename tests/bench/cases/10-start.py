"""Starting: the floor, `rind run`, and the peers, each "true" in the same set of namespaces and the same root directory.

What each peer does and leaves out: bwrap makes no cgroups, no overlay and no second user namespace; unshare only the
namespaces and /proc; runc makes cgroups, masks and read-only paths, but no overlay. None of them loads a seccomp filter here."""
import json
import os
import shutil
import subprocess

from benchlib import Case, Reach, Series, floor_command

RUNC_ID = f"rind-bench-{os.getpid()}"
RUNC_BASE = 1000000  # host id of uid 0 in runc's sandbox
MASKED = ["/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
          "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware"]
READ_ONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]
NO_EXEC = ["nosuid", "noexec", "nodev"]


def runc_bundle(ctx, name, args):
    """A bundle as close to a sandbox of rind as runc goes by itself."""
    bundle = os.path.join(ctx.state, name)
    os.mkdir(bundle)
    ids = [{"containerID": 0, "hostID": RUNC_BASE, "size": 65536}]
    caps = ["CAP_CHOWN", "CAP_KILL", "CAP_SETGID", "CAP_SETUID"]
    config = {
        "ociVersion": "1.0.2",
        "process": {"user": {"uid": 0, "gid": 0}, "args": args, "env": ["PATH=/bin"], "cwd": "/",
                    "noNewPrivileges": True,
                    "capabilities": {k: caps for k in ("bounding", "effective", "permitted")}},
        "root": {"path": ctx.root, "readonly": False},
        "hostname": "sandbox",
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=65536k"]},
            {"destination": "/dev/pts", "type": "devpts", "source": "devpts",
             "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]},
            {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": NO_EXEC + ["mode=1777", "size=65536k"]},
            {"destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue", "options": NO_EXEC},
            {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": NO_EXEC + ["ro"]},
        ],
        "linux": {
            "uidMappings": ids, "gidMappings": ids,
            "cgroupsPath": f"/{RUNC_ID}-{name}",
            "resources": {"memory": {"limit": 2 << 30}, "pids": {"limit": 1024}, "cpu": {"quota": 200000, "period": 100000}},
            "namespaces": [{"type": t} for t in ("pid", "network", "ipc", "uts", "mount", "cgroup", "user")],
            "maskedPaths": MASKED, "readonlyPaths": READ_ONLY,
        },
    }
    with open(os.path.join(bundle, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
    return bundle


def commands(ctx):
    true = os.path.join(ctx.root, "bin", "true")
    every = {
        "fork+exec true": [true],
        "rind run --rootfs -- true": ctx.rind + ["run", "--rootfs", ctx.root, "--", "/bin/true"],
        "rind run -- true": ctx.rind + ["run", "--", "true"],
        "bwrap --unshare-all": ["bwrap", "--unshare-all", "--bind", ctx.root, "/", "--proc", "/proc", "--dev", "/dev",
                                "/bin/true"],
        "unshare (all namespaces)": ["unshare", "--user", "--map-root-user", "--mount", "--uts", "--ipc", "--net", "--pid",
                                     "--cgroup", "--fork", "--root", ctx.root, "--mount-proc", "/bin/true"],
    }
    if shutil.which("runc"):
        every["runc run"] = ["runc", "--root", os.path.join(ctx.state, "runc"), "run", "--bundle", runc_bundle(ctx, "bundle", ["/bin/true"]), RUNC_ID]
    return {name: argv for name, argv in every.items() if shutil.which(argv[0]) or os.path.exists(argv[0])}


def works(argv):
    """A peer that does not run on this host is left out, and said."""
    r = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if r.returncode != 0:
        print(f"left out: {argv[0]}: {r.stderr.strip().splitlines()[-1] if r.stderr.strip() else r.returncode}")
    return r.returncode == 0


def cases(ctx):
    floor = floor_command(ctx)
    usable = {name: argv for name, argv in commands(ctx).items() if works(argv)}
    reach = {"rind run --rootfs -- true": Reach(below=True), "rind run -- true": Reach(below=True)}
    peer = {name: "bwrap --unshare-all" for name in reach}
    series = [Series(name, peer=peer.get(name), reach=reach.get(name)) for name in usable]
    return [
        Case([Series("floor: create+true+remove")],
             lambda n: {"floor: create+true+remove": [ns / 1e3 for ns in ctx.samples(floor + ["--runs", str(n)])]}),
        # Alone on a quiet host: what a v1 attach through cgroup.procs would cost shows only here.
        Case([Series("floor: alone after 100 ms of quiet")],
             lambda n: {"floor: alone after 100 ms of quiet":
                        [ns / 1e3 for ns in ctx.samples(floor + ["--runs", str(max(2, n // 4)), "--pause", "100"])[1:]]}),
        Case(series, lambda n: ctx.spawn(usable, n)),
    ]
