#!/usr/bin/env -S python3 -IS
"""Runs a test program on a host of its own: in namespaces that hold nothing of the machine's but its files.

usage: isolate.py PROGRAM [ARGUMENT…]     or, in Python, enter() before anything else is done

    process  (run-tests, a shell)
     └ keeper   in the machine's namespaces; makes the cgroups and the directory, removes both at the end
        └ maker    joins the cgroups, unshares mount, pid, net, cgroup and ipc namespaces
           └ init     process 1 inside: mounts, the uplink; reaps orphans; ends with the program
              └ program

    mounts   private; /tmp, /run, /var/lib/rind, /dev/pts, /dev/shm, /proc and /sys are new; containers' mounts are gone
    network  lo, and up0 (192.0.2.2/24, 2001:db8:1::2/64) with default routes to a neighbour that answers "unreachable"
    cgroups  rind-test-RUN-PID in each hierarchy, which is the root of what the program sees
    pids     the program's own

A program that is started inside does not do it again. The kernel's own limits, loop devices and user ids remain the machine's.
When the keeper is killed, the processes die with it; cgroups and directory stay, for clean(), which run-tests calls.
"""
import ctypes
import os
import signal
import sys
import time

TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
INSIDE = "RIND_TEST_INSIDE"  # the pid namespace of a program inside: an environment that is copied elsewhere says nothing
ENGINE = "RIND_TEST_DOCKER_SOCKET"  # of an engine of the machine's, which the tests then have to see
SHARED = "RIND_TEST_SHARED"  # see shared()
RUN = "RIND_TEST_RUN"        # names what belongs to one run of the suite
PREFIX = "rind-test-"
SHARED_TOP = "/var/cache"
UPLINK = "up0"
UPLINK_IPV4, UPLINK_IPV6 = "192.0.2.2/24", "2001:db8:1::2/64"
NEIGHBOUR_IPV4, NEIGHBOUR_IPV6 = "192.0.2.1", "2001:db8:1::1"
CGROUP_PATIENCE = 10.0  # seconds that a cgroup may stay busy after its last process is gone

# Controllers that rind looks for: where version 2 has one of them, a run has to stand where they can be passed on.
CONTROLLERS = {"memory", "cpu", "pids", "cpuset"}
# File systems in /sys that each sysfs has to be given anew.
IN_SYS = ("securityfs", "debugfs", "tracefs", "fusectl", "bpf", "pstore", "configfs", "efivarfs")
# File systems that containers, snaps and automounters bring and take away while tests run.
COMING_AND_GOING = ("overlay", "nsfs", "autofs", "binfmt_misc", "cgroup", "cgroup2", "tmpfs", "fuse", "squashfs", "rpc_pipefs",
                    "proc", "sysfs", "devpts")  # those of a chroot, which also decide whether a user namespace may mount its own

CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = 0x20000, 0x2000000, 0x8000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 0x1000, 0x4000, 0x40000
MNT_DETACH = 2
PR_SET_PDEATHSIG = 1

# What new net namespaces take over from the machine (net.core.devconf_inherit_init_net), and what the kernel has them at: a
# machine that runs Docker forwards, a distribution checks sources its own way. `all` and `default` count for later devices.
AS_THE_KERNEL_HAS_IT = {
    "ipv4": {"forwarding": 0, "rp_filter": 0, "route_localnet": 0, "accept_local": 0, "proxy_arp": 0, "arp_ignore": 0,
             "arp_announce": 0, "arp_filter": 0, "send_redirects": 1},
    "ipv6": {"forwarding": 0, "disable_ipv6": 0, "accept_ra": 1, "autoconf": 1},
}

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result, what):
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def _mount(source, target, fstype=None, flags=0, data=None):
    text = [None if x is None else os.fsencode(x) for x in (source, target, fstype, data)]
    _check(_libc.mount(text[0], text[1], text[2], ctypes.c_ulong(flags), text[3]), f"mount {fstype or source} at {target}")


def _detach(target):
    """Unmounts it with all that is below; whether something was mounted."""
    return _libc.umount2(os.fsencode(target), MNT_DETACH) == 0


def _read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError:
        return ""


def _write(path, text):
    with open(path, "w", encoding="ascii") as f:
        f.write(text)


def forget_the_machine():
    """Gives the calling thread's net namespace, which is new, the kernel's own settings instead of the machine's."""
    for family, values in AS_THE_KERNEL_HAS_IT.items():
        for where in ("all", "default", "lo"):
            for name, value in values.items():
                path = f"/proc/sys/net/{family}/conf/{where}/{name}"
                now = _read(path)
                if now and int(now) != value:  # absent: no IPv6
                    _write(path, str(value))


def _unescaped(text):
    """mountinfo writes a space and what else would be in the way as a backslash and three octal digits."""
    first, *rest = text.split("\\")
    return first + "".join(chr(int(part[:3], 8)) + part[3:] for part in rest)


class Mount:
    """A line of mountinfo."""

    def __init__(self, line):
        before, _, after = line.partition(" - ")
        fields, rest = before.split(), after.split()
        self.root, self.point = _unescaped(fields[3]), _unescaped(fields[4])
        self.fstype, self.options = rest[0], rest[-1].split(",")


def _mounts():
    return [Mount(line) for line in _read("/proc/self/mountinfo").splitlines()]


def below(path, top):
    return (path + "/").startswith(top.rstrip("/") + "/")


# ---- cgroups -----------------------------------------------------------------------------------------------------
class Hierarchy:
    """A hierarchy that is mounted, and the directory in which runs get theirs."""

    def __init__(self, m, own):
        self.point, self.version = m.point, 2 if m.fstype == "cgroup2" else 1
        self.options = [o for o in m.options if o.startswith("name=") or o in own] if self.version == 1 else []
        path = own.get("" if self.version == 2 else self.options[0] if self.options else None, "/")
        here = os.path.normpath(os.path.join(m.point, os.path.relpath(path, m.root)))
        if not below(here, m.point) or not os.path.isdir(here):
            here = m.point
        offered = set(_read(os.path.join(m.point, "cgroup.controllers")).split()) & CONTROLLERS
        # Of version 2 only the root may have both processes and children with controllers.
        self.passes_on = sorted(offered) if self.version == 2 else []
        self.parent = m.point if self.passes_on else here
        self.dir = None

    def make(self, name):
        """The run's directory; what its parent does not pass on yet it passes on from now on."""
        for controller in set(self.passes_on) - set(_read(os.path.join(self.parent, "cgroup.subtree_control")).split()):
            _try_write(os.path.join(self.parent, "cgroup.subtree_control"), "+" + controller)
        made = os.path.join(self.parent, name)
        os.mkdir(made)
        self.dir = made
        for file in ("cpuset.cpus", "cpuset.mems"):  # version 1 begins with none
            if self.version == 1 and os.path.exists(os.path.join(made, file)):
                _write(os.path.join(made, file), _read(os.path.join(self.parent, file)).strip())

    def join(self):
        _write(os.path.join(self.dir, "cgroup.procs"), "0")

    def leave_root(self):
        """Of version 2 a cgroup that passes controllers on has no processes of its own."""
        if self.passes_on:
            os.mkdir(os.path.join(self.dir, "program"))
            _write(os.path.join(self.dir, "program", "cgroup.procs"), "0")

    def remount(self):
        os.makedirs(self.point, exist_ok=True)
        options = ",".join((["none"] if all(o.startswith("name=") for o in self.options) else []) + self.options)
        _mount("cgroup", self.point, "cgroup2" if self.version == 2 else "cgroup", MS_NOSUID | MS_NODEV | MS_NOEXEC,
               options if self.version == 1 else None)


def _try_write(path, text):
    try:
        _write(path, text)
    except OSError:
        pass  # a host that does not pass this controller on: rind has to do without, too


def _hierarchies():
    """Each one that is mounted so that a directory can be made in it."""
    own, found, seen = {}, [], set()
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        own |= {c: path for c in controllers.split(",")}
    for m in _mounts():
        if m.fstype in ("cgroup", "cgroup2"):
            h = Hierarchy(m, own)
            which = tuple(h.options) if h.version == 1 else 2
            if which not in seen and os.access(h.parent, os.W_OK) and (h.version == 2 or h.options):
                seen.add(which)
                found.append(h)
    return found


def _remove_cgroups(top, end):
    """Removes the directories, children first; those that stay busy until the end are named."""
    while True:
        left = []
        for where, _, _ in os.walk(top, topdown=False):
            try:
                os.rmdir(where)
            except FileNotFoundError:
                pass
            except OSError as e:
                left.append(f"cgroup {where}: {e.strerror}")
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.01)


def shared():
    """A directory of the program's own that lies below no mount of these namespaces: its path is that on the machine."""
    os.makedirs(os.environ[SHARED], exist_ok=True)
    return os.environ[SHARED]


def clean(run):
    """What programs of this run have left on the machine, their keeper killed: removes it, and says what would not go."""
    if _is_inside():
        return []  # it is about the machine
    left, name = [], f"{PREFIX}{run}-"
    end = time.monotonic() + CGROUP_PATIENCE
    for h in _hierarchies():
        for entry in os.listdir(h.parent):
            if entry.startswith(name):
                left += _remove_cgroups(os.path.join(h.parent, entry), end)
    for top in {_temporary(), SHARED_TOP}:
        for entry in os.listdir(top):
            if entry.startswith(name):
                left += _remove_tree(os.path.join(top, entry))
    return left


def _temporary():
    return os.environ.get("TMPDIR", "/tmp")


def _remove_tree(path):
    """rm -rf, but never through a mount, behind which the checkout may be; a line where it stays."""
    if any(below(m.point, path) for m in _mounts()):
        return [f"directory {path}, in which something is mounted"]
    return [] if os.spawnlp(os.P_WAIT, "rm", "rm", "-rf", "--", path) == 0 else [f"directory {path}"]


# ---- mounts ------------------------------------------------------------------------------------------------------
def _needed(program):
    """What the program has to find where it is on the machine."""
    paths = [TOP, os.getcwd(), os.path.realpath(sys.executable), *os.environ.get("PATH", "").split(":")]
    if "RIND_BIN" in os.environ:
        paths.append(os.path.dirname(os.path.realpath(os.environ["RIND_BIN"])))
    if program and "/" in program:
        paths += [os.path.dirname(os.path.realpath(program)), os.path.realpath(program)]
    return [p for p in paths if os.path.isabs(p) and os.path.exists(p)]


def _new_tmp(scratch, needed):
    """/tmp becomes the program's own directory, with what is needed of the one before."""
    tmp = os.path.join(scratch, "tmp")
    for path in sorted(needed):
        if below(path, "/tmp") and path != "/tmp":
            inside = tmp + path.removeprefix("/tmp")
            if not os.path.exists(inside):
                os.makedirs(os.path.dirname(inside), exist_ok=True)
                if os.path.isdir(path):
                    os.mkdir(inside)
                else:
                    _write(inside, "")
                _mount(path, inside, None, MS_BIND | MS_REC)
    _mount(tmp, "/tmp", None, MS_BIND | MS_REC)


def _new_state(scratch):
    """/var/lib/rind: on disk, as tmpfs cannot be id-mapped before Linux 6.3. Where the machine has none, nothing is made in its
    /var/lib: the run has a copy of that, of mounts."""
    own = os.path.join(scratch, "lib")
    if os.path.isdir("/var/lib/rind"):
        _mount(own, "/var/lib/rind", None, MS_BIND)
        return
    copy = os.path.join(scratch, "var-lib")
    os.mkdir(copy)
    for entry in os.scandir("/var/lib"):
        inside = os.path.join(copy, entry.name)
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), inside)
        elif entry.is_dir():
            os.mkdir(inside)
            _mount(entry.path, inside, None, MS_BIND | MS_REC)
    os.mkdir(os.path.join(copy, "rind"))
    _mount(own, os.path.join(copy, "rind"), None, MS_BIND)
    _mount(copy, "/var/lib", None, MS_BIND | MS_REC)


def _new_sys(old, hierarchies):
    """A sysfs of the new net namespace, and in it what the machine has mounted there."""
    links = {}
    if os.path.isdir("/sys/fs/cgroup"):
        links = {e.name: os.readlink(e.path) for e in os.scandir("/sys/fs/cgroup") if e.is_symlink()}
    while _detach("/sys"):
        pass
    _mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    for m in old:
        if m.point == "/sys/fs/cgroup" and m.fstype == "tmpfs":
            _mount("tmpfs", m.point, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=755")
            for name, target in links.items():
                os.symlink(target, os.path.join(m.point, name))
        elif below(m.point, "/sys/") and m.fstype in IN_SYS:
            try:
                _mount(m.fstype, m.point, m.fstype, MS_NOSUID | MS_NODEV | MS_NOEXEC)
            except OSError:
                pass  # a directory of one that could not be mounted either
    for h in hierarchies:
        h.remount()


def _new_mounts(scratch, program, hierarchies):
    old, needed = _mounts(), _needed(program)
    _mount(None, "/", None, MS_REC | MS_PRIVATE)
    for m in reversed(old):
        replaced = any(below(m.point, top) for top in ("/dev/pts", "/dev/shm", "/proc", "/sys"))
        kind = m.fstype.partition(".")[0]
        wanted = m.point == "/" or any(below(p, m.point) for p in [*needed, "/tmp", "/dev"])
        if below(m.point, "/run") or (kind in COMING_AND_GOING and not replaced and not wanted):
            _detach(m.point)
    _new_state(scratch)
    _new_tmp(scratch, needed)  # which hides the scratch directory
    _new_sys(old, hierarchies)
    for point in ("/dev/shm", "/dev/pts", "/proc"):
        while _detach(point):
            pass
    _mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    _mount("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
    os.mkdir("/run/lock")
    os.chmod("/run/lock", 0o1777)
    if os.path.isdir("/dev/shm"):
        _mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777")
    _mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620,gid=5")
    try:
        os.chdir(os.getcwd())  # into the new mounts
    except OSError:
        os.chdir("/")


# ---- network -----------------------------------------------------------------------------------------------------
class Network:
    """The net namespace that this process has from now on, and a neighbour, which lives as long as the descriptor."""

    def __init__(self):
        self.neighbour, self.host = self._unshared(), self._unshared()

    @staticmethod
    def _unshared():
        _check(_libc.unshare(CLONE_NEWNET), "unshare net")
        return os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    def connect(self):
        """Makes the uplink, with the new /proc and /run in place."""
        ipv6 = os.path.isdir("/proc/sys/net/ipv6")
        _check(_libc.setns(self.neighbour, CLONE_NEWNET), "setns")
        forget_the_machine()
        _write("/proc/sys/net/ipv4/conf/all/forwarding", "1")  # what is not forwarded is not answered either
        if ipv6:
            _write("/proc/sys/net/ipv6/conf/all/forwarding", "1")
        _ip(f"link add far0 type veth peer name {UPLINK} netns /proc/{os.getpid()}/fd/{self.host}\nlink set far0 up\n"
            f"address add {NEIGHBOUR_IPV4}/24 dev far0\nroute add unreachable default\n" +
            (f"address add {NEIGHBOUR_IPV6}/64 dev far0 nodad\nroute add unreachable ::/0\n" if ipv6 else ""))
        _check(_libc.setns(self.host, CLONE_NEWNET), "setns")
        forget_the_machine()
        _ip(f"link set lo up\nlink set {UPLINK} up\n"
            f"address add {UPLINK_IPV4} dev {UPLINK}\nroute add default via {NEIGHBOUR_IPV4}\n" +
            (f"address add {UPLINK_IPV6} dev {UPLINK} nodad\nroute add ::/0 via {NEIGHBOUR_IPV6}\n" if ipv6 else ""))
        os.close(self.host)


def _ip(text):
    """Runs these lines of `ip`."""
    _write("/run/uplink", text)
    status = os.spawnlp(os.P_WAIT, "ip", "ip", "-batch", "/run/uplink")
    os.unlink("/run/uplink")
    if status != 0:
        raise OSError(0, f"ip ended with {status} after: {text}")


def _new_resolver():
    """/etc/resolv.conf names the neighbour, where nothing answers: a name that no test has made fails, and at once."""
    target = os.path.realpath("/etc/resolv.conf")
    if below(target, "/run"):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        _write(target, f"nameserver {NEIGHBOUR_IPV4}\n")
    elif os.path.exists(target):
        _write("/run/resolv.conf", f"nameserver {NEIGHBOUR_IPV4}\n")
        _mount("/run/resolv.conf", target, None, MS_BIND)


# ---- processes ---------------------------------------------------------------------------------------------------
def _stand_by(pid):
    """Passes SIGTERM and SIGHUP on to a child, and reaps, until the child has ended; its exit status, 128+n for a signal. An
    interrupt from a terminal reaches the program by itself."""
    def forward(number, _):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, forward)
    signal.signal(signal.SIGHUP, forward)
    while True:
        got, status = os.waitpid(-1, 0)
        if got == pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _fork():
    """A child that dies with this process; 0 in the child."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _check(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
        if os.getppid() not in (parent, 0):  # 0: the parent is outside of the child's pid namespace
            os._exit(1)
    return pid


def _failed(e):
    """Ends a process that could not make the host, as a test program that cannot run."""
    print(f"Bail out! no host of its own for the tests: {e}", flush=True)
    os._exit(1)


def _maker(scratch, program, hierarchies):
    """Joins the cgroups, enters the namespaces, and makes process 1, in whose child this returns."""
    try:
        for h in hierarchies:
            h.join()
        _check(_libc.unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWCGROUP | CLONE_NEWIPC), "unshare")
        for h in hierarchies:
            h.leave_root()
        init = _fork()
    except OSError as e:
        _failed(e)
    if init:
        os._exit(_stand_by(init))
    try:
        network = Network()
        _new_mounts(scratch, program, hierarchies)
        network.connect()
        _new_resolver()
        main = os.fork()
    except OSError as e:
        _failed(e)
    if main:
        os._exit(_stand_by(main))
    os.close(network.neighbour)  # init keeps it


def _is_inside():
    return os.environ.get(INSIDE) == os.readlink("/proc/self/ns/pid")


def enter(program=None):
    """Returns in a child process that has a host of its own. The caller's process stays outside and ends as the child ends. Returns
    at once inside of one, for an ordinary user, and for a comparison with an engine of the machine's. program: the path of what is
    going to be executed."""
    if os.geteuid() != 0 or _is_inside() or os.environ.get(ENGINE):
        return
    sys.stdout.flush()
    run = os.environ.setdefault(RUN, str(os.getpid()))
    name = f"{PREFIX}{run}-{os.getpid()}"
    scratch = os.path.join(_temporary(), name)
    os.mkdir(scratch, 0o700)
    for directory, mode in (("tmp", 0o1777), ("lib", 0o755)):
        os.mkdir(os.path.join(scratch, directory))
        os.chmod(os.path.join(scratch, directory), mode)
    hierarchies = _hierarchies()
    try:
        for h in hierarchies:
            h.make(name)
        maker = _fork()
    except OSError as e:
        _remove(scratch, hierarchies)
        _failed(e)
    if maker:
        code = _stand_by(maker)
        os._exit(_remove(scratch, hierarchies) or code)
    _maker(scratch, program, hierarchies)
    os.environ[SHARED] = os.path.join(SHARED_TOP, name)
    os.environ[INSIDE] = os.readlink("/proc/self/ns/pid")
    os.environ.pop("TMPDIR", None)


def _remove(scratch, hierarchies):
    """What the keeper has made; 1 when something of it stays."""
    end = time.monotonic() + CGROUP_PATIENCE
    left = [line for h in hierarchies if h.dir is not None for line in _remove_cgroups(h.dir, end)]
    left += _remove_tree(scratch)
    shared_dir = os.path.join(SHARED_TOP, os.path.basename(scratch))
    left += _remove_tree(shared_dir) if os.path.exists(shared_dir) else []
    for line in left:
        print(f"# left behind: {line}", flush=True)
    return 1 if left else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: isolate.py PROGRAM [ARGUMENT…]")
    enter(sys.argv[1])
    os.execvp(sys.argv[1], sys.argv[1:])
