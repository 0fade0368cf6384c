"""File operations over the API, in a running sandbox: one connection that stays open, one request after the other. What the
front itself takes is the request for the version; the rest of a file operation is an exec of the shim (20-inproc.py)."""
import json
import os
import signal
import socket
import subprocess
import time

from benchlib import Case, Reach, Series

VERSION = "API: version"
OPS = {
    "API: stat of a file": ("GET", "/stat?path=/etc/4k", None),
    "API: read of 4 KiB": ("GET", "?path=/etc/4k", None),
    "API: write of 4 KiB": ("PUT", "?path=/tmp/4k", b"x" * 4096),
    "API: atomic write of 4 KiB": ("PUT", "?path=/tmp/4k&atomic", b"x" * 4096),
    "API: list of 100 entries": ("GET", "/list?path=/tmp/100", None),
}
STREAM = "API: read of 64 MiB"
STREAM_BYTES = 64 << 20
SHIM = "shim: read of 4 KiB"  # of 20-inproc.py
PLUS = 400  # us beside the same without HTTP
READY_SECONDS = 30


class Api:
    """The daemon, a sandbox in it, and a connection."""

    def __init__(self, ctx):
        self.path = os.path.join(ctx.state, "files.sock")
        self.proc = subprocess.Popen(ctx.rind + ["serve", "--socket", self.path], stdin=subprocess.DEVNULL)
        end = time.monotonic() + READY_SECONDS
        while True:
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                self.sock.connect(self.path)
                break
            except OSError:
                self.sock.close()
                if time.monotonic() > end or self.proc.poll() is not None:
                    raise RuntimeError("rind serve did not start") from None
                time.sleep(0.01)
        self.buffer = b""

    def send(self, method, path, body=None, kind="application/octet-stream"):
        length = f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n" if body is not None else ""
        self.sock.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\n{length}\r\n".encode() + (body or b""))

    def receive(self):
        """(status, bytes of the body)."""
        while b"\r\n\r\n" not in self.buffer:
            self.buffer += self.more()
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        status, low = int(head.split()[1]), head.lower()
        if b"content-length:" in low:
            left = int(low.split(b"content-length:")[1].split()[0])
            size = left
            while len(self.buffer) < left:
                left -= len(self.buffer)
                self.buffer = self.more()
            self.buffer = self.buffer[left:]
            return status, size
        if b"chunked" not in low:
            return status, 0
        while not self.buffer.endswith(b"0\r\n\r\n"):
            self.buffer += self.more()
        size, self.buffer = len(self.buffer), b""
        return status, size

    def more(self):
        data = self.sock.recv(1 << 20)
        if not data:
            raise RuntimeError("rind serve closed the connection")
        return data

    def ask(self, method, path, body=None, kind="application/octet-stream"):
        self.send(method, path, body, kind)
        status, size = self.receive()
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status}")
        return size

    def close(self):
        try:
            self.ask("DELETE", "/v1/sandboxes/files?force=true")
        finally:
            self.sock.close()
            self.proc.send_signal(signal.SIGTERM)
            self.proc.wait(READY_SECONDS)


def prepare(ctx):
    api = Api(ctx)
    spec = {"name": "files", "command": ["/bin/sleep", "100000"], "start": True}
    api.ask("POST", "/v1/sandboxes", json.dumps(spec).encode(), "application/json")
    files = "/v1/sandboxes/files/files"
    api.ask("PUT", files + "?path=/etc/4k", b"x" * 4096)
    api.ask("PUT", files + "?path=/tmp/big", bytes(STREAM_BYTES))
    api.ask("POST", files + "/mkdir?path=/tmp/100")
    for i in range(100):
        api.ask("PUT", f"{files}?path=/tmp/100/{i}", b"")
    return api, files


def timed(fn):
    start = time.perf_counter_ns()
    fn()
    return (time.perf_counter_ns() - start) / 1e3


def measure(ctx, n):
    api, files = prepare(ctx)
    found = {name: [] for name in (VERSION, *OPS, STREAM)}
    try:
        for i in range(n + 1):  # the first warms up
            values = {VERSION: timed(lambda: api.ask("GET", "/v1/version"))}
            for name, (method, path, body) in OPS.items():
                values[name] = timed(lambda m=method, p=path, b=body: api.ask(m, files + p, b))
            if i % 20 == 1:
                values[STREAM] = timed(lambda: api.ask("GET", files + "?path=/tmp/big"))
            if i > 0:
                for name, value in values.items():
                    found[name].append(value)
    finally:
        api.close()
    return found


def cases(ctx):
    series = [Series(VERSION)]
    for name in OPS:
        reach = Reach(plus=PLUS) if name in ("API: stat of a file", "API: read of 4 KiB") else None
        series.append(Series(name, peer=SHIM if reach else None, reach=reach))
    series.append(Series(STREAM))
    return [Case(series, lambda n: measure(ctx, n))]
