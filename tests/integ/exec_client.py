"""Clients of the exec API: frames over an upgraded connection, and what tests ask of a daemon's processes."""
import json
import os
import struct
import time

import audit

STDIN, STDOUT, STDERR, EXIT, ERROR, STDIN_CLOSE, RESIZE, SIGNAL = range(8)
OUTPUT_CLOSE = 9
LIMIT = 120  # seconds for anything that should come


def frame(kind, payload=b""):
    return struct.pack(">BxxxI", kind, len(payload)) + payload


class Upgraded:
    """The stream form of an exec, or an attachment to one."""

    def __init__(self, d, path, body=None, headers=None):
        self.conn = d.connect()
        self.conn.send("POST", path, body, {"Connection": "Upgrade", "Upgrade": "rind-exec"} | (headers or {}))
        self.status, self.headers = self.conn.head()
        self.sock, self.output, self.errors, self.end = self.conn.sock, bytearray(), bytearray(), None
        self.id = self.headers.get("rind-exec-id")
        if self.status not in (101, 200):
            self.refusal = json.loads(self.conn.body())["error"]

    def send(self, kind, payload=b""):
        self.sock.sendall(frame(kind, payload))

    def resize(self, rows, cols):
        self.send(RESIZE, struct.pack(">HH", rows, cols))

    def signal(self, name):
        self.send(SIGNAL, name.encode())

    def _exactly(self, n, end):
        while len(self.conn.buffer) < n:
            if not self.conn._more(end):  # pylint: disable=protected-access
                return None
        data, self.conn.buffer = self.conn.buffer[:n], self.conn.buffer[n:]
        return data

    def next(self, seconds=LIMIT):
        """(type, payload), or None where the connection has ended."""
        end = time.monotonic() + seconds
        head = self._exactly(8, end)
        if head is None:
            return None
        kind, zero, size = head[0], head[1:4], struct.unpack(">I", head[4:])[0]
        if zero != b"\0\0\0":
            raise AssertionError(f"no frame: {head!r}")
        return kind, self._exactly(size, end) if size else b""

    def take(self, seconds=LIMIT):
        """Reads one frame into output, errors or end; whether there was one."""
        got = self.next(seconds)
        if got is None:
            return False
        kind, payload = got
        if kind == STDOUT:
            self.output += payload
        elif kind == STDERR:
            self.errors += payload
        elif kind in (EXIT, ERROR):
            self.end = (kind, json.loads(payload))
        else:
            raise AssertionError(f"frame of type {kind}: {payload[:100]!r}")
        return True

    def until(self, wanted, seconds=LIMIT):
        """Reads until stdout holds the bytes."""
        end = time.monotonic() + seconds
        while wanted not in self.output:
            if not self.take(end - time.monotonic()):
                raise AssertionError(f"ended before {wanted!r}: {self.output[-300:]!r} {self.errors[-300:]!r} {self.end}")

    def finish(self, seconds=LIMIT):
        """Reads to the end; what the exit frame says."""
        end = time.monotonic() + seconds
        while self.take(end - time.monotonic()):
            pass
        self.close()
        if self.end is None or self.end[0] != EXIT:
            raise AssertionError(f"no exit frame: {self.end}, {self.output[-300:]!r} {self.errors[-300:]!r}")
        return self.end[1]

    def close(self):
        self.conn.close()


def caught(d, path, number):
    """Returns once the main process catches the signal: before, a process 1 ignores it."""
    digit = "".join(f"{v:x}" for v in range(16) if v >> (number - 1) % 4 & 1)
    behind = "." * ((number - 1) // 4)
    script = f"while ! grep -q '^SigCgt:.*[{digit}]{behind}$' /proc/1/status; do sleep 0.01; done; exit 1"
    return d.request("POST", f"{path}/exec", {"cmd": script, "timeoutMs": 1000 * LIMIT}, seconds=2 * LIMIT)


def supervisor(d):
    """The pid of the daemon's confined half."""
    for pid in audit.descendants(d.proc.pid):
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8") as f:
                if f.read().strip() == "rind-supervisor":
                    return pid
        except OSError:
            pass
    raise AssertionError("the daemon has no supervisor")


def init_of(box):
    """The pid of a sandbox's init; None where it has none."""
    for n in filter(str.isdigit, os.listdir("/proc")):
        if f"/rind/{box}" in audit.read(f"/proc/{n}/cgroup") and audit.read(f"/proc/{n}/cmdline").startswith("rind-init\0"):
            spaces = [line.split() for line in audit.read(f"/proc/{n}/status").splitlines() if line.startswith("NSpid:")]
            if spaces and spaces[0][-1] == "1":
                return int(n)
    return None


def memory(pid, peak=False):
    """KiB of resident memory, now or at most so far."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        for line in f:
            if line.startswith("VmHWM:" if peak else "VmRSS:"):
                return int(line.split()[1])
    raise AssertionError(f"no memory of {pid}")


def reset_peak(pid):
    with open(f"/proc/{pid}/clear_refs", "w", encoding="utf-8") as f:
        f.write("5")


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))
