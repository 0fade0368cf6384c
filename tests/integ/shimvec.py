"""Runs shim vectors (tests/vectors/shim/README.md describes the format) against a sandbox-shim.

How the shim is started is a transport: on the host, under an emulator, or behind a command such as
`rind run … --`. The set-up and the checks are always done by this process, in a directory that the
transport makes visible to the shim under the same path.
"""
import ctypes
import errno
import hashlib
import json
import os
import re
import select
import shlex
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tempfile
import threading
import time

MAGIC = b"SBXF\x01"
HEADER = 10
KINDS = {0: "success", 1: "error", 2: "data"}
DEFAULT_TIMEOUT_MS = 20000
KEEP_MAX = 64 << 20  # bytes of a stream that are kept; the rest is only counted
CHUNK = 1 << 20
_LIBC = ctypes.CDLL(None, use_errno=True)


class Failed(Exception):
    """A vector whose result is not what it says."""


class Skipped(Exception):
    """A vector that cannot run here, and why."""


def pattern(size):
    """Byte i is (31 i + 7 floor(i/256) + 13 floor(i/65536)) mod 256."""
    rows = [bytes((31 * j + k) & 255 for j in range(256)) for k in range(256)]
    blocks = (size + 255) // 256
    return b"".join(rows[(7 * b + 13 * (b >> 8)) & 255] for b in range(blocks))[:size]


# ---- frames --------------------------------------------------------------------------------------


def parse_frame(data, at):
    """(kind, payload, position behind it), or None when the frame is not complete."""
    if len(data) - at < HEADER:
        return None
    if bytes(data[at:at + 5]) != MAGIC or data[at + 5] not in KINDS:
        raise Failed(f"no frame at byte {at}: {bytes(data[at:at + HEADER])!r}")
    (size,) = struct.unpack_from("<I", data, at + 6)
    if len(data) - at < HEADER + size:
        return None
    return KINDS[data[at + 5]], bytes(data[at + HEADER:at + HEADER + size]), at + HEADER + size


def parse_frames(data):
    frames, at = [], 0
    while at < len(data):
        parsed = parse_frame(data, at)
        if parsed is None:
            raise Failed(f"incomplete frame at byte {at}: {bytes(data[at:at + 64])!r}")
        frames.append(parsed[:2])
        at = parsed[2]
    return frames


def parse_listing(payload):
    (count,) = struct.unpack_from("<I", payload, 0)
    at, entries = 4, []
    for _ in range(count):
        kind, size = struct.unpack_from("<BH", payload, at)
        entries.append([kind, payload[at + 3:at + 3 + size].decode("utf-8")])
        at += 3 + size
    if at != len(payload):
        raise Failed(f"{len(payload) - at} bytes behind the last entry")
    return entries


def errno_number(value):
    return value if isinstance(value, int) else getattr(errno, value)


def expect(cond, text):
    if not cond:
        raise Failed(text)


def match_error(payload, want):
    expect(len(payload) >= 4, "error frame without an errno")
    (code,) = struct.unpack_from("<i", payload, 0)
    text = payload[4:].decode("utf-8")
    wanted = want["errno"] if isinstance(want["errno"], list) else [want["errno"]]
    expect(code in [errno_number(w) for w in wanted],
           f"errno {errno.errorcode.get(code, code)} ({text}), want {wanted}")
    if "detail_re" in want:
        expect(re.search(want["detail_re"], text), f"detail {text!r}, want /{want['detail_re']}/")
    if "detail" in want:
        expect(text == want["detail"], f"detail {text!r}, want {want['detail']!r}")


def match_stat(payload, want):
    expect(len(payload) == 45, f"stat payload of {len(payload)} bytes")
    names = ["type", "size", "mode", "uid", "gid", "atime_ms", "mtime_ms", "ctime_ms"]
    got = dict(zip(names, struct.unpack("<BQIIIqqq", payload)))
    for key, value in want.items():
        if key == "kind":
            continue
        if key == "mode":
            value = int(value, 8)
        expect(got[key] == value, f"stat {key} is {got[key]}, want {value}")


def match_dir(payload, want):
    got = parse_listing(payload)
    if "entries" in want:
        expect(sorted(got) == sorted(want["entries"]), f"entries {sorted(got)[:20]}, want {want['entries']}")
    if "count" in want:
        expect(len(got) == want["count"], f"{len(got)} entries, want {want['count']}")
    for entry in want.get("contains", []):
        expect(entry in got, f"entry {entry} is missing")


def match_json(got, want, where="$"):
    if want == "*any*":
        return
    if isinstance(want, str) and want.startswith("re:"):
        expect(isinstance(got, str) and re.search(want[3:], got), f"{where}: {got!r}, want {want}")
    elif isinstance(want, dict):
        expect(isinstance(got, dict), f"{where}: {got!r} is no object")
        for key, value in want.items():
            if key != "*extra*":
                expect(key in got, f"{where}.{key} is missing")
                match_json(got[key], value, f"{where}.{key}")
        if not want.get("*extra*"):
            expect(set(got) <= set(want), f"{where}: unexpected keys {set(got) - set(want)}")
    elif isinstance(want, list):
        expect(isinstance(got, list) and len(got) == len(want), f"{where}: {got!r}, want {want!r}")
        for i, (g, w) in enumerate(zip(got, want)):
            match_json(g, w, f"{where}[{i}]")
    else:
        expect(got == want and isinstance(got, bool) == isinstance(want, bool), f"{where}: {got!r}, want {want!r}")


def match_frame(frame, want, vars_):
    kind, payload = frame
    wire = {"stat": "data", "dir": "data", "json": "data"}.get(want["kind"], want["kind"])
    expect(kind == wire, f"{kind} frame {payload[:80]!r}, want {want}")
    if want["kind"] == "success":
        expect(payload == b"", f"success frame with {len(payload)} bytes")
    elif want["kind"] == "error":
        match_error(payload, want)
    elif want["kind"] == "stat":
        match_stat(payload, want)
    elif want["kind"] == "dir":
        match_dir(payload, want)
    elif want["kind"] == "json":
        match_json(json.loads(payload), vars_.deep(want["value"]))
    else:
        expect(payload == bytes.fromhex(want["hex"]), f"data {payload[:64].hex()}, want {want['hex'][:128]}")


# ---- transports ----------------------------------------------------------------------------------


class HostTransport:
    """Starts the shim as a child; `launch` may name an emulator."""
    native = True

    def __init__(self, shim, launch=()):
        self.launch = [os.fsencode(a) for a in launch]
        self.shim = shim
        self.native = not launch

    def refuses(self, vector):
        return None

    def command(self, args, vector, directory, cwd):
        argv = self.launch + [os.fsencode(self.shim)] + args
        if "prefix" in vector or "redirect" in vector:
            script = f"{vector.get('prefix', ':')}; exec \"$@\" {vector.get('redirect', '')}"
            script = script.replace("$D", directory)
            argv = [b"/bin/sh", b"-c", script.encode(), b"sh"] + argv
        extra = {"cwd": cwd or "/", "umask": int(vector.get("umask", "022"), 8)}
        if "user" in vector:
            uid, gid = vector["user"]
            extra.update(user=uid, group=gid, extra_groups=[])
        return argv, extra


class PrefixTransport:
    """Starts the shim behind a command. {D}, {cwd} and {user} in it are replaced: {D} must become visible
    inside under the same path; a vector that needs what the command cannot say is skipped."""
    native = False

    def __init__(self, shim, prefix):
        self.shim = shim
        self.prefix = shlex.split(prefix)

    def refuses(self, vector):
        for key, field in (("user", "{user}"), ("cwd", "{cwd}")):
            if key in vector and not any(field in word for word in self.prefix):
                return f"the command has no {field}"
        if any("kill" in step or "rss_below_kb" in step for step in vector.get("steps", [])):
            return "the shim's pid is not known here"
        return "env cannot be passed" if "env" in vector else None

    def command(self, args, vector, directory, cwd):
        user = "{}:{}".format(*vector.get("user", [0, 0]))
        fields = {"{D}": directory, "{cwd}": cwd or "/", "{user}": user}
        prefix = []
        for word in self.prefix:
            for field, value in fields.items():
                word = word.replace(field, value)
            prefix.append(os.fsencode(word))
        argv = [os.fsencode(self.shim)] + args
        if {"prefix", "redirect", "umask"} & set(vector):
            script = (f"umask {vector.get('umask', '022')}; {vector.get('prefix', ':')}; "
                      f"exec \"$@\" {vector.get('redirect', '')}").replace("$D", directory)
            argv = [b"/bin/sh", b"-c", script.encode(), b"sh"] + argv
        return prefix + argv, {}


def private_tmpfs(path):
    """A tmpfs at path that only this process and its children see, and that goes with them. False when not allowed:
    then the disk serves as well, only slower."""
    clone_newns, ms_private, ms_rec = 0x20000, 1 << 18, 1 << 14
    return (_LIBC.unshare(clone_newns) == 0 and _LIBC.mount(None, b"/", None, ms_private | ms_rec, None) == 0 and
            _LIBC.mount(b"tmpfs", os.fsencode(path), b"tmpfs", 0, b"mode=755") == 0)


def detach(path):
    """Takes a mount away, if there is one."""
    _LIBC.umount2(os.fsencode(path), 2)


# ---- one run -------------------------------------------------------------------------------------


class Collector:
    """Reads a pipe in a thread of its own. The thread polls: one that is inside read(2) would keep a pipe open that
    a step has closed."""

    def __init__(self, fd):
        self.fd = fd
        self.stopping = False
        self.data = bytearray()
        self.total = 0
        self.closed = False
        self.at = 0  # behind the frames that steps have taken
        self.cond = threading.Condition()
        self.thread = None

    def start(self):
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        while not self.stopping:
            if not poll.poll(20):
                continue
            chunk = os.read(self.fd, CHUNK)
            with self.cond:
                self.total += len(chunk)
                if len(self.data) < KEEP_MAX:
                    self.data += chunk
                self.closed = not chunk
                self.cond.notify_all()
                if self.closed:
                    return

    def stop(self):
        self.stopping = True
        if self.thread:
            self.thread.join()

    def next_frame(self, deadline):
        with self.cond:
            while True:
                parsed = parse_frame(self.data, self.at)
                if parsed:
                    self.at = parsed[2]
                    return parsed[:2]
                left = deadline - time.monotonic()
                expect(not self.closed, f"end of stream, a frame was expected; {bytes(self.data[self.at:])!r}")
                expect(left > 0, "no frame in time")
                self.cond.wait(left)


class Vars:
    """$D and $SHA(x) in strings."""

    def __init__(self, directory):
        self.directory = directory

    def text(self, value):
        value = value.replace("$D", self.directory)
        return re.sub(r"\$SHA\(([^)]*)\)", lambda m: hashlib.sha256(m.group(1).encode()).hexdigest(), value)

    def arg(self, item):
        if isinstance(item, str):
            return self.text(item).encode()
        if "hex" in item:
            return bytes.fromhex(item["hex"])
        if "text" in item:
            return self.text(item["text"]).encode()
        return b"".join(self.arg(part) for part in item["parts"])

    def deep(self, value):
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.deep(v) for v in value]
        if isinstance(value, dict):
            return {self.text(k): self.deep(v) for k, v in value.items()}
        return value


class Run:
    """One vector in one fresh directory."""

    def __init__(self, vector, transport, base):
        self.v = vector
        self.transport = transport
        self.dir = tempfile.mkdtemp(dir=base)
        os.chmod(self.dir, 0o755)
        self.vars = Vars(self.dir)
        self.mounts = []
        self.sinks = {}
        self.threads = []
        self.inodes = {}
        self.proc = None
        self.streams = {}
        self.deadline = time.monotonic() + vector.get("timeout_ms", DEFAULT_TIMEOUT_MS) / 1000

    # -- set-up

    def path(self, op):
        return self.vars.text(op["path"])

    def content(self, op):
        if "hex" in op:
            return bytes.fromhex(op["hex"])
        if "pattern_size" in op:
            return pattern(op["pattern_size"])
        return self.vars.text(op.get("text", "")).encode()

    def setup(self, ops):
        for op in ops:
            try:
                getattr(self, "op_" + op["op"])(op)
            except OSError as why:
                # Inside a sandbox there are no devices to be made, and only so many owners.
                if op["op"] in ("mknod", "chown") and why.errno in (errno.EPERM, errno.EINVAL):
                    raise Skipped(f"{op['op']}: {why.strerror}") from None
                raise

    def op_write(self, op):
        os.makedirs(os.path.dirname(self.path(op)), exist_ok=True)
        with open(self.path(op), "wb") as f:
            f.write(self.content(op))

    def op_json(self, op):
        self.op_write({"path": op["path"], "text": json.dumps(op["value"])})

    def op_script(self, op):
        self.op_write(op)
        os.chmod(self.path(op), 0o755)

    def op_mkdir(self, op):
        os.makedirs(self.path(op), exist_ok=True)

    def op_symlink(self, op):
        os.symlink(self.vars.text(op["target"]), self.path(op))

    def op_link(self, op):
        os.link(self.vars.text(op["target"]), self.path(op))

    def op_fifo(self, op):
        os.mkfifo(self.path(op))

    def op_mknod(self, op):
        kind = stat.S_IFCHR if op["type"] == "c" else stat.S_IFBLK
        os.mknod(self.path(op), 0o600 | kind, os.makedev(op["major"], op["minor"]))

    def op_socket(self, op):
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(self.path(op))

    def op_chmod(self, op):
        os.chmod(self.path(op), int(op["mode"], 8))

    def op_chown(self, op):
        os.lchown(self.path(op), op["uid"], op["gid"])

    def op_truncate(self, op):
        os.truncate(self.path(op), op["size"])

    def op_utimes(self, op):
        os.utime(self.path(op), ns=(int(op["atime_ns"]), int(op["mtime_ns"])))

    def op_many(self, op):
        fd = os.open(self.path(op), os.O_RDONLY | os.O_DIRECTORY)
        for i in range(op["count"]):
            os.close(os.open(f"{op['prefix']}{i}", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=fd))
        os.close(fd)

    def op_deep(self, op):
        """depth directories `name` one in the other; each also holds a file when `files` is set."""
        name = op.get("name", "d")
        fd = os.open(self.path(op), os.O_RDONLY | os.O_DIRECTORY)
        for _ in range(op["depth"]):
            if op.get("files"):
                os.close(os.open("f", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=fd))
            os.mkdir(name, dir_fd=fd)
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
            os.close(fd)
            fd = inner
        os.close(fd)

    def op_tmpfs(self, op):
        path = self.path(op).encode()
        r = _LIBC.mount(b"tmpfs", path, b"tmpfs", 0, b"")
        if r == 0 and "options" in op:
            flags = 32 | (1 if op["options"] == "ro" else 0)  # MS_REMOUNT, MS_RDONLY
            data = b"" if op["options"] == "ro" else op["options"].encode()
            r = _LIBC.mount(b"tmpfs", path, b"tmpfs", flags, data)
        if r != 0:
            raise Skipped(f"mount tmpfs: {os.strerror(ctypes.get_errno())}")
        self.mounts.append(path)

    def op_umount(self, op):
        detach(self.path(op))

    def op_rm(self, op):
        path = self.path(op)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)

    def op_copy_shim(self, op):
        shutil.copy(self.transport.shim, self.path(op))

    def op_rawname(self, op):
        path = os.path.join(os.fsencode(self.path(op)), bytes.fromhex(op["name_hex"]))
        with open(path, "wb") as f:
            f.write(self.content(op))

    def op_sink(self, op):
        """Reads a FIFO until its end; `after` can look at what came."""
        sink = Collector(os.open(self.path(op), os.O_RDONLY))
        sink.start()
        self.sinks[op["name"]] = sink

    def op_feed(self, op):
        """Writes to a FIFO once somebody reads it."""
        def run():
            try:
                with open(self.path(op), "wb") as f:
                    f.write(self.content(op))
            except OSError:
                pass  # the vector has ended without reading, and says why
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.threads.append(thread)

    # -- the process

    def start(self):
        args = [self.vars.arg(item) for item in self.v["argv"]]
        cwd = self.vars.text(self.v["cwd"]) if "cwd" in self.v else None
        argv, extra = self.transport.command(args, self.v, self.dir, cwd)
        if "env" in self.v:
            extra["env"] = {k: self.vars.text(v) for k, v in self.v["env"].items()}
        piped = self.v.get("stdin") != "none" or "steps" in self.v
        self.proc = subprocess.Popen(argv, stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, **extra)
        for name in ("stdout", "stderr"):
            self.streams[name] = Collector(getattr(self.proc, name).fileno())
            if name == "stderr" or not self.v.get("hold_stdout"):
                self.streams[name].start()

    def send(self, data):
        try:
            self.proc.stdin.write(data)
            self.proc.stdin.flush()
        except BrokenPipeError:
            pass  # the shim ended before it read everything, which may be right

    def close_stdin(self):
        if self.proc.stdin:
            try:
                self.proc.stdin.close()
            except BrokenPipeError:
                pass

    def wait(self):
        try:
            return self.proc.wait(max(0.01, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise Failed("still running at the time limit") from None

    # -- steps

    def step_expect_frame(self, step):
        name = step["expect_frame"]
        match_frame(self.streams[name].next_frame(self.deadline), step["match"], self.vars)

    def step_send_hex(self, step):
        self.send(bytes.fromhex(step["send_hex"]))

    def step_send_pattern(self, step):
        self.send(pattern(step["send_pattern"]))

    def step_close_stdin(self, step):
        self.close_stdin()

    def step_wait_ms(self, step):
        time.sleep(step["wait_ms"] / 1000)

    def step_expect_quiet_ms(self, step):
        before = [s.at for s in self.streams.values()]
        time.sleep(step["expect_quiet_ms"] / 1000)
        for name, at in zip(self.streams, before):
            s = self.streams[name]
            expect(len(s.data) == at and not s.closed, f"{name} is not quiet: {bytes(s.data[at:at + 64])!r}")

    def step_attach(self, step):
        self.streams[step["attach"]].start()

    def step_close(self, step):
        self.streams[step["close"]].stop()
        getattr(self.proc, step["close"]).close()

    def step_rss_below_kb(self, step):
        with open(f"/proc/{self.proc.pid}/status", encoding="ascii") as f:
            rss = int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))
        if self.transport.native:
            expect(rss < step["rss_below_kb"], f"{rss} KiB resident, limit {step['rss_below_kb']}")

    def step_host(self, step):
        self.setup(step["host"])

    def step_kill(self, step):
        self.proc.send_signal(getattr(signal, step["kill"]))

    def step_expect_exit(self, step):
        self.wait()

    def step_check(self, step):
        self.check(step["check"])

    def run_steps(self):
        for step in self.v["steps"]:
            key = next(k for k in step if k != "match")
            getattr(self, "step_" + key)(step)

    # -- expectations

    def check_status(self, code, want):
        if "signal" in want:
            number = int(getattr(signal, want["signal"]))
            expect(code in (-number, 128 + number), f"exit status {code}, want {want['signal']}")
        elif "exit" in want:
            expect(code == want["exit"], f"exit status {code}, want {want['exit']}")

    def check_stream(self, name, want):
        s = self.streams[name]
        data = bytes(s.data)
        if want.get("empty"):
            expect(not data, f"{name} is not empty: {data[:200]!r}")
        if "hex" in want:
            expect(data == bytes.fromhex(want["hex"]), f"{name} is {data[:200].hex()}, want {want['hex'][:400]}")
        if "text" in want:
            text = self.vars.text(want["text"])
            expect(data == text.encode(), f"{name} is {data[:200]!r}, want {text!r}")
        if "text_re" in want:
            expect(re.search(want["text_re"], data.decode("utf-8", "replace")), f"{name} is {data[:200]!r}")
        if "pattern_size" in want:
            expect(data == pattern(want["pattern_size"]), f"{name} ({len(data)} bytes) is not the pattern")
        if "size" in want:
            expect(s.total == want["size"], f"{s.total} bytes on {name}, want {want['size']}")
        if "frames" in want:
            frames = parse_frames(data)
            expect(len(frames) == len(want["frames"]), f"{len(frames)} frames on {name}: {frames!r:.300}")
            for frame, w in zip(frames, want["frames"]):
                match_frame(frame, w, self.vars)

    def check_sink(self, want):
        sink = self.sinks[want["sink"]]
        sink.thread.join(max(0.01, self.deadline - time.monotonic()))
        expect(sink.closed, "the sink has not seen the end")
        expect(bytes(sink.data) == bytes.fromhex(want["hex"]), f"sink got {bytes(sink.data)[:200].hex()}")

    def check_path(self, want):
        path = self.vars.text(want["path"])
        try:
            st = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            expect(want.get("type") == "missing", f"{path} is missing")
            return
        expect(want.get("type") != "missing", f"{path} is still there")
        kinds = {"file": stat.S_ISREG, "dir": stat.S_ISDIR, "symlink": stat.S_ISLNK}
        if "type" in want:
            expect(kinds[want["type"]](st.st_mode), f"{path} is no {want['type']}")
        numbers = {"size": st.st_size, "uid": st.st_uid, "gid": st.st_gid, "nlink": st.st_nlink}
        for key, value in numbers.items():
            if key in want:
                expect(value == want[key], f"{path}: {key} is {value}, want {want[key]}")
        if "mode" in want:
            mode = stat.S_IMODE(st.st_mode)
            expect(mode == int(want["mode"], 8), f"{path}: mode is {mode:o}, want {want['mode']}")
        if "target" in want:
            expect(os.readlink(path) == self.vars.text(want["target"]), f"{path}: other target")
        if "entries" in want:
            expect(sorted(os.listdir(path)) == sorted(want["entries"]), f"{path} holds {os.listdir(path)}")
        if want.get("same_inode_as_before"):
            expect(self.inodes.get(path) == st.st_ino, f"{path}: another inode")
        if {"text", "hex", "pattern_size", "json"} & set(want):
            with open(path, "rb") as f:
                data = f.read()
            if "json" in want:
                match_json(json.loads(data), self.vars.deep(want["json"]))
            else:
                expect(data == self.content(want), f"{path} holds {data[:100]!r} ({len(data)} bytes)")

    def check(self, wants):
        for want in wants:
            if "sink" in want:
                self.check_sink(want)
            else:
                self.check_path(want)

    # -- all of it

    def execute(self):
        self.setup(self.v.get("setup", []))
        for want in self.v["expect"].get("after", []):
            if want.get("same_inode_as_before"):
                path = self.vars.text(want["path"])
                self.inodes[path] = os.lstat(path).st_ino
        self.start()
        if "steps" in self.v:
            self.run_steps()
        else:
            if "stdin_hex" in self.v:
                self.send(bytes.fromhex(self.v["stdin_hex"]))
            elif "stdin_size" in self.v:
                self.send(pattern(self.v["stdin_size"]))
        self.close_stdin()
        code = self.wait()
        for name, s in self.streams.items():
            if s.thread and not s.stopping:
                s.thread.join(max(0.01, self.deadline - time.monotonic()))
                expect(s.closed, f"{name} is still open after the exit")
        self.check_status(code, self.v["expect"])
        for name in ("stdout", "stderr"):
            if name in self.v["expect"]:
                self.check_stream(name, self.v["expect"][name])
        self.check(self.v["expect"].get("after", []))

    def clean(self):
        if self.proc:
            if self.proc.poll() is None:
                self.proc.kill()
                self.proc.wait()
            for s in self.streams.values():
                s.stop()
            for pipe in (self.proc.stdin, self.proc.stdout, self.proc.stderr):
                try:
                    if pipe and not pipe.closed:
                        pipe.close()
                except BrokenPipeError:
                    pass
        for path in self.mounts:
            detach(path)
        for path in self.v.get("cleanup", []):
            subprocess.run(["rm", "-rf", path], check=False)
        subprocess.run(["rm", "-rf", self.dir], check=False)


def meant_for(vector, transport):
    """False for a vector that says nothing about this transport: memory, texts of musl, gigabytes."""
    return transport.native or not {"native", "slow"} & set(vector.get("needs", []))


def unmet(vector, transport):
    """Why this vector cannot run here, or None."""
    needs = vector.get("needs", [])
    if ("root" in needs or "user" in vector) and os.geteuid() != 0:
        return "needs root"
    if "run-sandbox" in needs and os.path.exists("/run/sandbox"):
        return "/run/sandbox is in use"
    return transport.refuses(vector)


def run_vector(vector, transport, base):
    """None, or raises Failed or Skipped."""
    why = unmet(vector, transport)
    if why:
        raise Skipped(why)
    run = Run(vector, transport, base)
    try:
        run.execute()
    finally:
        run.clean()


def load(paths):
    for path in paths:
        with open(path, encoding="utf-8") as f:
            yield from json.load(f)["vectors"]
