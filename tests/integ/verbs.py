"""Many clients, few sandboxes, any verb at any time: each request is answered soon, with what it asked for or with why not.

    verbs(t, 5)        # seconds
    mortal(t, 8)       # kill -9 of the daemon, its helpers and inits meanwhile; sandboxes with restart policies, volumes, joined networks

Who asks for what is fixed by the seed; what meets what is up to the machine.
"""
import os
import random
import signal
import threading
import time

import audit
from exec_client import supervisor
from harness import pause, poll_until
from serve import Daemon

MAIN = ["/bin/sh", "-c", "trap 'exit 33' TERM; while :; do sleep 0.05; done"]
FAIL = ["/bin/sh", "-c", "sleep 0.1; exit 3"]
SLOWEST = 20  # seconds for any one request, on any machine
AWAY = (ConnectionError, FileNotFoundError, BrokenPipeError)  # what a client sees of a daemon that has died
STABLE = ("created", "running", "paused", "stopped")
CODES = {137, 143, 33, 3}  # of what is killed, or stopped, by another client; and FAIL's own


class Client(threading.Thread):
    def __init__(self, crowd, number):
        super().__init__()
        self.crowd, self.rng = crowd, random.Random(crowd.seed * 100 + number)
        self.verbs = (self.create, self.create, self.begin, self.begin, self.stop, self.execute, self.execute, self.execute, self.pause,
                      self.resume, self.resume, self.remove, self.inspect, self.process, self.logs, self.signal, self.wait, self.write)

    def run(self):
        while time.monotonic() < self.crowd.end and not self.crowd.t.problems:
            name = self.rng.choice(self.crowd.names)
            verb = self.rng.choice(self.verbs)
            try:
                verb(name, f"/v1/sandboxes/{name}")
            except Cut:
                pass
            except Exception as e:  # pylint: disable=broad-except
                self.crowd.t.fail(f"{verb.__name__} {name}: {e!r}")

    def ask(self, statuses, method, path, body=None):
        """404 and 409 are always answers: somebody else was first."""
        r = self.crowd.d.request(method, path, body, seconds=SLOWEST)
        self.crowd.count(r.status)
        if r.status not in statuses + (404, 409) and not self.excused(r):
            self.crowd.t.fail(f"{method} {path} {body}: {r}")
        return r

    def excused(self, r):
        return r.status == 503 and r.error[0] == "ENOMEM" and "the sandbox is about to end" in r.error[1]

    def create(self, name, path):
        self.ask((201, 204), "POST", "/v1/sandboxes", {"name": name, "command": MAIN, "start": self.rng.random() < 0.8})

    def begin(self, name, path):
        self.ask((200, 204), "POST", f"{path}/start")

    def stop(self, name, path):
        self.ask((200, 204), "POST", f"{path}/stop", {"timeoutMs": self.rng.choice((0, 100, 5000))})

    def execute(self, name, path):
        code = self.rng.randrange(1, 120)
        r = self.ask((200,), "POST", f"{path}/exec", {"cmd": f"exit {code}"})
        if r.status == 200 and r.json["exitCode"] not in CODES | {code}:
            self.crowd.t.fail(f"'exit {code}': {r}")

    def pause(self, name, path):
        self.ask((200, 204), "POST", f"{path}/pause")

    def resume(self, name, path):
        self.ask((200, 204), "POST", f"{path}/resume")

    def remove(self, name, path):
        self.ask((204,), "DELETE", f"{path}?force={self.rng.choice(('true', 'false'))}")

    def inspect(self, name, path):
        self.ask((200,), "GET", path)

    def process(self, name, path):
        self.ask((201,), "POST", f"{path}/processes", {"argv": ["true"], "id": f"p{self.rng.randrange(3)}"})

    def logs(self, name, path):
        self.ask((200,), "GET", f"{path}/processes/p{self.rng.randrange(3)}/logs")

    def signal(self, name, path):
        self.ask((204,), "POST", f"{path}/signal", {"signal": self.rng.choice(("TERM", "KILL", "USR1"))})

    def wait(self, name, path):
        r = self.ask((200, 504), "GET", f"{path}/wait?timeoutMs={self.rng.randrange(300)}")
        # USR1 ends a shell that has no trap for it; 125: killed while it was about to start.
        if r.status == 200 and r.json["exitCode"] not in CODES | {125, 138}:
            self.crowd.t.fail(f"wait: {r}")

    def write(self, name, path):
        self.ask((200, 201, 204), "PUT", f"{path}/files?path=/tmp/x", b"x")


class Mortal(Client):
    """A client of a daemon that dies: what that cuts off is nobody's fault, and all else is."""

    def __init__(self, crowd, number):
        super().__init__(crowd, number)
        self.verbs += (self.create, self.begin, self.restart, self.restart, self.read, self.volume)

    def ask(self, statuses, method, path, body=None):
        self.crowd.up.wait(SLOWEST)
        try:
            return super().ask(statuses + (502,), method, path, body)
        except AWAY:
            pass
        except AssertionError as e:
            if "closed" not in str(e):
                raise
        self.crowd.count("cut off")
        raise Cut

    def excused(self, r):
        """Nor is a start whose init was killed on its way: whoever waits for it is told so."""
        killed = r.status == 500 and r.error[0] == "ECHILD" and "start sandbox: killed by signal 9 during" in r.error[1]
        return killed or super().excused(r)

    def create(self, name, path):
        spec = {"name": name, "command": self.rng.choice((MAIN, MAIN, FAIL)), "start": self.rng.random() < 0.8}
        if self.rng.random() < 0.5:
            spec["restart"] = self.rng.choice(({"policy": "always"}, {"policy": "unless-stopped"}, {"policy": "on-failure", "maxRetries": 2}))
        elif self.rng.random() < 0.3:
            spec["autoRemove"] = True
        if self.rng.random() < 0.3:
            spec["network"] = {"container": self.rng.choice(self.crowd.names)}
        if self.rng.random() < 0.2:
            spec["volumes"] = [{"source": f"vol{self.rng.randrange(2)}", "target": "/vol"}]
        self.ask((201,), "POST", "/v1/sandboxes", spec)

    def restart(self, name, path):
        self.ask((200,), "POST", f"{path}/restart", {"timeoutMs": self.rng.choice((0, 100))})

    def read(self, name, path):
        self.ask((200,), "GET", f"{path}/files?path=/etc/passwd")

    def volume(self, name, path):
        if self.rng.random() < 0.5:
            self.ask((201,), "POST", "/v1/volumes", {"name": f"vol{self.rng.randrange(2)}"})
        else:
            self.ask((204,), "DELETE", f"/v1/volumes/vol{self.rng.randrange(2)}")


class Cut(Exception):
    """The daemon died before it answered."""


class Crowd:
    def __init__(self, t, d, seconds, clients, seed, kind=Client):
        self.t, self.d, self.seed, self.names = t, d, seed, [f"v{i}" for i in range(4)]
        self.end, self.lock, self.statuses = time.monotonic() + seconds, threading.Lock(), {}
        self.up, self.kills = threading.Event(), 0
        self.up.set()
        self.clients = [kind(self, i) for i in range(clients)]

    def count(self, status):
        with self.lock:
            self.statuses[status] = self.statuses.get(status, 0) + 1

    def run(self):
        """Meanwhile the list is asked for, again and again; the longest that it took."""
        slowest = 0
        for c in self.clients:
            c.start()
        while time.monotonic() < self.end:
            begin = time.monotonic()
            r = self.d.get("/v1/sandboxes")
            slowest = max(slowest, time.monotonic() - begin)
            self.t.equal(r.status, 200, "the list")
            pause(0.02, "the list is asked for now and then")
        # Who has something executed in a sandbox that another one has paused waits until somebody resumes it.
        if not poll_until(lambda: not any(c.is_alive() for c in self.clients) or self.resume_all(), 2 * SLOWEST, 0.1):
            self.t.fail("a client waits for ever")
        return slowest

    def resume_all(self):
        for name in self.names:
            self.d.post(f"/v1/sandboxes/{name}/resume")

    def settled(self):
        return all(s["state"] in STABLE for s in self.d.get("/v1/sandboxes").json["sandboxes"])


def verbs(t, seconds, clients=32, seed=1):
    with Daemon(t) as d:
        crowd = Crowd(t, d, seconds, clients, seed)
        slowest = crowd.run()
        print(f"# {sum(crowd.statuses.values())} requests, statuses {dict(sorted(crowd.statuses.items()))}, the list in at most {slowest:.2f} s")
        t.check(slowest < 5, f"the list took {slowest:.1f} s")
        t.check(poll_until(crowd.settled, 15), f"states: {d.get('/v1/sandboxes').json['sandboxes']}")
        for name in crowd.names:
            d.delete(f"/v1/sandboxes/{name}?force=true")
            t.equal(d.post("/v1/sandboxes", {"name": name, "command": MAIN, "start": True}).status, 201, f"{name} again")
            t.equal(d.post(f"/v1/sandboxes/{name}/exec", {"cmd": "exit 3"}).json["exitCode"], 3, f"{name} works")
        if t.problems:
            t.fail(f"log: {d.text()[-2000:]}")


class Killer:
    """Ends supervisor, launcher, both, or any one of their helpers or of the sandboxes' inits."""

    def __init__(self, crowd):
        self.crowd, self.d, self.rng = crowd, crowd.d, random.Random(crowd.seed)

    def strike(self):
        if self.rng.random() < 0.4:
            others = [pid for pid, text in audit.descendants().items() if text.startswith("rind-")]
            others += [pid for pid in audit.descendants(self.d.proc.pid) if pid != supervisor(self.d)]
            self.kill(others and [self.rng.choice(sorted(others))])
            return
        both = [supervisor(self.d), self.d.proc.pid]
        self.crowd.up.clear()
        self.kill(self.rng.choice((both[:1], both[1:], both, both[::-1])))
        self.d.proc.wait(SLOWEST)
        self.crowd.kills += 1
        if self.rng.random() < 0.2:
            self.d.start_and_kill(self.rng.uniform(0, 0.15))
        self.d.start()
        self.crowd.up.set()

    @staticmethod
    def kill(pids):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def run(self):
        for c in self.crowd.clients:
            c.start()
        while time.monotonic() < self.crowd.end and not self.crowd.t.problems:
            pause(self.rng.uniform(0, 0.8), "the moment of its death is chosen at random")
            self.strike()
        if not poll_until(lambda: not any(c.is_alive() for c in self.crowd.clients) or self.crowd.resume_all(), 2 * SLOWEST, 0.1):
            self.crowd.t.fail("a client waits for ever")


def mortal(t, seconds, clients=12, seed=1):
    """What there is afterwards settles, can be removed, and leaves nothing."""
    with Daemon(t) as d:
        crowd = Crowd(t, d, seconds, clients, seed, Mortal)
        Killer(crowd).run()
        print(f"# {crowd.kills} deaths, statuses {dict(sorted(crowd.statuses.items(), key=str))}")

        def settled():
            return all(s["state"] in STABLE + ("broken",) for s in d.get("/v1/sandboxes").json["sandboxes"])

        t.check(poll_until(settled, SLOWEST, 0.1), f"states: {d.get('/v1/sandboxes').json['sandboxes']}")
        for name in crowd.names:
            begin = time.monotonic()
            r = d.delete(f"/v1/sandboxes/{name}?force=true", seconds=SLOWEST)
            t.check(r.status in (204, 404), f"{name} is removed: {r}, after {time.monotonic() - begin:.1f} s")
        for v in d.get("/v1/volumes").json["volumes"]:
            r = d.delete(f"/v1/volumes/{v['name']}")
            t.check(r.status == 204, f"volume {v['name']} is removed: {r}")
        for part in ("sandboxes", "supervisor/sandboxes", "volumes"):
            tree = os.path.join(t.state, part)
            t.check(poll_until(lambda tree=tree: not os.listdir(tree), SLOWEST, 0.1), f"{part}: {os.listdir(tree)}")
        for name in crowd.names:
            t.equal(d.post("/v1/sandboxes", {"name": name, "command": MAIN, "start": True}).status, 201, f"{name} again")
            t.equal(d.post(f"/v1/sandboxes/{name}/exec", {"cmd": "exit 3"}).json["exitCode"], 3, f"{name} works")
        if t.problems:
            t.fail(f"log: {d.text()[-6000:]}")
