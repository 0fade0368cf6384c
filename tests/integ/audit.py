"""The leak audit: what the host had before a test it must have after it, and nothing more.

The host is the test program's own (isolate.py): no other program makes or removes anything that is looked at here.
"""
import fcntl
import os
import shutil
import signal
import stat
import time

PATIENCE = 20.0  # seconds; the kernel frees namespaces, terminals and cgroups a little after the last process is gone
REGISTRY = "/var/lib/rind/ids"
HIERARCHIES = ("cgroup", "cgroup2")

started = set()  # pids that somebody in the test program waits for


def read(path):
    """A small file as text; empty when it cannot be read."""
    try:
        with open(path, "rb") as f:
            return f.read().decode("utf-8", "replace")
    except OSError:
        return ""


def descendants(top=None):
    """pid -> command line of everything that descends from this process (zombies included). Who watches over a run, which has that
    run's, is called by its name."""
    parents, found = {}, {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        text = read(f"/proc/{pid}/stat")
        if text:
            parents[int(pid)] = int(text[text.rindex(")") + 2:].split()[1])
    wanted = {top or os.getpid()}
    grew = True
    while grew:
        new = {pid for pid, parent in parents.items() if parent in wanted} - wanted
        wanted |= new
        grew = bool(new)
    for pid in wanted - {top or os.getpid()}:
        name = read(f"/proc/{pid}/comm").strip()
        found[pid] = name if name == "rind-watch" else read(f"/proc/{pid}/cmdline").replace("\0", " ").strip() or name
    return found


def reap():
    """Collects dead children that became ours; those that a test started itself are left to who waits for them."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        text = read(f"/proc/{pid}/stat")
        fields = text[text.rindex(")") + 2:].split() if text else []
        if fields[:2] == ["Z", str(os.getpid())] and int(pid) not in started:
            try:
                os.waitpid(int(pid), os.WNOHANG)
            except ChildProcessError:
                pass


def gone(word=""):
    """Whether nothing descends from us whose command line has the word (what a test started itself and is dead aside)."""
    reap()
    return not [pid for pid, text in descendants().items() if word in text and not (pid in started and is_dead(pid))]


def is_dead(pid):
    text = read(f"/proc/{pid}/stat")
    return not text or text[text.rindex(")") + 2] == "Z"


outside = None  # /proc/self/mountinfo of the mount namespace that the test program came from, if it has left it


def leave_mounts():
    """Remembers this mount namespace, for a process that is about to have one of its own."""
    global outside  # pylint: disable=global-statement
    outside = open("/proc/self/mountinfo", encoding="utf-8", errors="replace")  # pylint: disable=consider-using-with


def _place(line):
    """What a mount is the same by in two namespaces: its device, what of it, and where."""
    return tuple(line.split()[2:5])


def _gone_outside(line):
    """Whether a mount that is gone here is gone where this program came from, too. What is mounted and unmounted here does not show
    there, but who removes a mount point, as Docker does with a container's, takes it away everywhere."""
    if outside is None:
        return False
    outside.seek(0)
    return _place(line) not in {_place(other) for other in outside.read().splitlines()}


def mounts():
    return {line for line in read("/proc/self/mountinfo").splitlines()}


def cgroups():
    """Every directory below rind/ in every hierarchy that is mounted, but what all sandboxes share."""
    found = set()
    for line in mounts():
        before, _, after = line.partition(" - ")
        if after.split()[:1] and after.split()[0] in HIERARCHIES:
            top = os.path.join(before.split()[4], "rind")
            for where, dirs, _ in os.walk(top):
                found |= {os.path.join(where, d) for d in dirs if d != "_all"}
    return found


def cgroups_of(pid):
    """The directories of the cgroups of a process, from its leaf up to rind's own, in every hierarchy."""
    found = []
    for line in read(f"/proc/{pid}/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        for mounted in mounts():
            before, _, after = mounted.partition(" - ")
            kind, _, options = after.partition(" ")
            wanted, has = set(controllers.split(",")), set(options.split()[-1].split(","))
            same = kind == ("cgroup2" if not controllers else "cgroup") and (not controllers or wanted <= has)
            while same and path.strip("/").startswith("rind/"):
                found.append(before.split()[4] + path)
                path = os.path.dirname(path)
    return found


def links():
    """Names of links that rind has made, which all begin so: those of others, such as Docker's, come and go while we test."""
    names = {line.split(":")[0].strip() for line in read("/proc/net/dev").splitlines()[2:]}
    return {name for name in names if name.startswith("rind-")}


def ids():
    """Files of the id registry."""
    try:
        return set(os.listdir(REGISTRY))
    except OSError:
        return set()


def _locked(name):
    """Whether somebody holds the lock of a range: then it is in use, and not left behind (a process of ours that holds it is
    reported as a process)."""
    try:
        ino = os.stat(os.path.join(REGISTRY, name)).st_ino
    except OSError:
        return True
    return any(line.split()[5 if "->" not in line else 6].endswith(f":{ino}") for line in read("/proc/locks").splitlines())


def terminals():
    """Terminals whose master a process has open."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                if os.readlink(f"/proc/{pid}/fd/{fd}").endswith("ptmx"):
                    index = read(f"/proc/{pid}/fdinfo/{fd}").partition("tty-index:")[2].strip()
                    found.add((os.stat(f"/proc/{pid}/fd/{fd}").st_dev, index))
        except OSError:
            continue  # the process or the descriptor has gone
    return len(found)


def snapshot():
    return {"mounts": mounts(), "cgroups": cgroups(), "links": links(), "ids": ids(), "terminals": terminals()}


def contents(directory):
    """What must be empty: sandboxes/ of a state or runtime directory."""
    try:
        return [os.path.join(directory, "sandboxes", n) for n in os.listdir(os.path.join(directory, "sandboxes"))]
    except OSError:
        return []


def _left(before, state, runtime):
    started.clear()  # every test waits for what it started before it ends
    reap()
    left = [f"process {pid} ({text})" for pid, text in descendants().items()]
    left += [f"mount {line}" for line in mounts() - before["mounts"]]
    left += [f"mount gone: {line}" for line in before["mounts"] - mounts() if not _gone_outside(line)]
    left += [f"cgroup {d}" for d in cgroups() - before["cgroups"]]
    left += [f"link {name}" for name in links() - before["links"]]
    left += [f"id range {name} of {read(os.path.join(REGISTRY, name)).split() or 'nobody'}" for name in ids() - before["ids"] if not _locked(name)]
    left += [f"file {path}" for directory in (state, runtime) for path in contents(directory)]
    if terminals() > before["terminals"]:
        left.append(f"terminals: {terminals()}, before {before['terminals']}")
    return left


def compare(before, state, runtime):
    """Lines that say what is left behind, after waiting for what the kernel frees late."""
    end = time.monotonic() + PATIENCE
    seen = _left(before, state, runtime)
    while seen and time.monotonic() < end:
        time.sleep(0.02)
        seen = _left(before, state, runtime)
    return sorted(seen)


def kill_strays():
    """Ends what is still running below us, by pid."""
    for _ in range(50):
        ours = descendants()
        for pid in ours:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        reap()
        if not descendants():
            return
        time.sleep(0.02)


def clear(directory):
    """Takes the test's directory away, mounts in it first; lines that say what was in the way."""
    here = [line.split()[4] for line in mounts() if (line.split()[4] + "/").startswith(directory + "/")]
    for point in sorted(here, reverse=True):
        os.system(f"umount -l '{point}'")
    problems = []

    def make_removable(function, path, info):
        try:
            os.chmod(os.path.dirname(path), stat.S_IRWXU)
            function(path)
        except OSError:
            problems.append(f"cannot remove {path}: {info[1]}")

    shutil.rmtree(directory, onerror=make_removable)
    return problems


def holds_lock(path):
    """Whether somebody else holds the flock of a file."""
    with open(path, "rb") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
