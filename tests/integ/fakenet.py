"""A small internet for tests of what leaves sandboxes: the host's name server, web servers with and without TLS, a server that
speaks first, and handlers on the host. Everything is threads of the test, in net namespaces of the test's own (netns.py).

    far: 8.8.8.8 "one", 9.9.9.9 "two", 2a02:8::8 "six"; metadata and a LAN neighbour; HTTP at 80, HTTPS at 443 and 8443, a greeting
         at 25, what is sent to it at 7
    host: where rind works; its name server at 127.0.0.53, or wherever the test puts it
"""
import os
import socket
import ssl
import struct
import subprocess
import threading

from harness import mount, umount
from netns import Namespace

ONE, TWO, SIX = "8.8.8.8", "9.9.9.9", "2a02:8::8"
METADATA, LAN = "169.254.169.254", "10.0.0.99"
HOST, HOST6 = "93.184.0.2", "2a00:1::2"
NAMES = {
    "one.test": [ONE, SIX], "two.test": [TWO], "api.one.test": [ONE], "six.test": [SIX], "shop.example.com": [TWO],
    "evil.test": [TWO], "rebind.test": [METADATA], "lan.test": [LAN],
    "big.test": [f"203.0.{i}.{j}" for i in range(2) for j in range(100)],
}


def pack_name(name):
    return b"".join(bytes([len(p)]) + p.encode() for p in name.split(".") if p) + b"\0"


class Names:
    """A name server: what it was asked is in .asked. answers: name -> addresses; ttl as given."""

    def __init__(self, ns, address="127.0.0.53", answers=None, ttl=30):
        self.answers, self.ttl, self.asked, self.tcp_asked = dict(NAMES if answers is None else answers), ttl, [], []
        self.mute, self.stopping = set(), False  # names that are not answered
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.udp = ns.inside(lambda: self._bind(family, socket.SOCK_DGRAM, address))
        self.tcp = ns.inside(lambda: self._bind(family, socket.SOCK_STREAM, address))
        for fn in (self._serve_udp, self._serve_tcp):
            threading.Thread(target=fn, daemon=True).start()

    @staticmethod
    def _bind(family, kind, address):
        s = socket.socket(family, kind)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((address, 53))
        if kind == socket.SOCK_STREAM:
            s.listen(16)
        return s

    def answer(self, query, room):
        end, labels = 12, []
        while query[end]:
            labels.append(query[end + 1:end + 1 + query[end]].decode())
            end += query[end] + 1
        end += 1
        name, kind = ".".join(labels).lower(), struct.unpack("!H", query[end:end + 2])[0]
        question = query[12:end + 4]
        self.asked.append((name, kind))
        if name in self.mute:
            return None
        known, records = name in self.answers, b""
        count = 0
        values = self.answers.get(name, [])
        owner = b"\xc0\x0c"
        if values and values[0].startswith("="):  # an alias
            target = pack_name(values[0][1:])
            records, count, owner = b"\xc0\x0c" + struct.pack("!HHIH", 5, 1, self.ttl, len(target)) + target, 1, target
            values = self.answers.get(values[0][1:], [])
        for a in values:
            family = socket.AF_INET6 if ":" in a else socket.AF_INET
            if kind != (28 if family == socket.AF_INET6 else 1):
                continue
            data = socket.inet_pton(family, a)
            records += owner + struct.pack("!HHIH", kind, 1, self.ttl, len(data)) + data
            count += 1
        flags = 0x8180 if known else 0x8183
        if 12 + len(question) + len(records) > room:
            return query[:2] + struct.pack("!HHHHH", flags | 0x200, 1, 0, 0, 0) + question
        return query[:2] + struct.pack("!HHHHH", flags, 1, count, 0, 0) + question + records

    def _serve_udp(self):
        while True:
            try:
                query, peer = self.udp.recvfrom(4096)
                answer = self.answer(query, 1232) if peer else None
                if answer is not None:
                    self.udp.sendto(answer, peer)
            except OSError:
                if self.stopping:
                    return

    def _serve_tcp(self):
        while True:
            try:
                c, _ = self.tcp.accept()
            except OSError:
                return
            threading.Thread(target=self._tcp_client, args=(c,), daemon=True).start()

    def _tcp_client(self, c):
        with c:
            try:
                head = c.recv(2, socket.MSG_WAITALL)
                query = c.recv(struct.unpack("!H", head)[0], socket.MSG_WAITALL)
                self.tcp_asked.append(query)
                answer = self.answer(query, 65535)
                c.sendall(struct.pack("!H", len(answer)) + answer)
            except (OSError, struct.error):
                pass

    def close(self):
        self.stopping = True
        for s in (self.udp, self.tcp):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()


def read_head(c):
    head = b""
    while b"\r\n\r\n" not in head:
        more = c.recv(1)
        if not more:
            return None
        head += more
    return head.decode()


def headers_of(head):
    lines = head.split("\r\n")[1:]
    return {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines if line)}


class Server:
    """Calls serve(connection, address it came to) for each connection, in a thread of its own."""

    def __init__(self, ns, address, port, serve, family=None):
        self.serve, self.seen, self.release = serve, [], threading.Event()

        def bind():
            kind = family if family is not None else socket.AF_INET6 if ":" in address else socket.AF_INET
            s = socket.socket(kind, socket.SOCK_STREAM)
            if kind != socket.AF_UNIX:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if kind == socket.AF_INET6:
                s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            s.bind(address if kind == socket.AF_UNIX else (address, port))
            s.listen(128)
            return s
        self.sock = ns.inside(bind) if ns is not None else bind()
        self.port = self.sock.getsockname()[1] if self.sock.family != socket.AF_UNIX else 0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            try:
                c, _ = self.sock.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=(c,), daemon=True).start()

    def _one(self, c):
        try:
            with c:
                self.serve(self, c)
        except (OSError, ssl.SSLError, ValueError):
            pass

    def close(self):
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.sock.close()


def http(name):
    """HTTP/1.1 with keep-alive: each answer says who served which host over which address."""
    def serve(server, c):
        while True:
            head = read_head(c)
            if head is None:
                return
            h = headers_of(head)
            left = int(h.get("content-length", 0))
            while left > 0:
                left -= len(c.recv(min(left, 65536)) or b"x" * left)
            try:
                here = c.getsockname()[0].removeprefix("::ffff:")
            except (OSError, IndexError):
                here = "?"
            server.seen.append((head, h))
            if h.get("upgrade") == "echo":
                c.sendall(b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
                while data := c.recv(65536):
                    c.sendall(data)
                return
            if head.split()[1] == "/slow":  # a long answer: half of it, and the rest when the test says so
                c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf")
                server.release.wait(30)
                c.sendall(b"rest")
                continue
            body = f"{name} {h.get('host')} {head.split()[1]} {here}\n".encode()
            c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    return serve


def greeting(_, c):
    """Speaks first, then says what it was told."""
    c.sendall(b"220 hello\r\n")
    line = c.recv(256)
    c.sendall(b"250 " + line)


def echo(_, c):
    while data := c.recv(65536):
        c.sendall(data)


class Handler(Server):
    """A client's handler: answers CONNECT with status, then serves HTTP (or what `then` is). What it was asked is in .asked."""

    def __init__(self, address, status=200, then=None, ns=None, port=0):
        self.status, self.then, self.asked, self.raw = status, then or http("handler"), [], None
        super().__init__(ns, address, port, type(self).handle, socket.AF_UNIX if address.startswith("/") else None)

    @staticmethod
    def handle(self, c):
        head = read_head(c)
        if head is None:
            return
        self.asked.append((head.split("\r\n")[0], headers_of(head)))
        if self.raw is not None:
            c.sendall(self.raw)
            c.recv(1)
            return
        if self.status is None:
            c.recv(1)  # never answers
            return
        c.sendall(f"HTTP/1.1 {self.status} x\r\n\r\n".encode())
        if self.status < 300:
            self.then(self, c)


class FakeNet:
    def __init__(self, t, dns="127.0.0.53", conf=None):
        self.t, self.closing = t, []
        self.host, self.far = Namespace("host"), Namespace("far")
        t.cleanups.append(self.close)
        h, f = self.host, self.far
        f.ip("link", "add", "far0", "type", "veth", "peer", "name", "up0", "netns", f"/proc/{os.getpid()}/fd/{h.fd}")
        for ns, dev, v4, v6 in ((h, "up0", HOST, HOST6), (f, "far0", "93.184.0.1", "2a00:1::1")):
            ns.ip("link", "set", dev, "up", "mtu", "1400")
            ns.ip("addr", "add", f"{v4}/24", "dev", dev)
            ns.ip("-6", "addr", "add", f"{v6}/64", "dev", dev, "nodad")
        h.ip("route", "add", "default", "via", "93.184.0.1")
        h.ip("-6", "route", "add", "default", "via", "2a00:1::1")
        for a in (ONE, TWO, METADATA, LAN):
            f.ip("addr", "add", f"{a}/32", "dev", "lo")
        f.ip("-6", "addr", "add", f"{SIX}/128", "dev", "lo", "nodad")
        self.dir = t.tmp if hasattr(t, "tmp") else os.path.dirname(t.write("resolv.conf", conf or f"nameserver {dns}\n"))
        mount(t.write("resolv.conf", conf or f"nameserver {dns}\n"), "/etc/resolv.conf", flags=0x1000)
        t.cleanups.append(lambda: umount("/etc/resolv.conf"))
        self.names = self.add(Names(h, dns))
        self.web = self.add(Server(f, "::", 80, http("far")))
        self.alt = self.add(Server(f, "::", 8080, http("far")))
        self.add(Server(f, "::", 25, greeting))
        self.add(Server(f, "::", 7, echo))

    def add(self, thing):
        self.closing.append(thing)
        return thing

    def authority(self):
        """A CA of the far side, and HTTPS at 443 and 8443 with its certificate. Returns the CA's file."""
        base = os.path.dirname(self.t.write("far.cnf", "[a]\nsubjectAltName=DNS:one.test,DNS:two.test,DNS:*.one.test,DNS:*.example.com,IP:8.8.8.8\n"))

        def run(*argv):
            subprocess.run(["openssl", *argv], cwd=base, check=True, capture_output=True, timeout=60)
        run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "fca.key", "-out", "fca.pem",
            "-days", "2", "-subj", "/CN=far authority")
        run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "far.key", "-out", "far.csr", "-subj", "/CN=far")
        run("x509", "-req", "-in", "far.csr", "-CA", "fca.pem", "-CAkey", "fca.key", "-CAcreateserial", "-days", "2", "-extfile", "far.cnf",
            "-extensions", "a", "-out", "far.pem")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.path.join(base, "far.pem"), os.path.join(base, "far.key"))

        def serve(server, c):
            with context.wrap_socket(c, server_side=True) as s:
                http("fars")(server, s)
        self.tls = self.add(Server(self.far, "::", 443, serve))
        self.add(Server(self.far, "::", 8443, serve))
        return os.path.join(base, "fca.pem")

    def close(self):
        for c in self.closing:
            c.close()
        self.host.close()
        self.far.close()


def host_programs(t):
    """A spec's part that shows the sandbox the host's programs (curl, git, python3, node, java) beside nothing else of the host."""
    base = os.path.join(os.path.dirname(t.write("rootfs.mark", "")), "rootfs")
    for d in ("usr", "etc", "tmp", "root", "proc", "dev", "sys", "run", "var"):
        os.makedirs(os.path.join(base, d), exist_ok=True)
    for link in ("bin", "sbin", "lib", "lib64"):
        if not os.path.islink(os.path.join(base, link)):
            os.symlink(f"usr/{link}", os.path.join(base, link))
    for name, text in (("passwd", "root:x:0:0::/root:/bin/sh\n"), ("group", "root:x:0:\n"), ("nsswitch.conf", "hosts: files dns\n")):
        with open(os.path.join(base, "etc", name), "w", encoding="ascii") as f:
            f.write(text)
    volumes = [{"source": "/usr", "target": "/usr", "readOnly": True}]
    for extra in ("/etc/ssl", "/etc/alternatives", "/etc/java-17-openjdk"):
        if os.path.isdir(extra):
            volumes.append({"source": extra, "target": extra, "readOnly": True})
    return {"rootfs": base, "volumes": volumes}
