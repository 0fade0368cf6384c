"""What tests of sandboxes' networks do alike: a daemon within namespaces of the test's own (netns.py), its sandboxes, and what they
reach; that nothing of it is left on the host."""
import json
import os
import re
import signal

import audit
from harness import RIND, by_load, mount, poll_until, umount
from netns import World
from serve import Daemon

REFUSED = {"ECONNREFUSED", "EHOSTUNREACH", "EACCES", "ENETUNREACH"}  # at once; what is dropped is "timeout" or "silent"


def world(t, *options, conf="nameserver 8.8.8.8\n"):
    """The namespaces and a daemon in them, whose host asks this name server."""
    w = World(t)
    resolv_conf(t, conf)
    d = Daemon(t, *options, within=w.host.prefix)
    return w, d


def resolv_conf(t, text):
    """What the daemon's host has as /etc/resolv.conf: a mount in this program's own mount namespace."""
    mount(t.write("resolv.conf", text), "/etc/resolv.conf", flags=0x1000)
    t.cleanups.append(lambda: umount("/etc/resolv.conf"))


def box(d, name, network, *command, **spec):
    return d.create(name=name, network=network, command=list(command) or ["/bin/payload", "sleep"], start=True, **spec)


def run(d, name, *argv, **env):
    r = d.post(f"/v1/sandboxes/{name}/exec", {"argv": ["/bin/payload", *argv], "env": env})
    d.t.need(r.status == 200, f"exec {argv} in {name}: {r}")
    return r.json["stdout"]


def patient():
    """How many milliseconds `payload reach` waits for an answer: what is dropped is told by that alone."""
    return str(round(by_load(700)))


def reach(d, name, *targets):
    """target -> what came of it, from inside."""
    return json.loads(run(d, name, "reach", *targets, WAIT_MS=patient()))


def read(d, name, path):
    r = d.get(f"/v1/sandboxes/{name}/files?path={path}")
    d.t.need(r.status == 200, f"read {path}: {r}")
    return r.body.decode()


def address(d, name):
    return d.get(f"/v1/sandboxes/{name}").json["addresses"]["ipv4"]


def gateway(ip):
    head, _, last = ip.rpartition(".")
    return f"{head}.{int(last) - 1}"


def nothing_left(t, w):
    """The host has no rule and no link of ours, and forwards no more than before."""
    # The kernel takes net namespaces down one after the other, those of others on this machine included.
    t.check(poll_until(lambda: "rind-" not in w.host.ip("-o", "link"), 90), "links left behind: " + w.host.ip("-o", "link"))
    t.check("table inet rind" not in w.host.run("nft", "list", "tables"), "the table was left behind")
    t.equal(w.host.sysctl("ipv4/conf/up0/forwarding"), "0", "forwarding of the uplink at the end")
    t.equal(w.host.sysctl("ipv4/ip_forward"), "0", "ip_forward")
    t.equal(w.host.ip("route", "show", "proto", "114") + w.host.ip("-6", "route", "show", "proto", "114"), "", "routes left behind")


def process_of(d, name):
    """A process of ours that is in the sandbox's net namespace, and surely in no other."""
    inside = json.loads(run(d, name, "facts"))["ns"]["net"]
    for pid in audit.descendants(d.proc.pid):
        try:
            if os.readlink(f"/proc/{pid}/ns/net") == inside:
                return pid
        except OSError:
            continue
    raise AssertionError(f"no process in {inside}")


def link_of(w, ip):
    return re.search(r"dev (\S+)", w.host.ip("route", "get", ip)).group(1)


def crash(d):
    """kill -9 of launcher and supervisor; what they made stays."""
    for pid in list(audit.descendants(d.proc.pid)) + [d.proc.pid]:
        if "serve" in audit.read(f"/proc/{pid}/cmdline"):
            os.kill(pid, signal.SIGKILL)
    d.proc.wait()


def kill_inits(t):
    """kill -9 of each sandbox's init, while no daemon runs."""
    for pid in [pid for pid, text in audit.descendants().items() if text.split(" ")[0] == "rind-init"]:
        os.kill(pid, signal.SIGKILL)
    t.check(poll_until(lambda: audit.gone("rind-init"), 10), "inits that do not end")


def doctor(w, name):
    """What `rind doctor` in the host's namespace says of a check."""
    r = json.loads(w.host.run(RIND, "doctor", "--json", check=False))
    return next(c for c in r["checks"] if c["name"] == name)
