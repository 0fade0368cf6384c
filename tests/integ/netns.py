"""A small world of net namespaces of a test's own: a host for the daemon, and everything that a host may have around it.

    far: the internet (8.8.8.8, 2a02:8::8), a metadata address in every spelling, a LAN neighbour - one namespace
     | up0 93.184.0.2/24, 2a00:1::2/64, default routes
    host: where rind works; services on 127.0.0.1:5555 and on all addresses at 5556

The machine's own network is never touched. Servers are threads of the test that are in these namespaces.
"""
import ctypes
import os
import socket
import struct
import subprocess
import threading

from harness import by_load
from isolate import forget_the_machine

_libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
ETH_P_ALL = 3

INTERNET = ["8.8.8.8", "9.9.9.9"]
INTERNET6 = "2a02:8::8"
PRIVATE = ["10.0.0.99", "192.168.7.7", "172.16.5.5", "100.100.100.200", "169.254.169.254", "168.63.129.16", "198.18.0.9"]
PRIVATE6 = ["fd00:ec2::254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "fec0::9"]
HOST = "93.184.0.2"
HOST6 = "2a00:1::2"
NEIGHBOUR = "93.184.0.1"


def _call(fn, *args):
    if fn(*args) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def in_thread(fn):
    """Calls fn in a thread of its own, whose namespace is then its own affair, and returns what it does."""
    found, problem = [], []

    def run():
        try:
            found.append(fn())
        except BaseException as e:  # pylint: disable=broad-except
            problem.append(e)

    t = threading.Thread(target=run)
    t.start()
    t.join()
    if problem:
        raise problem[0]
    return found[0]


class Namespace:
    """A net namespace, held by a descriptor."""

    def __init__(self, name):
        self.name, self.stopping, self.threads, self.sockets = name, False, [], []

        def make():
            _call(_libc.unshare, CLONE_NEWNET)
            forget_the_machine()
            self.fd = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

        in_thread(make)
        self.ip("link", "set", "lo", "up")

    def inside(self, fn):
        """Calls fn in the namespace."""
        def run():
            _call(_libc.setns, self.fd, CLONE_NEWNET)
            return fn()
        return in_thread(run)

    @property
    def prefix(self):
        return ["nsenter", f"--net=/proc/{os.getpid()}/fd/{self.fd}"]

    def run(self, *argv, check=True, stdin=None):
        p = subprocess.run([*self.prefix, *argv], input=stdin, capture_output=True, text=True, timeout=20, check=False)
        if check and p.returncode != 0:
            raise AssertionError(f"{self.name}: {' '.join(argv)}: {p.stderr}")
        return p.stdout

    def ip(self, *argv):
        return self.run("ip", *argv)

    def sysctl(self, name, value=None):
        def fn():
            with open("/proc/sys/net/" + name, "r+" if value is not None else "r", encoding="ascii") as f:
                if value is None:
                    return f.read().strip()
                return f.write(str(value))
        return self.inside(fn)

    def serve(self, port, text, address="::", kind=socket.SOCK_STREAM):
        """Answers every connection, or datagram, with the text, a space, and the address that it came from."""
        def bind():
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            s = socket.socket(family, kind)
            if family == socket.AF_INET6:
                s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind((address, port))
            if kind == socket.SOCK_STREAM:
                s.listen(128)
            return s

        s = self.inside(bind)
        self.sockets.append(s)

        def answer(peer):
            return f"{text} {peer[0].removeprefix('::ffff:')}".encode()

        def run():
            while True:
                try:
                    if kind == socket.SOCK_DGRAM:
                        _, peer = s.recvfrom(2048)
                        if peer:  # shutdown() wakes it, too
                            s.sendto(answer(peer), peer)
                    else:
                        c, peer = s.accept()
                        with c:
                            c.sendall(answer(peer))
                except OSError:
                    if self.stopping:
                        return

        t = threading.Thread(target=run, daemon=True)
        t.start()
        self.threads.append(t)

    def connect(self, address, port, seconds=0.5):
        """What a TCP connection from here gets: the first bytes, or the error's name."""
        def fn():
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            with socket.socket(family, socket.SOCK_STREAM) as s:
                s.settimeout(by_load(seconds))
                try:
                    s.connect((address, port))
                    return s.recv(256).decode()
                except TimeoutError:
                    return "timeout"
                except OSError as e:
                    return os.strerror(e.errno)
        return self.inside(fn)

    def close(self):
        self.stopping = True
        for s in self.sockets:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()
        os.close(self.fd)


class Sniffer:
    """Every IP packet that arrives at an interface, as (version, source, destination, protocol), without a program."""

    def __init__(self, ns, ifname):
        def fn():
            s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
            s.bind((ifname, ETH_P_ALL))
            s.settimeout(0)
            return s
        self.sock = ns.inside(fn)

    def packets(self):
        """Those since the last call that came in (what left does not count)."""
        found = []
        while True:
            try:
                data, where = self.sock.recvfrom(2048)
            except BlockingIOError:
                return found
            if where[2] == socket.PACKET_OUTGOING or not data:
                continue
            if data[0] >> 4 == 4:
                found.append((4, socket.inet_ntoa(data[12:16]), socket.inet_ntoa(data[16:20]), data[9]))
            elif data[0] >> 4 == 6:
                found.append((6, socket.inet_ntop(socket.AF_INET6, data[8:24]), socket.inet_ntop(socket.AF_INET6, data[24:40]), data[6]))

    def close(self):
        self.sock.close()


def send_raw(where, source, dest):
    """A UDP packet to port 9 with a forged source, from the interface of a process's namespace, or of one that is open here: what
    only the host's root can."""
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 29, 1, 0, 64, 17, 0, socket.inet_aton(source), socket.inet_aton(dest))
    total = sum(struct.unpack("!10H", header))
    total = (total & 0xffff) + (total >> 16)
    total = ~((total & 0xffff) + (total >> 16)) & 0xffff
    packet = header[:10] + struct.pack("!H", total) + header[12:] + struct.pack("!HHHH", 9, 9, 9, 0) + b"x"
    fd = os.open(where if isinstance(where, str) else f"/proc/{where}/ns/net", os.O_RDONLY)

    def run():
        _call(_libc.setns, fd, CLONE_NEWNET)
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as s:
            s.bind(("eth0", 0))
            mac = s.getsockname()[4]
            s.send(mac + mac + b"\x08\x00" + packet)

    try:
        in_thread(run)
    finally:
        os.close(fd)


class World:
    """The host and what is around it, for one test."""

    def __init__(self, t):
        self.host, self.far = Namespace("host"), Namespace("far")
        t.cleanups.append(self.close)
        h, f = self.host, self.far
        f.ip("link", "add", "far0", "type", "veth", "peer", "name", "up0", "netns", f"/proc/{os.getpid()}/fd/{h.fd}")
        for ns, dev, v4, v6 in ((h, "up0", HOST, HOST6), (f, "far0", NEIGHBOUR, "2a00:1::1")):
            ns.ip("link", "set", dev, "up", "mtu", "1400")
            ns.ip("addr", "add", f"{v4}/24", "dev", dev)
            ns.ip("-6", "addr", "add", f"{v6}/64", "dev", dev, "nodad")
        h.ip("route", "add", "default", "via", NEIGHBOUR)
        h.ip("-6", "route", "add", "default", "via", "2a00:1::1")
        for a in INTERNET + PRIVATE:
            f.ip("addr", "add", f"{a}/32", "dev", "lo")
        for a in [INTERNET6, *PRIVATE6]:
            f.ip("-6", "addr", "add", f"{a}/128", "dev", "lo", "nodad")
        for port in (80, 443, 8080):
            f.serve(port, f"far{port}")
        f.serve(53, "dns")
        for a in [*INTERNET, *PRIVATE, INTERNET6]:  # each by itself: an answer has to come from where it was asked
            f.serve(53, "dns", a, kind=socket.SOCK_DGRAM)
        h.serve(5555, "local", "127.0.0.1")
        h.serve(5556, "host")

    def close(self):
        self.host.close()
        self.far.close()
