"""Many clients, few sandboxes, any verb at any time: each request is answered soon, with what it asked for or with why not."""
import random
import threading
import time

from harness import wait_for
from serve import Daemon

MAIN = ["/bin/sh", "-c", "trap 'exit 33' TERM; while :; do sleep 0.05; done"]
SLOWEST = 20  # seconds for any one request, on any machine
STABLE = ("created", "running", "paused", "stopped")
CODES = {137, 143, 33}  # of what is killed, or stopped, by another client


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
            except Exception as e:  # pylint: disable=broad-except
                self.crowd.t.fail(f"{verb.__name__} {name}: {e!r}")

    def ask(self, statuses, method, path, body=None):
        """404 and 409 are always answers: somebody else was first."""
        r = self.crowd.d.request(method, path, body, seconds=SLOWEST)
        self.crowd.count(r.status)
        ending = r.status == 503 and r.error[0] == "ENOMEM" and "the sandbox is about to end" in r.error[1]
        if r.status not in statuses + (404, 409) and not ending:
            self.crowd.t.fail(f"{method} {path} {body}: {r}")
        return r

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


class Crowd:
    def __init__(self, t, d, seconds, clients, seed):
        self.t, self.d, self.seed, self.names = t, d, seed, [f"v{i}" for i in range(4)]
        self.end, self.lock, self.statuses = time.monotonic() + seconds, threading.Lock(), {}
        self.clients = [Client(self, i) for i in range(clients)]

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
            time.sleep(0.02)
        # Who has something executed in a sandbox that another one has paused waits until somebody resumes it.
        if not wait_for(lambda: not any(c.is_alive() for c in self.clients) or self.resume_all(), 2 * SLOWEST, 0.1):
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
        t.check(wait_for(crowd.settled, 15), f"states: {d.get('/v1/sandboxes').json['sandboxes']}")
        for name in crowd.names:
            d.delete(f"/v1/sandboxes/{name}?force=true")
            t.equal(d.post("/v1/sandboxes", {"name": name, "command": MAIN, "start": True}).status, 201, f"{name} again")
            t.equal(d.post(f"/v1/sandboxes/{name}/exec", {"cmd": "exit 3"}).json["exitCode"], 3, f"{name} works")
        if t.problems:
            t.fail(f"log: {d.text()[-2000:]}")
