"""The parent of rind-registry, played by a test: starts the program, speaks its protocol (runner/image/registry-proto.h), checks
digests as the supervisor must."""
import array
import hashlib
import json
import os
import socket
import struct
import subprocess

PROGRAM = os.path.join(os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")), "build", "registry",
                       "rind-registry")
MAGIC, VERSION = 0x47524e52, 1
HEAD = struct.Struct("<IHHIIIiIHHHHIqq")
JOB, RESOLVE, FETCH, PUSH_BLOB, PUSH_MANIFEST, LOGIN, TAGS, CANCEL = range(1, 9)
READY, DOCUMENT, PROGRESS, RETRYING, DONE, FAILED = range(64, 70)
TOP_ONLY, HEAD_ONLY, NO_MIRRORS, UNCHANGED, EXISTS, MOUNTED, IDENTITY = (1 << i for i in range(7))
INDEX, MANIFEST, CONFIG = 1, 2, 3
FAULTS = (None, "not-found", "unauthorized", "denied", "busy", "no-platform", "unsupported", "digest", "malformed", "limit", "connect",
          "tls", "address", "server", "local", "canceled")
SECONDS = 120  # far above what any request of a test takes


def sha(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Failed(Exception):
    """A request ended with FAILED."""

    def __init__(self, message):
        super().__init__(message["text"])
        self.fault, self.status, self.text, self.code = FAULTS[message["kind"]], message["status"], message["text"], message["code"]


def encode(kind, ident=0, flags=0, what=0, code=0, status=0, size=0, offset=0, digest="", media_type="", name="", text=""):
    texts = [x.encode() for x in (digest, media_type, name, text)]
    return HEAD.pack(MAGIC, VERSION, kind, ident, flags, what, code, status, *map(len, texts), 0, size, offset) + b"".join(texts)


def decode(data):
    magic, version, kind, ident, flags, what, code, status, *lengths, zero, size, offset = HEAD.unpack_from(data)
    assert (magic, version, zero) == (MAGIC, VERSION, 0), "another format"
    texts, at = [], HEAD.size
    for n in lengths:
        texts.append(data[at:at + n].decode())
        at += n
    assert at == len(data), "bytes behind the texts"
    return dict(zip(("type", "id", "flags", "kind", "code", "status", "size", "offset", "digest", "media_type", "name", "text"),
                    (kind, ident, flags, what, code, status, size, offset, *texts)))


class Client:
    """One process for one operation. hosts: name -> address, as in /etc/hosts."""

    def __init__(self, host, repository=None, hosts="", resolv="nameserver 127.0.0.1\n", ca="", wrap=(), **job):
        self.mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.mine.settimeout(SECONDS)
        texts = [self._memory(x.encode()) for x in (ca, resolv, hosts)]
        self.next, self.retries, self.pending = 1, [], {}

        def place():
            for i, fd in enumerate([os.dup(its.fileno())] + [os.dup(x) for x in texts]):
                os.dup2(os.dup(fd), 100 + i)
            for i in range(4):
                os.dup2(100 + i, 3 + i)

        self.proc = subprocess.Popen([*wrap, PROGRAM, "worker"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={}, close_fds=False, preexec_fn=place)
        its.close()
        for x in texts:
            os.close(x)
        job = {"host": host, "addresses": "any", **({"repository": repository} if repository else {}), **job}
        fd = self._memory(json.dumps(job).encode())
        self._send(encode(JOB), fd)
        os.close(fd)
        ready = self._receive()[0]
        if ready["type"] != READY:
            raise Failed(ready)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @staticmethod
    def _memory(data):
        fd = os.memfd_create("test")
        os.write(fd, data)
        os.lseek(fd, 0, os.SEEK_SET)
        return fd

    def _send(self, data, fd=None):
        control = [] if fd is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
        self.mine.sendmsg([data], control)

    def _receive(self):
        data, control, _, _ = self.mine.recvmsg(16384, socket.CMSG_SPACE(4 * 4))
        if not data:
            raise AssertionError(f"rind-registry has gone: {self.proc.wait()}")
        fds = [fd for _, _, x in control for fd in array.array("i", x[:len(x) - len(x) % 4])]
        return decode(data), fds[0] if fds else None

    @staticmethod
    def _take(fd, size):
        data = b""
        while len(data) < size:
            more = os.pread(fd, size - len(data), len(data))
            assert more, "a document that is shorter than was said"
            data += more
        os.close(fd)
        return data

    def begin(self, kind, fd=None, **fields):
        """Sends a request; its id."""
        ident, self.next = self.next, self.next + 1
        self.pending[ident] = []
        self._send(encode(kind, ident, **fields), fd)
        return ident

    def step(self):
        """One message."""
        m, fd = self._receive()
        if m["type"] == RETRYING:
            self.retries.append((m["size"], m["text"]))
        if m["type"] == DOCUMENT or (m["type"] == DONE and fd is not None):
            m["data"] = self._take(fd, m["size"])
        self.pending[m["id"]].append(m)
        return m

    def end(self, ident):
        """All messages of a request, up to its DONE. Raises Failed."""
        while not self.pending[ident] or self.pending[ident][-1]["type"] not in (DONE, FAILED):
            self.step()
        got = self.pending.pop(ident)
        if got[-1]["type"] == FAILED:
            raise Failed(got[-1])
        return got

    def ask(self, kind, fd=None, **fields):
        return self.end(self.begin(kind, fd, **fields))

    def resolve(self, name, **fields):
        """(DONE, [documents])"""
        *rest, done = self.ask(RESOLVE, name=name, **fields)
        documents = [m for m in rest if m["type"] == DOCUMENT]
        for m in documents:
            assert sha(m["data"]) == m["digest"], "a document with another digest"
        return done, documents

    def cancel(self, ident):
        self._send(encode(CANCEL, ident))

    def fetch_begin(self, path, digest, size, **fields):
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            return self.begin(FETCH, fd, digest=digest, size=size, offset=os.fstat(fd).st_size, **fields)
        finally:
            os.close(fd)

    def fetch(self, path, digest, size, **fields):
        """A blob into a file, verified; what is there already stays."""
        got = self.end(self.fetch_begin(path, digest, size, **fields))
        with open(path, "rb") as f:
            data = f.read()
        if len(data) != size or sha(data) != digest:
            raise AssertionError(f"filesystem layer verification failed for digest {digest}")
        return data, got

    def pull(self, name, directory, **fields):
        """(DONE, manifest, config, [layers' bytes]); all layers at a time."""
        done, documents = self.resolve(name, **fields)
        if done["flags"] & UNCHANGED:
            return done, None, None, []
        manifest = json.loads(next(m for m in documents if m["kind"] == MANIFEST)["data"])
        config = next(m for m in documents if m["kind"] == CONFIG)["data"]
        wanted = {layer["digest"]: layer for layer in manifest["layers"]}
        started = [self.fetch_begin(os.path.join(directory, d[7:]), d, x["size"]) for d, x in list(wanted.items())[:8]]
        for ident in started:
            self.end(ident)
        layers = [self.fetch(os.path.join(directory, x["digest"][7:]), x["digest"], x["size"])[0] for x in manifest["layers"]]
        return done, manifest, config, layers

    def push_blob(self, data, mount="", size=None):
        fd = data if isinstance(data, int) else self._memory(data)
        try:
            return self.ask(PUSH_BLOB, fd, digest=sha(data), size=len(data) if size is None else size, name=mount)[-1]["flags"]
        finally:
            os.close(fd)

    def push_manifest(self, name, data, media_type):
        fd = self._memory(data)
        try:
            return self.ask(PUSH_MANIFEST, fd, digest=sha(data), size=len(data), name=name, media_type=media_type)[-1]["digest"]
        finally:
            os.close(fd)

    def login(self, **fields):
        return self.ask(LOGIN, **fields)[-1]["text"]

    def tags(self):
        return self.ask(TAGS)[-1]["data"].decode().split("\0")[:-1]

    def close(self):
        self.mine.close()
        return self.proc.wait(SECONDS)
