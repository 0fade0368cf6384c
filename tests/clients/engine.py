"""A `rind serve` of a suite's own on scratch directories, with images under the names that the suites know.

The images are made here of the distribution's static busybox, and of this machine's bash where a suite calls it, so that no
registry is needed. What an image is called is all that a suite sees of it.
"""
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.append(os.path.join(TOP, "tests", "integ"))
import imagelib  # noqa: E402  pylint: disable=wrong-import-position
import template  # noqa: E402  pylint: disable=wrong-import-position

RIND = os.path.abspath(os.environ.get("RIND_BIN", os.path.join(TOP, "build", "rind")))
READY_LIMIT = 180  # seconds; the first start unpacks the layers and compiles the filters
CREATED = "2026-01-02T03:04:05Z"
PASSWD = b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\npostgres:x:70:70::/var/lib/postgresql:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n"
GROUP = b"root:x:0:\nwheel:x:10:root\nnogroup:x:65534:\npostgres:x:70:\nnode:x:1000:\n"


def applets():
    """Every program that this busybox can be called as."""
    return subprocess.run(["/bin/busybox", "--list"], capture_output=True, check=True, text=True).stdout.split()


def file(path):
    with open(path, "rb") as f:
        return f.read()


def base_layer():
    """A root file system of busybox, as alpine and busybox have it."""
    entries = [(d, None) for d in ("bin", "sbin", "usr", "usr/bin", "usr/sbin", "etc", "root", "var", "var/log", "var/opt", "home", "home/node", "opt",
                                   "mnt", "srv", "lib", "proc", "sys", "dev", "run", "usr/local", "usr/local/bin", "workspaces")]
    entries += [("tmp", None, {"mode": 0o1777}), ("bin/busybox", file("/bin/busybox"), {"mode": 0o755})]
    entries += [imagelib.link(f"bin/{a}", "busybox") for a in applets() if a != "busybox"]
    # scripts name these by their path
    entries += [imagelib.link(f"usr/bin/{a}", "../../bin/busybox") for a in ("env", "id", "find", "head", "top", "wc", "test", "nohup")]
    entries += [("etc/passwd", PASSWD), ("etc/group", GROUP), ("etc/os-release", b'ID=alpine\nNAME="Alpine Linux"\nVERSION_ID=3.10.0\n'),
                ("etc/alpine-release", b"3.10.0\n")]
    return imagelib.tar(*entries)


def bash_layer():
    """This machine's bash with its libraries."""
    real = os.path.realpath(shutil.which("bash"))
    entries, dirs = [], {"bin", "usr", "usr/bin"}
    libraries = subprocess.run(["ldd", real], capture_output=True, check=True, text=True).stdout
    paths = [part for part in libraries.split() if part.startswith("/")]
    for path in dict.fromkeys(paths):
        parts = path.strip("/").split("/")[:-1]
        for i in range(1, len(parts) + 1):
            if "/".join(parts[:i]) not in dirs:
                dirs.add("/".join(parts[:i]))
                entries.append(("/".join(parts[:i]), None))
        entries.append((path.strip("/"), file(os.path.realpath(path)), {"mode": 0o755}))
    return imagelib.tar(*entries, ("bin/bash", file(real), {"mode": 0o755}))


def archive(names, run=None, layers=None):
    """What `docker load` takes: an image with these names."""
    layers = layers or [base_layer()]
    path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    config = json.dumps(imagelib.config(layers, {"Env": [path], "Cmd": ["/bin/sh"]} | (run or {}), created=CREATED,
                                        history=[{"created": CREATED, "created_by": "made for a test"} for _ in layers])).encode()
    files = [f"{i}/layer.tar" for i in range(len(layers))]
    manifest = json.dumps([{"Config": "config.json", "RepoTags": list(names), "Layers": files}]).encode()
    return imagelib.tar(("config.json", config), *zip(files, layers), ("manifest.json", manifest))


class UnixHTTP(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path, timeout=120):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Engine:
    """A running daemon; `with` ends it and takes its files away."""

    def __init__(self, socket_path=None):
        self.dir = tempfile.mkdtemp(prefix="rind-clients-")
        self.socket = socket_path or os.path.join(self.dir, "rind.sock")
        self.log, self.proc = os.path.join(self.dir, "serve.log"), None

    def __enter__(self):
        state, notify = os.path.join(self.dir, "state"), os.path.join(self.dir, "notify")
        template.use(TOP, RIND, state)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready, open(self.log, "ab") as log:
            ready.bind(notify)
            ready.settimeout(READY_LIMIT)
            self.proc = subprocess.Popen([RIND, "--state", state, "--runtime", os.path.join(self.dir, "run"), "serve", "--socket", self.socket],
                                         stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=os.environ | {"NOTIFY_SOCKET": notify})
            ready.recv(4096)
        return self

    def __exit__(self, *_):
        """SIGTERM: a daemon that ends takes what it runs with it."""
        self.proc.send_signal(signal.SIGTERM)
        try:
            self.proc.wait(READY_LIMIT)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
        template.keep(TOP, RIND, os.path.join(self.dir, "state"))
        shutil.rmtree(self.dir, ignore_errors=True)

    def request(self, method, path, body=None, headers=None):
        """(status, body)"""
        conn = UnixHTTP(self.socket)
        try:
            conn.request(method, path, body, headers or {})
            r = conn.getresponse()
            return r.status, r.read()
        finally:
            conn.close()

    def load(self, data):
        """Loads an image archive."""
        status, text = self.request("POST", "/images/load?quiet=1", data, {"Content-Type": "application/x-tar"})
        if status != 200 or b"Loaded image" not in text:
            raise RuntimeError(f"load: {status} {text[:300]!r}")

    def load_each(self, names, run=None, layers=None, keep=None):
        """Loads one image for each of these names: each has an id of its own, as on a registry. keep: a directory for the archives."""
        layers = layers or [base_layer()]
        for name in names:
            data = archive([name], {"Labels": {"rind.test.name": name}} | (run or {}), layers)
            self.load(data)
            if keep:
                with open(os.path.join(keep, name.partition(":")[0] + ".tar"), "wb") as f:
                    f.write(data)

    def text(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()

    def alive(self):
        return self.proc.poll() is None

    @property
    def env(self):
        """What a client of this daemon runs with."""
        home = os.path.join(self.dir, "home")
        os.makedirs(home, exist_ok=True)
        return {"PATH": os.environ["PATH"], "HOME": home, "DOCKER_HOST": f"unix://{self.socket}", "LANG": "C.UTF-8", "TMPDIR": "/tmp"}
