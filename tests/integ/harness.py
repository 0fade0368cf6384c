"""What every integration test shares: TAP, own directories for each test, rind with a deadline, and the leak audit.

A test program is an executable file tests/integ/test-NAME:

    from harness import main, test

    @test
    def hostname_is_new(t):
        t.equal(t.facts("--hostname", "h")["hostname"], "h", "hostname")

    main()

Every test has its own state and runtime directory, and after every test the audit looks for what was left behind: processes,
mounts, cgroups, links, files of the state directory, id ranges, terminals. Nothing sleeps: everything waits for an event with
a deadline. `main` enters namespaces of the program's own (isolate.py), so that the audit is exact whatever else the machine does. Their
mounts are shared among themselves, as a systemd host's are, so that mounts that propagate would still show.
"""
import ctypes
import fcntl
import functools
import json
import os
import pty
import re
import resource
import select
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import termios
import time
import traceback

import audit
import isolate
import template

TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
RIND = os.path.abspath(os.environ.get("RIND_BIN", os.path.join(TOP, "build", "rind")))
CHECKED = any(f"/{kind}/" in os.path.realpath(RIND) for kind in ("asan", "tsan"))  # by an allocator that keeps what was freed: less of it, where tests bound memory
THREADS_CHECKED = "/tsan/" in os.path.realpath(RIND)
if CHECKED:
    os.environ.setdefault("ASAN_OPTIONS", "quarantine_size_mb=8:thread_local_quarantine_size_kb=256")
PAYLOAD = os.path.join(TOP, "build", "payload")
MUST_WORK = bool(os.environ.get("RIND_MUST_WORK"))
THROUGH_DAEMON = bool(os.environ.get("RIND_TEST_DAEMON"))  # `rind run` of all tests is a daemon's client
START_LIMIT = 30  # seconds for one `rind run` of something that ends by itself; far above what it takes
PASSWD = "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000::/home/app:/bin/sh\n"
GROUP = "root:x:0:\napp:x:1000:\nextra:x:1234:app\nten:x:10:app\n"

_libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS = 0x00020000
MS_REC, MS_PRIVATE, MS_SHARED, MS_BIND = 0x4000, 0x40000, 0x100000, 0x1000
PR_SET_CHILD_SUBREAPER = 36


class Skip(Exception):
    """The host lacks what the test needs."""


class Stop(Exception):
    """The test cannot go on; the failure is recorded already."""


def mount(source, target, fstype=None, flags=0, data=None):
    """mount(2) in the test program's own mount namespace."""
    text = [None if x is None else os.fsencode(x) for x in (source, target, fstype, data)]
    if _libc.mount(text[0], text[1], text[2], ctypes.c_ulong(flags), text[3]) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), target)


def umount(target):
    """Lazy umount(2)."""
    _libc.umount2(os.fsencode(target), 2)


class Result:
    """How a finished command ended."""

    def __init__(self, code, out, err, seconds):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds

    @property
    def text(self):
        return self.out.decode("utf-8", "surrogateescape")

    @property
    def errtext(self):
        return self.err.decode("utf-8", "surrogateescape")

    def json(self):
        """stdout as JSON; on anything else, an exception that shows all of it."""
        try:
            return json.loads(self.text)
        except ValueError:
            raise AssertionError(f"no JSON on stdout: {self}") from None

    def __str__(self):
        return f"status {self.code}, stdout {self.out[:600]!r}, stderr {self.err[:900]!r}"


class Process:
    """A running rind: on pipes, or on a terminal of the test's own (`pty=(rows, cols)`)."""

    def __init__(self, argv, env=None, pty_size=None, stdin=True):
        self.argv, self.master, self.buffer, self.errbuffer = argv, None, b"", b""
        self.start, self.killed, self.place = time.monotonic(), False, None
        if pty_size is None:
            self.proc = subprocess.Popen(argv, stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, start_new_session=True)
            audit.started.add(self.proc.pid)
            self.outfd, self.errfd = self.proc.stdout.fileno(), self.proc.stderr.fileno()
            return
        self.master, slave = pty.openpty()
        self.resize(*pty_size)
        self.slave_path = os.ttyname(slave)
        self.proc = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True,
                                     preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        audit.started.add(self.proc.pid)
        os.close(slave)
        self.outfd, self.errfd = self.master, None

    @property
    def pid(self):
        return self.proc.pid

    def resize(self, rows, cols):
        """The size of the terminal; the kernel sends SIGWINCH to its foreground group."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def _pump(self, seconds):
        fds = [fd for fd in (self.outfd, self.errfd) if fd is not None]
        if not fds:
            return False
        ready = select.select(fds, [], [], max(0, seconds))[0]
        for fd in ready:
            try:
                data = os.read(fd, 65536)
            except OSError:  # a terminal whose last user is gone answers EIO
                data = b""
            if fd == self.outfd:
                self.buffer += data
                if not data:
                    self.outfd = None
            else:
                self.errbuffer += data
                if not data:
                    self.errfd = None
        return bool(ready)

    def pump(self):
        """Reads what there is of both streams, for who looks at the buffers; None."""
        while self._pump(0):
            pass

    def until(self, pattern, seconds=10):
        """Reads stdout until the regular expression matches, and returns the match. An exception after the deadline."""
        end = time.monotonic() + patience(seconds)
        while True:
            match = re.search(pattern, self.buffer)
            if match:
                return match
            if self.outfd is None or time.monotonic() > end:
                raise AssertionError(f"waited for {pattern!r}; stdout {self.buffer[-800:]!r}, stderr {self.errbuffer[-800:]!r}")
            self._pump(end - time.monotonic())

    def write(self, data):
        if self.master is not None:
            os.write(self.master, data)
        else:
            self.proc.stdin.write(data)
            self.proc.stdin.flush()

    def close_stdin(self):
        self.proc.stdin.close()

    def signal(self, sig):
        self.proc.send_signal(sig)

    def finish(self, seconds=START_LIMIT):
        """Reads to the end and waits. The exit status is 128+n when rind itself died of a signal."""
        seconds = patience(seconds)
        end = time.monotonic() + seconds
        while self.outfd is not None or self.errfd is not None:
            if time.monotonic() > end:
                self.kill()
                raise AssertionError(f"still open after {seconds} s: {self.argv}; stdout {self.buffer[-400:]!r}, "
                                     f"stderr {self.errbuffer[-400:]!r}")
            # A terminal's master sees no EOF while somebody else holds the slave: the exit of rind ends the wait.
            if not self._pump(min(0.05, end - time.monotonic())) and self.master is not None and self.proc.poll() is not None:
                break
        return self.wait(end - time.monotonic())

    def wait(self, seconds=START_LIMIT):
        seconds = patience(seconds)
        try:
            code = self.proc.wait(max(0.01, seconds))
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still running after {seconds:.1f} s: {self.argv}; stdout {self.buffer[-400:]!r}, "
                                 f"stderr {self.errbuffer[-400:]!r}") from None
        return Result(code if code >= 0 else 128 - code, self.buffer, self.errbuffer, time.monotonic() - self.start)

    def kill(self):
        """kill -9 of rind when it still runs. What that leaves behind the next start of the same directories sweeps."""
        if self.proc.poll() is None:
            self.killed = True
            self.proc.kill()
            self.proc.wait()

    def close(self):
        """Ends it whatever it does, and closes our ends."""
        self.kill()
        for f in (self.proc.stdin, self.proc.stdout, self.proc.stderr):
            if f is not None:
                try:
                    f.close()
                except OSError:
                    pass
        if self.master is not None:
            os.close(self.master)
            self.master = None


class Test:
    """One test: its directories, its checks, its processes."""

    def __init__(self, name):
        self.name, self.problems, self.processes, self.cleanups, self.roots = name, [], [], [], {}
        self.dir, self.daemon = tempfile.mkdtemp(prefix="rind-test-0", suffix="0"), None
        self.state, self.runtime = os.path.join(self.dir, "state"), os.path.join(self.dir, "run")

    # ---- checks: they record and go on, so that one run shows every failure --------------------------------------
    def fail(self, text):
        self.problems.append(text)

    def check(self, condition, text):
        if not condition:
            self.fail(text)
        return bool(condition)

    def equal(self, got, want, what):
        return self.check(got == want, f"{what}: {got!r}, want {want!r}")

    def within(self, got, allowed, what):
        return self.check(got in allowed, f"{what}: {got!r}, want one of {sorted(map(str, allowed))}")

    def matches(self, text, pattern, what):
        return self.check(re.search(pattern, text), f"{what}: {text[:400]!r} does not match {pattern!r}")

    def need(self, condition, text):
        """As check, but the test ends when it is not so."""
        if not condition:
            self.fail(text)
            raise Stop

    def skip(self, reason):
        raise Skip(reason)

    # ---- files ---------------------------------------------------------------------------------------------------
    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def write(self, path, text, mode=0o644):
        """A file below the test's directory, its parents made."""
        full = self.path(path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(full, mode)
        return full

    def policy(self, name="p", **changes):
        """A policy file that allows every system call and has no capability, with the changes."""
        policy = {"name": name, "noNewPrivileges": True, "network": "none", "capabilities": [], "limits": {},
                  "maskedPaths": [], "readonlyPaths": [],
                  "seccomp": {"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"], "syscalls": []}}
        return self.write(f"{name}.json", json.dumps(policy | changes))

    def root(self, name="root", passwd=PASSWD, group=GROUP, scratch=False):
        """A root file system with the payload as its only program. `scratch`: nothing else at all, no mount points."""
        top = self.path(name)
        for d in ["bin"] if scratch else ["bin", "etc", "proc", "sys", "dev", "tmp", "root", "run", "var", "home/app"]:
            os.makedirs(os.path.join(top, d))
        shutil.copy(PAYLOAD, os.path.join(top, "bin", "payload"))
        os.chmod(top, 0o755)
        if not scratch:
            os.chmod(os.path.join(top, "tmp"), 0o1777)
            os.symlink("/run", os.path.join(top, "var", "run"))
            for file, text in (("passwd", passwd), ("group", group)):
                with open(os.path.join(top, "etc", file), "w", encoding="utf-8") as f:
                    f.write(text)
        return top

    def remember(self, top):
        """The audit checks that this tree is untouched at the end: lower layers are never written or chowned."""
        self.roots.setdefault(top, tree(top))
        return top

    # ---- rind ----------------------------------------------------------------------------------------------------
    def argv(self, cmd, opts=(), root=None):
        """The command line of `rind run` of a payload command (or of a program, when cmd[0] holds a slash)."""
        if root is None:
            root = self.path("root") if os.path.isdir(self.path("root")) else self.root()
        if not os.path.exists(self.state):
            template.use(TOP, RIND, self.state)
        rootfs = [] if root == "default" else ["--rootfs", self.remember(root)]
        program = list(cmd) if cmd and "/" in cmd[0] else ["/bin/payload", *cmd]
        return [RIND, "--state", self.state, "--runtime", self.runtime, "run", *self.place_options(opts), *rootfs, *opts, "--", *program]

    def place_options(self, opts):
        """Where `rind run` runs it: by itself, or (RIND_TEST_DAEMON) by a daemon of the test's own. A policy file is for the former."""
        if not THROUGH_DAEMON or any("/" in o for o in opts if isinstance(o, str) and o.endswith(".json")):
            return []
        if self.daemon is None:
            from serve import Daemon  # pylint: disable=import-outside-toplevel,cyclic-import
            self.daemon = Daemon(self)
        return ["--socket", self.daemon.socket]

    def start(self, *cmd, opts=(), root=None, env=None, pty_size=None, stdin=True):
        """Starts `rind run` and returns the Process; it is ended with the test."""
        p = Process(self.argv(cmd, opts, root), env, pty_size, stdin)
        p.place = (self.state, self.runtime)
        self.processes.append(p)
        return p

    def run(self, *cmd, opts=(), root=None, env=None, stdin=None, limit=START_LIMIT):
        """Runs `rind run` to its end and returns the Result."""
        return self.rind(self.argv(cmd, opts, root), env=env, stdin=stdin, limit=limit)

    def rind(self, argv, env=None, stdin=None, limit=START_LIMIT):
        """Any command line, with a deadline."""
        limit = patience(limit)
        start = time.monotonic()
        p = subprocess.Popen(argv, stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env=env, start_new_session=True)
        audit.started.add(p.pid)
        try:
            out, err = p.communicate(stdin, timeout=limit)
        except subprocess.TimeoutExpired:
            p.kill()
            out, err = p.communicate()
            raise AssertionError(f"still running after {limit} s: {argv}; stdout {out[-400:]!r}, stderr {err[-400:]!r}") from None
        code = p.returncode
        return Result(code if code >= 0 else 128 - code, out, err, time.monotonic() - start)

    def good(self, *cmd, **kw):
        """As run; the test ends here when the status is not 0."""
        r = self.run(*cmd, **kw)
        self.need(r.code == 0, f"{' '.join(cmd)[:80]}: {r}")
        return r

    def json(self, *cmd, **kw):
        return self.good(*cmd, **kw).json()

    def facts(self, *opts, **kw):
        return self.json("facts", opts=opts, **kw)

    def refused(self, r, code, pattern, what):
        """A refusal is one line on stderr in plain words, nothing on stdout, and the right status."""
        self.equal(r.code, code, f"{what}: status ({r})")
        self.matches(r.errtext, pattern, f"{what}: message")
        self.equal(r.errtext.count("\n"), 1, f"{what}: lines on stderr {r.err!r}")
        self.equal(r.out, b"", f"{what}: stdout")

    def sweep(self):
        """Waits until what rind left running after a kill -9 has ended by itself; the next start then clears the rest. A daemon
        removes what its client has left."""
        if self.daemon is not None:
            self.check(poll_until(self.is_idle, 10), f"sandboxes whose rind run was killed: {self.daemon.get('/v1/sandboxes').json}")
            return
        self.check(poll_until(audit.gone, 5), f"alive after kill -9: {audit.descendants()}")
        r = self.run("true")
        self.check(r.code == 0, f"the start that sweeps: {r}")

    def is_idle(self):
        return not self.daemon.get("/v1/sandboxes").json["sandboxes"]

    def end_daemon(self):
        """Every sandbox of `rind run` goes with its client, however that ended."""
        d = self.daemon
        if self.check(d.proc.poll() is None, f"the daemon has ended; log: {d.text()[-800:]}"):
            self.check(poll_until(self.is_idle, 10), f"sandboxes whose rind run has ended: {d.get('/v1/sandboxes').json}")
        d.__exit__()
        for p in self.processes:
            p.killed = False  # nothing to sweep

    # ---- the end -------------------------------------------------------------------------------------------------
    def finish(self, before):
        for p in self.processes:
            p.close()
        if self.daemon is not None:
            self.end_daemon()
        for fn in reversed(self.cleanups):
            fn()
        for self.state, self.runtime in sorted({p.place for p in self.processes if p.killed}):
            self.sweep()
        for line in audit.compare(before, self.state, self.runtime):
            self.fail("left behind: " + line)
        for top, then in self.roots.items():
            now = tree(top)
            for name in sorted(set(then) | set(now)):
                if then.get(name) != now.get(name):
                    self.fail(f"the root file system was changed: {name}: {then.get(name)} -> {now.get(name)}")
        audit.kill_strays()
        for line in audit.clear(self.dir):
            self.fail(line)


@functools.cache
def no_i386():
    """What int 0x80 does to a process of the host, outside of any sandbox, where it is no system call: the name of a signal. None:
    it works, or the processor has another table."""
    got = json.loads(subprocess.run([PAYLOAD, "int80"], capture_output=True, timeout=START_LIMIT, check=True).stdout)
    return None if got.get("getpid", "ok") == "ok" else got["getpid"]


def without_i386(t, got):
    """What came of calls, but for those by int 0x80 on a host without it: they must end as there. What the filters would answer is
    judged on every host by unit tests (test-floor, test-seccomp)."""
    if no_i386() is None:
        return got
    for name in [name for name in got if "i386" in name]:
        t.equal(got[name], no_i386(), f"{name}, where the host has no int 0x80")
    return {name: result for name, result in got.items() if "i386" not in name}


def alone(fn):
    """A test of `rind run` without a daemon only: it says nothing, or something else, about one that a daemon runs."""
    @functools.wraps(fn)
    def either(t):
        if THROUGH_DAEMON:
            t.skip("without a daemon only")
        fn(t)
    return either


def tree(top):
    """Path -> (type and mode, owner, size or link text, mtime) of everything below a directory."""
    found = {}
    for where, dirs, files in os.walk(top):
        for name in [os.curdir, *dirs, *files]:
            path = os.path.normpath(os.path.join(where, name))
            st = os.lstat(path)
            what = os.readlink(path) if stat.S_ISLNK(st.st_mode) else st.st_size
            found[os.path.relpath(path, top)] = (oct(st.st_mode), st.st_uid, st.st_gid, what, st.st_mtime_ns)
    return found


_tests = []


def test(fn):
    """Registers a test; they run in the order of the file."""
    _tests.append(fn)
    return fn


LOAD_MOST = 10  # times what a quiet machine is allowed
PATIENCE = 120  # seconds, at most, that a wait of a few seconds becomes on a busy machine


def patience(seconds):
    """How long to wait for what takes at most these seconds on a quiet machine. Nothing waits longer than it has to, so a deadline that
    is too long costs time only where a test fails."""
    return max(seconds, min(seconds * LOAD_MOST, PATIENCE))


def poll_until(condition, seconds, step=0.01):
    """Polls until the condition holds or the time is over; what it last was. The caller has to look at that: wait_for is for the rest."""
    end = time.monotonic() + patience(seconds)
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(step)


def wait_for(condition, seconds, step=0.01, what="the condition"):
    """The same, but the test fails and ends where the condition does not come to hold."""
    value = poll_until(condition, seconds, step)
    if not value:
        raise AssertionError(f"{what} was not met within {patience(seconds):g} s, but was {value!r}")
    return value


def stays(condition, seconds, step=0.02):
    """Whether the condition holds at each look for all of these seconds: for what must not happen, of which no event tells."""
    end = time.monotonic() + seconds
    while condition():
        if time.monotonic() > end:
            return True
        time.sleep(step)
    return False


def pause(seconds, why):  # pylint: disable=unused-argument
    """Does nothing for these seconds. why: for the reader, what no event tells of and therefore gets time. What comes after must hold
    on a machine that was too slow for it, too."""
    time.sleep(seconds)


def by_load(seconds):
    """What a quiet machine may take for something, made longer by as much as this one is busy now: with three processes that want
    each processor, what takes CPU takes three times as long, and each turn of a conversation waits for its own. The kernel's averages
    are of a minute, so the programs that run-tests runs at once count from their start."""
    with open("/proc/loadavg", encoding="ascii") as f:
        fields = f.read().split()
    wanting = max(float(fields[0]), float(fields[3].split("/")[0]), float(os.environ.get("RIND_TEST_BESIDE", 1)))
    return seconds * min(max(1.0, 2 * wanting / os.cpu_count()), LOAD_MOST)


def pattern(size):
    """What `payload out SIZE` writes, as an iterator over 64 KiB blocks."""
    tail, x = bytearray(65536 - 8), 0
    for i in range(len(tail)):
        tail[i] = x
        x = (x * 5 + 1) & 255
    tail, i = bytes(tail), 0
    while size > 0:
        yield (i.to_bytes(8, "little") + tail)[:size]
        size, i = size - 65536, i + 1


def _private_mounts():
    audit.leave_mounts()
    if _libc.unshare(CLONE_NEWNS) < 0:
        raise OSError(ctypes.get_errno(), "unshare")
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    mount(None, "/", None, MS_REC | MS_SHARED)


def _run(fn, before):
    """Runs one test; (problems, reason of a skip)."""
    t, skipped = Test(fn.__name__), None
    try:
        fn(t)
    except Stop:
        pass
    except Skip as e:
        skipped = str(e)
    except KeyboardInterrupt:  # the program is to end: what it started goes first, even where the interrupt comes twice
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        t.finish(before)
        raise
    except Exception as e:  # pylint: disable=broad-except
        t.fail("".join(traceback.format_exception(e)).rstrip())
    try:
        t.finish(before)
    except Exception as e:  # pylint: disable=broad-except
        t.fail("in the audit: " + "".join(traceback.format_exception(e)).rstrip())
    if skipped is not None and MUST_WORK:
        t.fail("skipped although RIND_MUST_WORK is set: " + skipped)
    return t.problems, skipped


def _cpu_seconds():
    """Processor time of this program and of what has ended below it."""
    own, ended = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime


def main():
    """Runs every test of the program, or those whose names are given as arguments."""
    chosen = [fn for fn in _tests if not sys.argv[1:] or fn.__name__ in sys.argv[1:]]
    for unknown in set(sys.argv[1:]) - {fn.__name__ for fn in _tests}:
        print(f"Bail out! there is no test {unknown}")
        sys.exit(1)
    sys.stdout.reconfigure(errors="backslashreplace")
    for needed in (RIND, PAYLOAD):
        if not os.access(needed, os.X_OK):
            print(f"Bail out! {needed} is not built")
            sys.exit(1)
    isolate.enter()
    tempfile.tempdir = None  # of the machine's
    if os.geteuid() == 0:
        _private_mounts()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # whatever a killed rind leaves running becomes our child
    bad = 0
    for n, fn in enumerate(chosen, 1):
        start, cpu = time.monotonic(), _cpu_seconds()
        if os.geteuid() == 0:
            problems, skipped = _run(fn, audit.snapshot())
        else:
            problems, skipped = (["needs root"] if MUST_WORK else []), "needs root"
        for p in problems:
            print("\n".join("# " + line for line in p.splitlines()))
        tail = f" # SKIP {skipped}" if skipped and not problems else ""
        print(f"{'not ok' if problems else 'ok'} {n} - {fn.__name__}{tail}")
        if os.environ.get("RIND_TEST_TIMES"):
            print(f"# {time.monotonic() - start:.2f} s, {_cpu_seconds() - cpu:.2f} s of CPU")
        sys.stdout.flush()
        bad += bool(problems)
    print(f"1..{len(chosen)}")
    sys.exit(1 if bad else 0)
