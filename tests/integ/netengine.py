"""A daemon on a host of its own, and the calls of Docker's API by which tests put containers into networks."""
import os
import subprocess

import audit
from docker import IMAGE, load
from fakenet import ONE, FakeNet, Names
from harness import RIND
from netbox import resolv_conf
from netns import CLONE_NEWNET, World, _call, _libc, in_thread
from serve import Daemon

SERVE = ["sh", "-c", "while :; do hostname | nc -l -p 80; done"]


class Engine:
    """A daemon with the test's image on a host of its own (netns.py), and the calls of Docker's API that the tests make."""

    def __init__(self, t, *options, internet=False):
        self.t = t
        if internet:  # with a name server at 8.8.8.8
            self.w = FakeNet(t, conf=f"nameserver {ONE}\nsearch far.example\n")
            self.names = self.w.add(Names(self.w.far, ONE))
        else:
            self.w = World(t)
            resolv_conf(t, "nameserver 8.8.8.8\n")
        self.d = Daemon(t, *options, within=self.w.host.prefix)

    def __enter__(self):
        self.d.__enter__()
        load(self.t, self.d)
        return self

    def __exit__(self, *a):
        return self.d.__exit__(*a)

    def ok(self, method, path, body=None, status=(200, 201, 204)):
        r = self.d.request(method, path, body) if body is None else self.d.post(path, body)
        self.t.need(r.status in status, f"{method} {path}: {r}; log: {self.d.text()[-800:]}")
        return r.json if r.body else None

    def network(self, name, **more):
        return self.ok("POST", "/networks/create", {"Name": name, **more})["Id"]

    def create(self, name, network=None, cmd=None, **more):
        host = {"NetworkMode": network} if network else {}
        return self.ok("POST", f"/containers/create?name={name}", {"Image": IMAGE, "Cmd": cmd or SERVE, "HostConfig": {**host, **more.pop("HostConfig", {})}, **more})["Id"]

    def run(self, name, network=None, **more):
        box = self.create(name, network, **more)
        self.ok("POST", f"/containers/{name}/start")
        return box

    def connect(self, network, name, **endpoint):
        return self.d.post(f"/networks/{network}/connect", {"Container": name, "EndpointConfig": endpoint})

    def disconnect(self, network, name):
        return self.d.post(f"/networks/{network}/disconnect", {"Container": name, "Force": False})

    def sh(self, name, script):
        r = self.d.post(f"/v1/sandboxes/{name}/exec", {"argv": ["/bin/sh", "-c", script]})
        self.t.need(r.status == 200, f"exec in {name}: {r}")
        return r.json["stdout"] + r.json["stderr"]

    def asks(self, name, host):
        """The addresses that the name server has for a name."""
        text = self.sh(name, f"busybox nslookup -type=a {host}. 2>&1")  # with the dot it looks in no search domain
        lines = text.partition("\n\n")[2].splitlines()
        return sorted(line.split()[-1] for line in lines if line.startswith("Address"))

    def namespace(self, name):
        """A descriptor of a container's net namespace."""
        inside = self.sh(name, "readlink /proc/self/ns/net").strip()
        return next(fd for fd in (self.opened(pid, inside) for pid in audit.descendants(self.d.proc.pid)) if fd is not None)

    def inside(self, name, fn):
        """Calls fn in the net namespace of a container: with Python's sockets, which its image has not."""
        fd = self.namespace(name)

        def run():
            _call(_libc.setns, fd, CLONE_NEWNET)
            return fn()
        try:
            return in_thread(run)
        finally:
            os.close(fd)

    @staticmethod
    def opened(pid, inside):
        """A descriptor of the process's net namespace, if it is that one."""
        try:
            return os.open(f"/proc/{pid}/ns/net", os.O_RDONLY) if os.readlink(f"/proc/{pid}/ns/net") == inside else None
        except OSError:
            return None

    def rind(self, *argv):
        """(status, output) of the command line."""
        p = subprocess.run([RIND, *argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "RIND_SOCKET": self.d.socket}, check=False, timeout=60)
        return p.returncode, p.stdout.decode()

    def reaches(self, name, host):
        """What the server of another container says: its host name."""
        return self.sh(name, f"nc -w 3 {host} 80 </dev/null 2>/dev/null").strip()

    def address(self, name, network):
        return self.ok("GET", f"/containers/{name}/json")["NetworkSettings"]["Networks"][network]["IPAddress"]

    def networks(self, name):
        return sorted(self.ok("GET", f"/containers/{name}/json")["NetworkSettings"]["Networks"])
