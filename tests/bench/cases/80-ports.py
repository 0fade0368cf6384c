"""Bytes through a published port: beside a connection without anything in between, and docker-proxy. The CPU time is that of the
process in between, in ticks of 10 ms; the receiver's and the sender's own are the same for all.

docker-proxy gets the receiver on the host's loopback, which spares it Docker's bridge and firewall."""
import json
import os
import shutil
import socket
import subprocess
import time

from benchlib import Case, Reach, Series, Skip
from engines import DOCKER_DIRS, Rind, cpu_seconds, engine

MIB = 512  # a batch, over all of its connections
CONNS = (1, 32)
SHORT = 300  # connections a batch
PORT = 19080
READY = 20


def found(name):
    return shutil.which(name, path=":".join(DOCKER_DIRS + ["/usr/sbin", "/usr/bin"]))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(address):
    end = time.monotonic() + READY
    while True:
        try:
            with socket.create_connection(address, 1) as s:
                s.sendall(b"x")
                if s.recv(1) == b"y":
                    return
        except OSError:
            pass
        if time.monotonic() > end:
            raise RuntimeError(f"nobody answers at {address}")
        time.sleep(0.02)


class Way:
    """One way to the receiver: its address, and whose CPU time it costs."""

    def __init__(self, ctx, name):
        self.ctx, self.name, self.procs = ctx, name, []
        self.address, self.pids = None, []
        ctx.cleanups.append(self.stop)

    def run(self, *argv, **kw):
        p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             start_new_session=True, **kw)
        self.procs.append(p)
        return p

    def stop(self):
        for p in reversed(self.procs):
            p.terminate()
            try:
                p.wait(5)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
        self.procs = []


def direct(ctx, way, load):
    way.address = ("127.0.0.1", free_port())
    way.run(load, "sink", "127.0.0.1", str(way.address[1]))


def rind(ctx, way, load):
    shutil.copy(load, os.path.join(ctx.root, "bin", "port-load"))
    e = engine(ctx, Rind)
    status, body = e.request("POST", "/v1/sandboxes", json.dumps({
        "rootfs": ctx.root, "start": True, "command": ["/bin/port-load", "sink", "127.0.0.1", str(PORT)], "ports": [{"port": PORT}]}),
        {"Content-Type": "application/json"})
    if status != 201:
        raise RuntimeError(f"create: {status} {body[:300]!r}")
    way.address = ("127.0.0.1", json.loads(body)["ports"][0]["hostPort"])
    way.pids = e.daemons()


def docker_proxy(ctx, way, load):
    proxy = found("docker-proxy")
    if not proxy:
        raise Skip("no docker-proxy here; scripts/deps docker brings it")
    inner = free_port()
    way.run(load, "sink", "127.0.0.1", str(inner))
    way.address = ("127.0.0.1", free_port())
    # It tells over descriptor 3 that it listens.
    p = way.run("sh", "-c", 'exec "$0" "$@" 3>/dev/null', proxy, "-proto", "tcp", "-host-ip", "127.0.0.1", "-host-port",
                str(way.address[1]), "-container-ip", "127.0.0.1", "-container-port", str(inner))
    way.pids = [p.pid]


WAYS = {"rind": rind, "docker-proxy": docker_proxy, "direct": direct}


def label(who, what):
    return f"port, {who}: {what}"


def series(who):
    result = []
    for conns in CONNS:
        what = f"{conns} connection{'s' * (conns > 1)}"
        peer = label("docker-proxy", what) if who != "docker-proxy" else None
        result.append(Series(label(who, what + ", time for 1 GiB"), unit="ms", peer=peer and peer + ", time for 1 GiB",
                             reach=Reach(ratio=1.0) if who == "rind" else None))
        if who != "direct":
            result.append(Series(label(who, what + ", CPU for 1 GiB"), unit="ms", peer=peer and peer + ", CPU for 1 GiB",
                                 reach=Reach(ratio=0.5) if who == "rind" else None))
    result.append(Series(label(who, "connect, a byte and back, close"), peer=label("direct", "connect, a byte and back, close") if who != "direct" else None))
    return result


def port_case(ctx, who):
    way = Way(ctx, who)
    load = ctx.build("port-load", ["port-load.c"], musl=True)
    WAYS[who](ctx, way, load)
    wait_for(way.address)
    mib = MIB  # also for a first look: the CPU time is counted in ticks

    def batch(_):
        result = {}
        host, port = way.address[0], str(way.address[1])
        for conns in CONNS:
            what = f"{conns} connection{'s' * (conns > 1)}"
            before = cpu_seconds(way.pids)
            ns = ctx.samples([load, "bulk", host, port, str(conns), str(mib)])[0][0]
            cpu = cpu_seconds(way.pids) - before
            result[label(who, what + ", time for 1 GiB")] = [ns / 1e6 * 1024 / mib]
            if who != "direct":
                result[label(who, what + ", CPU for 1 GiB")] = [cpu * 1e3 * 1024 / mib]
        result[label(who, "connect, a byte and back, close")] = [n / 1e3 for n in ctx.samples([load, "short", host, port, str(SHORT)])[0]]
        return result

    return Case(series(who), batch)


def cases(ctx):
    made = []
    for who in WAYS:
        try:
            made.append(port_case(ctx, who))
        except Skip as e:
            print(f"port, {who}: {e}")
    return made
