"""A `rind serve` of a test's own, and HTTP over its socket.

    with Daemon(t) as d:
        box = d.create(command=["/bin/payload", "sleep"], start=True)
        t.equal(d.get(f"/v1/sandboxes/{box['id']}").json["state"], "running", "state")

Readiness comes over NOTIFY_SOCKET, as a service manager would get it: nothing polls. Every sandbox that a test leaves is removed
before the daemon is stopped, so that the leak audit has nothing to excuse.
"""
import json
import os
import signal
import socket
import subprocess
import time

import audit
import template
from harness import RIND, THREADS_CHECKED, TOP, pause, poll_until

READY_LIMIT = 120  # seconds; the first start unpacks the layers and compiles the filters
REPLY_LIMIT = 120  # far above what it takes, even on a busy machine


class Reply:
    """One answer, read to its end."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        """(code, message) of an error in the API's shape."""
        e = self.json["error"]
        return e["code"], e["message"]

    def __str__(self):
        return f"{self.status} {self.body[:600]!r}"


class Stream:
    """A reply of server-sent events, read event by event."""

    def __init__(self, conn):
        self.conn = conn

    def next(self, seconds=REPLY_LIMIT):
        """The next event as a dict of its fields; None at the end of the stream. Heartbeats are passed over."""
        event, end = {}, time.monotonic() + seconds
        while True:
            line = self.conn.body_line(end)
            if line is None:
                return None
            line = line.rstrip(b"\r\n").decode()
            if not line and event:
                return event
            name, _, value = line.partition(":")
            if name:
                value = value.removeprefix(" ")
                event[name] = event[name] + "\n" + value if name in event else value

    def until(self, kind, seconds=REPLY_LIMIT):
        """Events up to the first of this name, which is the last of the list."""
        found = []
        while True:
            event = self.next(seconds)
            if event is None:
                raise AssertionError(f"the stream ended before {kind!r}: {found}")
            found.append(event)
            if event.get("event") == kind:
                return found

    def close(self):
        self.conn.close()


class Connection:
    """HTTP/1.1 by hand, so that a test may also send what no client library would."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(REPLY_LIMIT)
        self.sock.settimeout(0)  # a timeout would make connect() answer EAGAIN only after it
        if not poll_until(lambda: self._connected(path), REPLY_LIMIT):
            raise TimeoutError(f"{path}: the queue of its listener stays full")
        self.sock.settimeout(REPLY_LIMIT)
        self.buffer, self.chunk, self.left = b"", None, None

    def _connected(self, path):
        try:
            self.sock.connect(path)
            return True
        except BlockingIOError:  # the daemon's queue is full, which is no fault of either side
            return False

    def send(self, method, path, body=None, headers=None):
        lines = {"Host": "rind"} | (headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            lines.setdefault("Content-Type", "application/json")
        if body is not None:
            lines.setdefault("Content-Length", str(len(body)))
        head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items()) + "\r\n"
        self.sock.sendall(head.encode() + (body or b""))

    def _more(self, end):
        self.sock.settimeout(max(0.001, end - time.monotonic()))
        data = self.sock.recv(65536)
        self.buffer += data
        return bool(data)

    def _line(self, end):
        while b"\n" not in self.buffer:
            if not self._more(end):
                return None
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line + b"\n"

    def head(self, seconds=REPLY_LIMIT):
        """Status and headers; what follows is for body() or body_line()."""
        end = time.monotonic() + seconds
        line = self._line(end)
        if line is None:
            raise AssertionError("the connection was closed without an answer")
        status, headers = int(line.split()[1]), {}
        while True:
            line = self._line(end).rstrip(b"\r\n").decode()
            if not line:
                break
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        self.chunk = headers.get("transfer-encoding") == "chunked"
        self.left = None if self.chunk else int(headers.get("content-length", 0))
        self.text, self.over = b"", False
        return status, headers

    def _piece(self, end):
        """The next piece of the body; b"" at its end."""
        if self.over:
            return b""
        if not self.chunk:
            while self.left and not self.buffer:
                if not self._more(end):
                    raise AssertionError("the connection was closed within a body")
            piece, self.buffer = self.buffer[:self.left], self.buffer[self.left:]
            self.left -= len(piece)
            self.over = self.left == 0
            return piece
        line = self._line(end)
        if line is None:
            raise AssertionError("the connection was closed within a chunked body")
        size = int(line.split(b";")[0], 16)
        while len(self.buffer) < size + 2:
            if not self._more(end):
                raise AssertionError("the connection was closed within a chunk")
        piece, self.buffer = self.buffer[:size], self.buffer[size + 2:]
        self.over = size == 0
        return piece

    def body(self, seconds=REPLY_LIMIT):
        end, whole = time.monotonic() + seconds, b""
        while True:
            piece = self._piece(end)
            if not piece:
                return whole
            whole += piece

    def body_line(self, end):
        """One line of a streamed body; None at its end. TimeoutError when none comes in time."""
        while b"\n" not in self.text:
            piece = self._piece(end)
            if not piece:
                return None
            self.text += piece
        line, _, self.text = self.text.partition(b"\n")
        return line + b"\n"

    def request(self, method, path, body=None, headers=None, seconds=REPLY_LIMIT):
        self.send(method, path, body, headers)
        status, found = self.head(seconds)
        empty = method == "HEAD" or status in (204, 304)
        return Reply(status, found, b"" if empty else self.body(seconds))

    def close(self):
        self.sock.close()


class Daemon:
    """A running `rind serve` in the test's own directories."""

    def __init__(self, t, *options, start=True, within=()):
        """within: a command line that executes the rest of its own (prlimit, setpriv …)."""
        self.t, self.options, self.within, self.proc = t, list(options), list(within), None
        self.socket = t.path("rind.sock")
        self.log = t.path("serve.log")
        if start:
            self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.proc is not None and self.proc.poll() is None:
            self.clear(wait=False)
            self.stop()  # whose end waits for all but the files of large ones
            self._wait_files()
        found = [line for line in self.text().splitlines() if "Sanitizer" in line or "runtime error:" in line]
        self.t.check(not found, f"an instrumented daemon reports: {found[:3]}")

    def start(self):
        """Returns when it has said that it is ready."""
        template.use(TOP, RIND, self.t.state)
        notify = self.t.path("notify")
        if os.path.exists(notify):
            os.unlink(notify)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready, open(self.log, "ab") as log:
            ready.bind(notify)
            os.chmod(notify, 0o600)
            ready.settimeout(READY_LIMIT)
            self._begin(log, os.environ | {"NOTIFY_SOCKET": notify})
            try:
                message = ready.recv(4096)
            except TimeoutError:
                raise AssertionError(f"not ready after {READY_LIMIT} s; log: {self.text()[-800:]}") from None
        if not message.startswith(b"READY=1"):
            raise AssertionError(f"said {message!r}")
        return self

    def _begin(self, log, env):
        self.proc = subprocess.Popen(
            [*self.within, RIND, "--state", self.t.state, "--runtime", self.t.runtime, "serve", "--socket", self.socket, *self.options],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, start_new_session=True)
        audit.started.add(self.proc.pid)
        self.t.cleanups.append(self.kill)

    def start_and_kill(self, seconds):
        """One that is killed this long after it was started, ready or not."""
        with open(self.log, "ab") as log:
            self._begin(log, os.environ)
        pause(seconds, "the moment of its death is chosen at random")
        self.kill()

    def text(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()

    def _passed_on(self):
        """The supervisor, to whom the launcher passes a SIGTERM on: TSan holds signals back in a process that has had children
        which share its memory."""
        from exec_client import supervisor  # pylint: disable=import-outside-toplevel,cyclic-import
        return supervisor(self) or self.proc.pid

    def stop(self, seconds=REPLY_LIMIT):
        """SIGTERM, and the status that it ends with."""
        if THREADS_CHECKED:
            os.kill(self._passed_on(), signal.SIGTERM)
        else:
            self.proc.terminate()
        try:
            code = self.proc.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still there {seconds} s after SIGTERM; log: {self.text()[-800:]}") from None
        self.t.equal(code, 0, f"status of a clean stop; log: {self.text()[-800:]}")
        template.keep(TOP, RIND, self.t.state)
        self.t.check("handles are left open" not in self.text(), "handles were left open at the end")
        self._check_states()
        return code

    def _check_states(self):
        """No event came that the table of states calls impossible."""
        found = [line for line in self.text().splitlines() if "please report this" in line]
        self.t.check(found == [], f"impossible events: {found[:3]}")

    def kill(self):
        """SIGKILL to launcher and supervisor, if they are there."""
        if self.proc.poll() is None:
            self._check_states()
            self.proc.kill()
            self.proc.wait()

    # ---- requests: each on a connection of its own ---------------------------------------------------------------
    def connect(self):
        return Connection(self.socket)

    def request(self, method, path, body=None, headers=None, seconds=REPLY_LIMIT):
        conn = self.connect()
        try:
            return conn.request(method, path, body, headers, seconds)
        finally:
            conn.close()

    def get(self, path, **kw):
        return self.request("GET", path, **kw)

    def post(self, path, body=None, **kw):
        return self.request("POST", path, body, **kw)

    def delete(self, path, **kw):
        return self.request("DELETE", path, **kw)

    def stream(self, method, path, body=None, headers=None):
        """A reply of server-sent events; close() it."""
        conn = self.connect()
        conn.send(method, path, body, headers)
        status, found = conn.head()
        if status != 200:
            raise AssertionError(f"{method} {path}: {status} {conn.body()!r}")
        self.t.equal(found.get("content-type"), "text/event-stream", "type of a stream")
        return Stream(conn)

    # ---- sandboxes -----------------------------------------------------------------------------------------------
    def create(self, **spec):
        """Creates one with the test's root file system (`rootfs=None`: the built-in one); the test ends when that fails."""
        root = self.t.path("root")
        if "rootfs" not in spec:
            spec["rootfs"] = self.t.remember(root if os.path.isdir(root) else self.t.root())
        r = self.post("/v1/sandboxes", {k: v for k, v in spec.items() if v is not None})
        self.t.need(r.status == 201, f"create {spec}: {r}; log: {self.text()[-800:]}")
        return r.json

    def clear(self, wait=True):
        """Removes every sandbox, whatever it does; wait: until nothing of them is left."""
        for s in self.get("/v1/sandboxes").json["sandboxes"]:
            r = self.delete(f"/v1/sandboxes/{s['id']}?force=true")
            going = r.status == 409 and s["state"] == "removing"
            self.t.check(r.status in (204, 404) or going, f"remove {s['name']} ({s['state']}): {r}")
        if wait:
            self._wait_files()

    def _wait_files(self):
        files = os.path.join(self.t.state, "sandboxes")
        self.t.check(poll_until(lambda: not os.path.isdir(files) or not os.listdir(files), 60),
                     f"files of sandboxes stay: {os.path.isdir(files) and os.listdir(files)}")
