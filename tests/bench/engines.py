"""The daemons that `make bench` starts for itself, beside whatever the machine runs: rind, and the distribution's dockerd with
a containerd of its own.

Docker gets sockets, state and configuration below the bench's directory, a mount namespace and a cgroup parent of its own; it is
told to leave the firewall, forwarding and bridges alone. All of it is ended by the pids that were started here.
"""
import ctypes
import http.client
import json
import os
import shutil
import socket
import subprocess
import tarfile
import tempfile
import time

from benchlib import RIND, TOP, Skip

READY_SECONDS, STOP_SECONDS = 60, 60
IMAGE = "bench"
DOCKER_DIRS = [os.path.join(TOP, "build", "bench", "docker", "usr", d) for d in ("bin", "sbin")]
PR_SET_CHILD_SUBREAPER = 36
CPUCLOCK_SCHED = 2  # of a process, with all of its threads


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return [int(x) for x in f.read().split()]
    except OSError:
        return []


def descendants(pid):
    result = []
    for child in children(pid):
        result += [child] + descendants(child)
    return result


def exe(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def pss_kib(pid):
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("Pss:"))
    except OSError:
        return 0


def cpu_seconds(pids):
    """User and system time of these processes themselves, so far, by the scheduler's own clocks: /proc/PID/stat has it in ticks."""
    total = 0.0
    for pid in pids:
        try:
            total += time.clock_gettime(~pid << 3 | CPUCLOCK_SCHED)  # clock_getcpuclockid(3)
        except OSError:
            continue  # it has ended
    return total


class UnixHTTP(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("bench", timeout=READY_SECONDS)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Engine:
    """start() is called by the Context, once; stop() at the end of the run."""
    name = ""

    def __init__(self, ctx):
        self.ctx = ctx
        self.dir = os.path.join(ctx.state, "daemon-" + self.name)
        self.socket = os.path.join(self.dir, "sock")
        self.root = ctx.root
        self.procs = []

    def spawn(self, argv, log, **kw):
        with open(os.path.join(self.dir, log), "ab") as f:
            p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=f, stderr=f, start_new_session=True, **kw)
        self.procs.append(p)
        return p

    def request(self, method, path, body=None, headers=None):
        conn = UnixHTTP(self.socket)
        try:
            conn.request(method, path, body, headers or {})
            r = conn.getresponse()
            return r.status, r.read()
        finally:
            conn.close()

    def wait_ready(self, path):
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                if self.request("GET", path)[0] == 200:
                    return
            except OSError as e:
                why = e
            if any(p.poll() is not None for p in self.procs) or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"{self.name} does not start: {why}; see the log in {self.dir}")
            time.sleep(0.02)

    def stop(self):
        for p in reversed(self.procs):
            p.terminate()
            try:
                p.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
        self.procs = []

    def api(self, verb, *args):
        """Samples of a verb of api.c, in µs."""
        cmd = [self.ctx.program("api", ["api.c", "http.c"]), self.name, self.socket, self.root, verb]
        return [[ns / 1e3 for ns in s] for s in self.ctx.samples(cmd + [str(a) for a in args])]


class Rind(Engine):
    name = "rind"

    def start(self):
        os.makedirs(self.dir)
        self.spawn([RIND, "--state", os.path.join(self.dir, "state"), "--runtime", os.path.join(self.dir, "run"), "serve",
                    "--socket", self.socket, "--gateway", "127.0.0.1:0"], "log")
        self.wait_ready("/v1/health")

    def daemons(self):
        """Launcher and supervisor."""
        launcher = self.procs[0].pid
        return [launcher] + [p for p in children(launcher) if not exe(p).startswith("/memfd:")]

    def helpers(self):
        """What runs for the sandboxes alone."""
        return [p for p in descendants(self.procs[0].pid) if exe(p).startswith("/memfd:rind-init")]

    def stop(self):
        try:
            for s in json.loads(self.request("GET", "/v1/sandboxes")[1])["sandboxes"]:
                self.request("DELETE", f"/v1/sandboxes/{s['id']}?force=true")
        except (OSError, ValueError) as e:
            print(f"rind: cannot remove its sandboxes: {e}")
        super().stop()


class Docker(Engine):
    name = "docker"

    def _program(self, name):
        found = shutil.which(name, path=":".join(DOCKER_DIRS + ["/usr/sbin", "/usr/bin", "/usr/local/bin"]))
        if not found:
            raise Skip(f"no {name} here; scripts/deps docker brings it")
        return found

    def start(self):
        dockerd, containerd = self._program("dockerd"), self._program("containerd")
        if not shutil.which("runc"):
            raise Skip("no runc here")
        # The shims' parent is to be us, who reaps them, not an init that may not.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.root, self.cgroup = IMAGE, f"rind-bench-{os.getpid()}"
        os.makedirs(self.dir)
        grpc, config = os.path.join(self.dir, "c.sock"), os.path.join(self.dir, "containerd.toml")
        with open(config, "w", encoding="utf-8") as f:
            f.write(f'version = 2\nroot = "{self.dir}/c-root"\nstate = "{self.dir}/c-state"\n'
                    f'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n[grpc]\naddress = "{grpc}"\n')
        with open(os.path.join(self.dir, "daemon.json"), "w", encoding="utf-8") as f:
            f.write("{}")
        env = os.environ | {"PATH": ":".join(DOCKER_DIRS + [os.environ["PATH"]])}
        # Sockets and directories below /run are built into both: they get one of their own.
        c = self.spawn(["unshare", "--mount", "--propagation", "private", "sh", "-c",
                        'mount -t tmpfs rind-bench /run && exec "$0" --config "$1"', containerd, config], "containerd.log", env=env)
        deadline = time.monotonic() + READY_SECONDS
        while not os.path.exists(grpc):
            if c.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError("containerd does not start")
            time.sleep(0.02)
        self.spawn(["nsenter", "--mount", "--target", str(c.pid), dockerd, "--config-file", os.path.join(self.dir, "daemon.json"),
                    "--containerd", grpc, "--host", "unix://" + self.socket, "--data-root", os.path.join(self.dir, "data"),
                    "--exec-root", os.path.join(self.dir, "exec"), "--pidfile", os.path.join(self.dir, "pid"),
                    "--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false",
                    "--userland-proxy=false", "--group=root", "--cgroup-parent=/" + self.cgroup, "--log-level=error"],
                   "dockerd.log", env=env)
        self.wait_ready("/_ping")
        self._import()

    def _import(self):
        """The bench's own root directory, as an image."""
        with tempfile.TemporaryFile() as f:
            with tarfile.open(fileobj=f, mode="w") as tar:
                tar.add(self.ctx.root, arcname=".")
            f.seek(0)
            status, body = self.request("POST", f"/images/create?fromSrc=-&repo={IMAGE}&tag=latest", f.read())
        if status != 200 or b"errorDetail" in body:
            raise RuntimeError(f"docker import: {status} {body[:300]!r}")

    def daemons(self):
        return [p.pid for p in self.procs]

    def helpers(self):
        """The shims, one a container."""
        return [p for p in children(os.getpid()) if os.path.basename(exe(p)).startswith("containerd-shim")]

    def stop(self):
        try:
            for c in json.loads(self.request("GET", "/containers/json?all=true")[1]):
                self.request("DELETE", f"/containers/{c['Id']}?force=true")
        except (OSError, ValueError) as e:
            print(f"docker: cannot remove its containers: {e}")
        super().stop()
        for parent in os.listdir("/sys/fs/cgroup"):
            for top in (parent, ""):
                try:
                    os.rmdir(os.path.join("/sys/fs/cgroup", top, self.cgroup))
                except OSError:
                    pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


def engine(ctx, kind):
    """The run's one daemon of that kind, started by the first case that asks; Skip where it cannot be had."""
    if kind not in ctx.engines:
        e = kind(ctx)
        e.start()
        ctx.engines[kind] = e
        e.api("fill", 0, 1)  # where execs run: many-0
    return ctx.engines[kind]
