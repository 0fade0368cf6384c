"""Bytes to a port of a sandbox, and from it: over the API's port stream, by the socket that it gives away, and through a published port, beside docker-proxy, slirp4netns, pasta, a
veth between two net namespaces, and loopback without anything in between. The CPU time is that of the processes in between. The
receiver's and the sender's own are nobody's here, though the kernel does a part of TCP's work, for all alike, in whichever of the
processes has just asked for something.

docker-proxy gets the receiver on the host's loopback, which spares it Docker's bridge and firewall; slirp4netns and pasta forward a
port of 127.0.0.1 to a receiver in a net namespace of its own, as they do for rootless containers.

Each proxy and each receiver has a session of its own, as a daemon and what runs in a container have: the scheduler may share the
processor by sessions."""
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import time

from benchlib import Case, Reach, Series, Skip
from engines import DOCKER_DIRS, Rind, children, cpu_seconds, descendants, engine

MIB = 512  # a batch, over all of its connections
CONNS = (1, 32)
FEW_CONNS = {"slirp4netns": (1,)}  # its queue of connections has one place: of 32 at once it resets some
SHORT = 300  # connections a batch
PORT = 19080
READY = 20


def found(name):
    return shutil.which(name, path=":".join(DOCKER_DIRS + ["/usr/sbin", "/usr/bin"]))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


_libc = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def dies_with_us():
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def comm(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii", errors="replace") as f:
            return f.read().strip()
    except OSError:
        return ""


def argument(pid, i):
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as f:
            return (f.read().split("\0") + [""] * i)[i]
    except OSError:
        return ""


def alive(pid):
    """Not even a zombie: whom an ended parent leaves is ours (engines.py)."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass
    return os.path.exists(f"/proc/{pid}")


class Way:
    """One way to the receiver: its address, and whose CPU time it costs."""

    def __init__(self, ctx, name, load):
        self.ctx, self.name, self.load, self.procs = ctx, name, load, []
        self.address, self.pids, self.prefix = None, [], []
        self.dir = os.path.join(ctx.state, "way-" + name.replace(" ", "-"))
        os.mkdir(self.dir)
        ctx.cleanups.append(self.stop)

    def need(self, *programs):
        for p in programs:
            if not found(p):
                raise Skip(f"no {p} here; scripts/deps bench brings it")

    def cage(self, script, *options):
        """Runs a shell script in a pid namespace of its own, which ends with this way, whatever its programs do, change or spawn;
        and with this program, however that ends. They see their working directory as `.`."""
        p = subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child=KILL", *options, "sh", "-euc", script],
                             cwd=self.dir, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             preexec_fn=dies_with_us, start_new_session=True)
        self.procs.append(p)
        return p

    def inside(self, p):
        """The pid of the shell of a cage."""
        end = time.monotonic() + READY
        while not children(p.pid):
            if p.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{self.name} does not start")
            time.sleep(0.02)
        return children(p.pid)[0]

    def sends(self, verb, *args, check=True):
        cmd = [*self.prefix, self.load, verb, *map(str, self.address), *map(str, args)]
        if check:
            return self.ctx.samples(cmd)[0]
        try:
            return subprocess.run(cmd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=5, check=False).returncode
        except subprocess.TimeoutExpired:
            return -1

    def wait(self):
        end = time.monotonic() + READY
        while self.sends("short", 1, check=False) != 0:
            if time.monotonic() > end:
                raise RuntimeError(f"nobody answers at {self.address}")
            time.sleep(0.05)

    def find(self, p, *names):
        """Whose CPU time counts: those in the cage that are called so."""
        self.pids = [pid for pid in descendants(p.pid) if comm(pid).startswith(names)]
        if not self.pids:
            raise RuntimeError(f"{self.name}: none of its processes is called {names}")

    def stop(self):
        for p in reversed(self.procs):
            ours = descendants(p.pid)
            p.kill()
            p.wait()
            end = time.monotonic() + READY
            while any(alive(pid) for pid in ours) and time.monotonic() < end:
                time.sleep(0.01)
        self.procs = []


def direct(way):
    way.address = ("127.0.0.1", free_port())
    way.cage(f"setsid '{way.load}' sink 127.0.0.1 {way.address[1]}")


def veth(way):
    """The sender is in one net namespace, the receiver in another."""
    p = way.cage("unshare -n sh -c 'echo $$ >new; mv new receiver; until [ -e go ]; do sleep 0.02; done; "
                 f"""exec setsid "{way.load}" sink 0.0.0.0 {PORT}' &
        until [ -e receiver ]; do sleep 0.02; done
        ip link add v0 type veth peer name v1 netns "$(cat receiver)"
        ip addr add 10.0.0.1/30 dev v0; ip link set v0 up
        nsenter -t "$(cat receiver)" -n sh -c 'ip addr add 10.0.0.2/30 dev v1; ip link set v1 up'
        touch go; wait""", "--net")
    way.prefix = ["nsenter", f"--net=/proc/{way.inside(p)}/ns/net"]
    way.address = ("10.0.0.2", PORT)


def sandbox(way, **spec):
    shutil.copy(way.load, os.path.join(way.ctx.root, "bin", "port-load"))
    e = engine(way.ctx, Rind)
    status, body = e.request("POST", "/v1/sandboxes", json.dumps({
        "rootfs": way.ctx.root, "start": True, "command": ["/bin/port-load", "sink", "127.0.0.1", str(PORT)], **spec}),
        {"Content-Type": "application/json"})
    if status != 201:
        raise RuntimeError(f"create: {status} {body[:300]!r}")
    way.pids = e.daemons()
    return e, json.loads(body)


def rind(way):
    _, s = sandbox(way, ports=[{"port": PORT}])
    way.address = ("127.0.0.1", s["ports"][0]["hostPort"])


def rind_stream(way):
    e, s = sandbox(way)
    way.address = (e.socket, f"/v1/sandboxes/{s['id']}/ports/{PORT}/connect")


def rind_socket(way):
    e, s = sandbox(way)
    way.address = (e.socket, f"+/v1/sandboxes/{s['id']}/ports/{PORT}/connect")


def stream_floor(way):
    """A bare splice loop where the port stream has rind: what any relay from a unix socket to a server costs here."""
    inner = free_port()
    way.address = (os.path.join(way.dir, "socket"), "/")
    p = way.cage(f"setsid '{way.load}' sink 127.0.0.1 {inner} & setsid '{way.load}' floor '{way.address[0]}' 127.0.0.1 {inner} & wait")
    way.wait()
    way.pids = [pid for pid in descendants(p.pid) if argument(pid, 1) == "floor"]


def docker_proxy(way):
    proxy = found("docker-proxy")
    if not proxy:
        raise Skip("no docker-proxy here; scripts/deps docker brings it")
    inner = free_port()
    way.address = ("127.0.0.1", free_port())
    # It tells over descriptor 3 that it listens.
    p = way.cage(f"setsid '{way.load}' sink 127.0.0.1 {inner} & '{proxy}' -proto tcp -host-ip 127.0.0.1 -host-port {way.address[1]} "
                 f"-container-ip 127.0.0.1 -container-port {inner} 3>/dev/null & wait")
    way.wait()
    way.find(p, "docker-proxy")


def slirp4netns(way):
    way.need("slirp4netns")
    way.address = ("127.0.0.1", free_port())
    p = way.cage(f"""unshare -n sh -c 'ip link set lo up; echo $$ >new; mv new receiver; exec setsid "{way.load}" sink 0.0.0.0 {PORT}' &
        until [ -e receiver ]; do sleep 0.02; done
        slirp4netns --configure --mtu=65520 --api-socket api "$(cat receiver)" tap0 & wait""")
    ask = {"execute": "add_hostfwd", "arguments": {"proto": "tcp", "host_addr": "127.0.0.1", "host_port": way.address[1],
                                                   "guest_addr": "10.0.2.100", "guest_port": PORT}}
    end = time.monotonic() + READY
    while True:
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(READY)
                s.connect(os.path.join(way.dir, "api"))
                s.sendall(json.dumps(ask).encode())
                s.shutdown(socket.SHUT_WR)
                answer = s.recv(4096)
                break
        except (FileNotFoundError, ConnectionRefusedError):
            if time.monotonic() > end:
                raise
            time.sleep(0.02)
    if b"return" not in answer:
        raise RuntimeError(f"slirp4netns: {answer!r}")
    way.wait()
    way.find(p, "slirp4netns")


def pasta(way):
    """As somebody who is not root: this version, started as root, asks for its own namespace for ever without a pause."""
    way.need("pasta")
    way.address = ("127.0.0.1", free_port())
    shutil.copy(way.load, os.path.join(way.ctx.root, "bin", "port-load"))  # where nobody can execute it
    p = way.cage(f"""mount -t tmpfs tmpfs /dev/net; mknod -m 666 /dev/net/tun c 10 200; cd /
        setpriv --reuid=65534 --regid=65534 --clear-groups pasta -f --config-net -t 127.0.0.1/{way.address[1]}:{PORT} -u none \
            -T none -U none -- setsid '{way.ctx.root}/bin/port-load' sink 0.0.0.0 {PORT} & wait""")
    way.wait()
    way.find(p, "pasta", "passt")


WAYS = {"rind": rind, "rind's port stream": rind_stream, "rind's socket": rind_socket, "a bare splice loop": stream_floor, "docker-proxy": docker_proxy,
        "slirp4netns": slirp4netns, "pasta": pasta, "veth": veth, "direct": direct}
UNPROXIED = ("veth", "direct")
OURS = ("rind", "rind's port stream", "rind's socket")
MANY, MANY_BY = 10000, 4


def label(who, what):
    return f"port, {who}: {what}"


def conns_text(conns):
    return f"{conns} connection{'s' * (conns > 1)}"


def peer(who, other, what):
    return label(other, what) if who != other else None


DIRECTIONS = {"bulk": "to it", "pull": "from it"}  # by the verbs of port-load
BOTH = "each way"
TIME, CPU = "time for 1 GiB", "CPU for 1 GiB"


def series(who):
    result = []
    for conns in FEW_CONNS.get(who, CONNS):
        for way in (*DIRECTIONS.values(), BOTH):
            for kind, ratio in ((TIME, 1.0), (CPU, 0.5)):
                what = f"{conns_text(conns)}, {kind} {way}"
                if kind == TIME or who not in UNPROXIED:
                    result.append(Series(label(who, what), unit="ms", peer=peer(who, "docker-proxy", what),
                                         reach=Reach(ratio=ratio) if who in OURS else None))
    what = "connect, a byte and back, close"
    result.append(Series(label(who, what), peer=peer(who, "direct", what)))
    return result


def many_case(way):
    """Once: what is closed by the sender keeps its number for a while."""
    what = f"{MANY} short connections, {MANY_BY} at a time"
    cpu = what + ", CPU"
    both = [Series(label(way.name, what), unit="ms", peer=peer(way.name, "docker-proxy", what))]
    if way.name not in UNPROXIED:
        both.append(Series(label(way.name, cpu), unit="ms", peer=peer(way.name, "docker-proxy", cpu)))

    def batch(_):
        before = cpu_seconds(way.pids)
        result = {both[0].name: [way.sends("many", MANY, MANY_BY)[0] / 1e6]}
        if len(both) > 1:
            result[both[1].name] = [(cpu_seconds(way.pids) - before) * 1e3]
        return result

    return Case(both, batch, once=True)


def port_case(way):
    def moved(verb, conns):
        before = cpu_seconds(way.pids)
        ns = way.sends(verb, conns, MIB)[0]
        return {TIME: ns / 1e6 * 1024 / MIB, CPU: (cpu_seconds(way.pids) - before) * 1e3 * 1024 / MIB}

    def batch(_):
        result = {}
        for conns in FEW_CONNS.get(way.name, CONNS):
            took = {name: moved(verb, conns) for verb, name in DIRECTIONS.items()}
            took[BOTH] = {kind: sum(t[kind] for t in took.values()) for kind in (TIME, CPU)}
            for name, kinds in took.items():
                for kind, value in kinds.items():
                    if kind == TIME or way.name not in UNPROXIED:
                        result[label(way.name, f"{conns_text(conns)}, {kind} {name}")] = [value]
        result[label(way.name, "connect, a byte and back, close")] = [n / 1e3 for n in way.sends("short", SHORT)]
        return result

    return Case(series(way.name), batch)


def cases(ctx):
    load = ctx.build("port-load", ["port-load.c"], musl=True)
    made = []
    for who, open_way in WAYS.items():
        way = Way(ctx, who, load)
        try:
            open_way(way)
            way.wait()
        except (Skip, RuntimeError, OSError) as e:
            way.stop()
            if not isinstance(e, Skip):
                raise
            print(f"port, {who}: {e}")
            continue
        made += [port_case(way), many_case(way)]
    return made
