"""Docker's own clients against a `rind serve` of the test: an image to run, the CLI, and the API by hand.

The image is made here from the distribution's static busybox, so that nothing is fetched.
"""
import gzip
import hashlib
import io
import json
import os
import shutil
import struct
import subprocess
import tarfile
import threading

from serve import Connection

BUSYBOX = "/bin/busybox"
LIMIT = 120  # seconds for one command; far above what it takes
IMAGE = "box:1"
APPLETS = ("sh ln cat echo sleep ls id seq sha256sum stty true false env pwd kill head tail wc mkdir rm cp mv touch readlink dd "
           "printf test ps tr sed grep nc tar find stat hostname ip md5sum od sort uniq yes tee").split()
PASSWD = b"root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000::/home/app:/bin/sh\n"
GROUP = b"root:x:0:\napp:x:1000:\n"


def cli():
    """The docker command, or None."""
    return shutil.which("docker")


def _entry(tar, name, data=None, mode=0o755, link=None, uid=0):
    info = tarfile.TarInfo(name)
    info.mode, info.uid, info.gid, info.mtime = mode, uid, uid, 1700000000
    if link is not None:
        info.type, info.linkname = tarfile.SYMTYPE, link
    elif data is None:
        info.type = tarfile.DIRTYPE
    else:
        info.size = len(data)
    tar.addfile(info, io.BytesIO(data) if data is not None else None)


def root_tar(extra=()):
    """The root file system as a tar archive; extra: (name, bytes)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for d in ("bin", "etc", "tmp", "root", "data", "home", "home/app"):
            _entry(tar, d, mode=0o1777 if d == "tmp" else 0o755)
        with open(BUSYBOX, "rb") as f:
            _entry(tar, "bin/busybox", f.read())
        for name in APPLETS:
            _entry(tar, f"bin/{name}", link="busybox")
        _entry(tar, "etc/passwd", PASSWD, 0o644)
        _entry(tar, "etc/group", GROUP, 0o644)
        _entry(tar, "data/seed", b"from the image\n", 0o644)
        for name, data in extra:
            _entry(tar, name, data)
    return out.getvalue()


def image_tar(names=(IMAGE,), config=None, extra=()):
    """A docker-archive of one layer. config: what its "config" has beside the defaults."""
    layer = root_tar(extra)
    digest = hashlib.sha256(layer).hexdigest()
    text = json.dumps({
        "architecture": "amd64", "os": "linux", "created": "2026-01-02T03:04:05Z",
        "config": {"Env": ["PATH=/bin:/usr/bin", "FROM_IMAGE=yes"], "Cmd": ["sh"], "WorkingDir": "/"} | (config or {}),
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [{"created": "2026-01-02T03:04:05Z", "created_by": "test"}]}).encode()
    name = hashlib.sha256(text).hexdigest() + ".json"
    manifest = json.dumps([{"Config": name, "RepoTags": list(names), "Layers": [f"{digest}/layer.tar"]}]).encode()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        _entry(tar, name, text, 0o644)
        _entry(tar, f"{digest}/layer.tar", layer, 0o644)
        _entry(tar, "manifest.json", manifest, 0o644)
    return out.getvalue()


def load(t, d, **kw):
    """Loads the test's image."""
    r = d.request("POST", "/v1.41/images/load?quiet=1", image_tar(**kw), {"Content-Type": "application/x-tar"}, seconds=LIMIT)
    t.need(r.status == 200 and b"Loaded image" in r.body, f"load: {r}; log: {d.text()[-800:]}")


class Docker:
    """The docker command for one daemon."""

    def __init__(self, t, d):
        self.t, self.d = t, d
        self.env = {"PATH": os.environ["PATH"], "HOME": t.path("home"), "DOCKER_HOST": f"unix://{d.socket}"}
        os.makedirs(self.env["HOME"], exist_ok=True)

    def run(self, *args, stdin=None, seconds=LIMIT):
        """(status, stdout, stderr)"""
        p = subprocess.run([cli(), *args], input=stdin, stdin=None if stdin is not None else subprocess.DEVNULL,
                           capture_output=True, env=self.env, timeout=seconds, check=False)
        return p.returncode, p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace")

    def ok(self, *args, **kw):
        """stdout of a command that must work, without its last line end."""
        code, out, errors = self.run(*args, **kw)
        self.t.need(code == 0, f"docker {' '.join(args)}: {code} {out!r} {errors!r}; log: {self.d.text()[-500:]}")
        return out.rstrip("\n")

    def popen(self, *args, **kw):
        return subprocess.Popen([cli(), *args], env=self.env, **kw)


class Raw(Connection):
    """A connection that becomes a raw stream."""

    def upgrade(self, method, path, body=None, headers=None):
        self.send(method, path, body, {"Connection": "Upgrade", "Upgrade": "tcp"} | (headers or {}))
        return self.head()

    def raw(self, seconds=LIMIT):
        """What comes up to the end."""
        data, self.buffer = self.buffer, b""
        self.sock.settimeout(seconds)
        while True:
            piece = self.sock.recv(65536)
            if not piece:
                return data
            data += piece

    def read(self, count, seconds=LIMIT):
        self.sock.settimeout(seconds)
        while len(self.buffer) < count:
            piece = self.sock.recv(65536)
            if not piece:
                raise AssertionError(f"the stream ended after {self.buffer!r}")
            self.buffer += piece
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def frame(self, seconds=LIMIT):
        """(stream, bytes)"""
        stream, size = struct.unpack(">BxxxI", self.read(8, seconds))
        return stream, self.read(size, seconds)


def frames(data):
    """{stream: bytes} of a whole multiplexed stream; it must end with a whole frame."""
    found = {1: b"", 2: b""}
    while data:
        stream, size = struct.unpack(">BxxxI", data[:8])
        if len(data) < 8 + size:
            raise AssertionError(f"a cut frame: {data[:32]!r}")
        found[stream] += data[8:8 + size]
        data = data[8 + size:]
    return found


def create(t, d, name=None, **body):
    """A container of the test's image; its id."""
    r = d.post(f"/containers/create{'?name=' + name if name else ''}", {"Image": IMAGE} | body)
    t.need(r.status == 201, f"create {body}: {r}; log: {d.text()[-800:]}")
    return r.json["Id"]


def start(t, d, name=None, **body):
    box = create(t, d, name, **body)
    r = d.post(f"/containers/{box}/start")
    t.need(r.status == 204, f"start: {r}; log: {d.text()[-800:]}")
    return box


def execute(t, d, box, cmd, tty=False, stdin=None, size=None, **more):
    """An attached exec: (exit code, {stream: bytes} or raw bytes of a terminal)."""
    r = d.post(f"/containers/{box}/exec", {"AttachStdin": stdin is not None, "AttachStdout": True, "AttachStderr": True, "Tty": tty,
                                           "Cmd": cmd} | more)
    t.need(r.status == 201, f"exec {cmd}: {r}")
    conn = Raw(d.socket)
    body = {"Detach": False, "Tty": tty} | ({"ConsoleSize": size} if size else {})
    status, _ = conn.upgrade("POST", f"/exec/{r.json['Id']}/start", body)
    t.equal(status, 101, f"start of exec {cmd}")
    if stdin is not None:
        def feed():
            try:
                conn.sock.sendall(stdin)
                conn.sock.shutdown(1)
            except OSError:
                pass  # it needs no more
        threading.Thread(target=feed, daemon=True).start()
    data = conn.raw()
    conn.close()
    seen = d.get(f"/exec/{r.json['Id']}/json").json
    t.equal(seen["Running"], False, "an exec whose stream has ended runs no more")
    return seen["ExitCode"], data if tty else frames(data)


def gzipped(data):
    return gzip.compress(data, mtime=0)
