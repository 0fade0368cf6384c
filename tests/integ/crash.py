"""kill -9 of the daemon at random instants while it is worked with, and what must be true afterwards.

    crash_loop(t, seed=1, kills=20)

Some clients create, start, run, stop and delete; a killer ends supervisor, launcher or both, and starts the daemon again,
sometimes only to kill it before it is ready. One
sandbox stays throughout: its background process writes numbered lines, a shell on a terminal is attached to after each crash,
and short execs that are kept end whenever they end. Every command ends with a status that is not 0 and that its client knows, so
that an invented one shows. The seed fixes what is asked and when the next kill comes; what it hits is up to the machine.
"""
import os
import random
import signal
import threading
import time

from exec_client import LIMIT, STDIN, Upgraded, descriptors, supervisor
from harness import pause, poll_until
from serve import Daemon

MAIN = ["/bin/sh", "-c", "trap 'exit 33' TERM; while :; do sleep 0.05; done"]
# Once the main process catches TERM (signal 15): before, a process 1 ignores it.
ARMED = "while ! grep -q '^SigCgt:.*[4567cdef]...$' /proc/1/status; do sleep 0.01; done; exit 1"
COUNTER = "i=0; while [ ! -e /stop ]; do i=$((i+1)); echo $i; echo e$i >&2; [ $((i % 20)) = 0 ] && sleep 0.02; done; exit 42"
STABLE = ("created", "running", "paused", "stopped")
CONTROL_WAIT = 15  # seconds for what a crash has interrupted to be carried on


class Gone(Exception):
    """The daemon died before it answered."""


class Lost(Exception):
    """The worker has seen something wrong, and has said so."""


class Client:
    """Requests of one thread, and the daemon's deaths in between."""

    def __init__(self, loop, name, seed):
        self.loop, self.name, self.rng = loop, name, random.Random(seed)
        self.path = f"/v1/sandboxes/{name}"

    def ask(self, method, path, body=None):
        up = self.loop.up
        if not up.wait(LIMIT):
            raise Lost("the daemon does not come back")
        try:
            r = self.loop.d.request(method, path, body, seconds=LIMIT)
            if r.status == 502 and r.error[0] == "EPIPE":  # the supervisor lives, and says what does not
                raise Gone
            return r
        except TimeoutError:
            self.wrong(f"{method} {path} {body}: no answer in {LIMIT} s")
        except (OSError, AssertionError, ValueError, IndexError) as e:
            if isinstance(e, AssertionError) and "closed" not in str(e):
                raise
            raise Gone from None

    def wrong(self, text):
        self.loop.t.fail(f"{self.name}, after {self.loop.kills} kills: {text}")
        raise Lost(text)

    def want(self, statuses, reply, what):
        if reply.status not in statuses:
            self.wrong(f"{what}: {reply}")
        return reply

    def settled(self):
        """Its state once nothing is on its way; None when it is not there."""
        end = time.monotonic() + CONTROL_WAIT
        while True:
            try:
                r = self.ask("GET", self.path)
            except Gone:
                pause(0.02, "the next daemon starts")
                continue
            if r.status == 404:
                return None
            self.want((200,), r, "inspect")
            if r.json["state"] in STABLE:
                return r.json
            if r.json["state"] == "broken" or time.monotonic() > end:
                self.wrong(f"does not settle: {r}")
            pause(0.02, "between two looks")


class Worker(Client):
    """Whole lives of sandboxes of one name, one after the other."""

    def __init__(self, loop, name, seed):
        super().__init__(loop, name, seed)
        self.lives, self.asked, self.cut = 0, 0, 0

    def run(self):
        try:
            while not self.loop.over:
                self.life()
                self.lives += 1
        except Lost:
            pass
        except Exception as e:  # pylint: disable=broad-except
            self.loop.t.fail(f"{self.name}: {e!r}")

    def attempt(self, step, *args):
        """One step; what a crash cuts off is nobody's fault."""
        self.asked += 1
        try:
            return step(*args)
        except Gone:
            self.cut += 1
            return None

    def life(self):
        self.attempt(self.create)
        for _ in range(self.rng.randrange(1, 6)):
            seen = self.settled()
            if seen is None:
                break
            steps = {"created": (self.start, self.run_command, self.stop), "stopped": (self.start, self.start, self.write),
                     "running": (self.run_command, self.run_command, self.process, self.kept, self.stop, self.pause, self.write),
                     "paused": (self.resume, self.stop, self.refused)}[seen["state"]]
            self.attempt(self.rng.choice(steps))
        end = time.monotonic() + CONTROL_WAIT
        while self.settled() is not None:
            self.attempt(self.delete)
            if time.monotonic() > end:
                self.wrong("cannot be deleted")

    def create(self):
        start = self.rng.random() < 0.7
        r = self.ask("POST", "/v1/sandboxes", {"name": self.name, "command": MAIN, "start": start})
        self.want((201,), r, "create")
        if r.json["state"] != ("running" if start else "created"):
            self.wrong(f"created as {r}")

    def delete(self):
        self.want((204,), self.ask("DELETE", f"{self.path}?force=true"), "delete")

    def start(self):
        r = self.want((200,), self.ask("POST", f"{self.path}/start"), "start")
        if r.json["state"] != "running":
            self.wrong(f"started: {r}")

    def armed(self):
        r = self.want((200,), self.ask("POST", f"{self.path}/exec", {"cmd": ARMED}), "exec")
        if r.json["exitCode"] != 1:
            self.wrong(f"exec: {r}")

    def stop(self):
        before = self.settled()
        if before["state"] == "running":
            self.armed()
        r = self.want((200,), self.ask("POST", f"{self.path}/stop"), "stop")
        if before["state"] in ("running", "paused") and (r.json["state"], r.json["exitCode"]) != ("stopped", 33):
            self.wrong(f"stopped, exit code 33 wanted: {r}")

    def pause(self):
        self.armed()
        self.want((200,), self.ask("POST", f"{self.path}/pause"), "pause")

    def resume(self):
        self.want((200,), self.ask("POST", f"{self.path}/resume"), "resume")

    def refused(self):
        self.want((409,), self.ask("POST", f"{self.path}/exec", {"cmd": "exit 1"}), "exec in a paused one")

    def run_command(self):
        code, text = self.rng.randrange(1, 120), f"t{self.rng.random()}"
        r = self.want((200,), self.ask("POST", f"{self.path}/exec", {"cmd": f"echo {text}; exit {code}"}), "exec")
        if (r.json["exitCode"], r.json["stdout"]) != (code, text + "\n"):
            self.wrong(f"exec of 'exit {code}': {r}")

    def ended(self, path, field, code):
        """What a process or a kept exec that was started for certain ends as, however often the daemon dies meanwhile."""
        end = time.monotonic() + CONTROL_WAIT
        while True:
            try:
                r = self.want((200,), self.ask("GET", path), f"{path} was started")
                if r.json["state"] not in ("running", "starting"):
                    break
            except Gone:
                pass
            if time.monotonic() > end:
                self.wrong(f"{path} does not end")
            pause(0.02, "between two looks")
        if (r.json["state"], r.json["exitCode"]) != (field, code):
            self.wrong(f"{path}, which ends with {code}: {r}")

    def process(self):
        code, name = self.rng.randrange(1, 120), f"p{self.rng.randrange(10**9)}"
        body = {"cmd": f"echo begin; sleep 0.{self.rng.randrange(3)}; echo end; exit {code}", "id": name}
        self.want((201,), self.ask("POST", f"{self.path}/processes", body), "process")
        self.ended(f"{self.path}/processes/{name}", "exited", code)
        while True:
            try:
                r = self.want((200,), self.ask("GET", f"{self.path}/processes/{name}/logs"), "logs")
                break
            except Gone:
                continue
        if r.json["stdout"]["data"] != "begin\nend\n":
            self.wrong(f"log: {r}")

    def kept(self):
        code = self.rng.randrange(1, 120)
        r = self.ask("POST", f"{self.path}/exec", {"cmd": f"sleep 0.{self.rng.randrange(3)}; exit {code}", "detach": True})
        self.want((201,), r, "detached exec")
        self.ended(f"{self.path}/exec/{r.json['execId']}", "ended", code)

    def write(self):
        self.want((200, 201, 204), self.ask("PUT", f"{self.path}/files?path=/tmp/x", b"x" * 1000), "write")


class Steady(Client):
    """The sandbox that stays, and what runs in it throughout."""

    def begin(self):
        self.want((201,), self.ask("POST", "/v1/sandboxes", {"name": self.name, "command": MAIN, "start": True}), "create")
        self.want((201,), self.ask("POST", f"{self.path}/processes", {"cmd": COUNTER, "id": "counter"}), "counter")
        body = {"argv": ["/bin/sh"], "tty": True, "detach": True, "env": {"PS1": "> "}}
        r = self.want((201,), self.ask("POST", f"{self.path}/exec", body), "shell")
        self.shell, self.rounds, self.read = r.json["execId"], 0, {"stdout": (0, 0), "stderr": (0, 0)}
        self.pid = self.settled()["pid"]
        self.short = {}

    def check(self):
        """After each crash."""
        seen = self.settled()
        if seen is None or (seen["state"], seen["pid"]) != ("running", self.pid):
            self.wrong(f"the sandbox does not live on: {seen}")
        self.check_shell()
        self.check_log()
        self.check_short()

    def check_shell(self):
        self.rounds += 1
        up = Upgraded(self.loop.d, f"{self.path}/exec/{self.shell}/attach")
        if up.status != 101:
            self.wrong(f"attach: {up.status} {up.refusal}")
        up.send(STDIN, f"N=$((N+1)); echo round-$N\n".encode())
        up.until(f"round-{self.rounds}\r\n".encode())
        up.close()

    def check_log(self):
        """Numbered lines, each once."""
        for stream, prefix in (("stdout", ""), ("stderr", "e")):
            at, last = self.read[stream]
            while True:
                r = self.ask("GET", f"{self.path}/processes/counter/logs?stream={stream}&{stream}Offset={at}").json[stream]
                if r["lost"] or r["dropped"]:
                    self.wrong(f"{stream}: {r['lost']} lost, {r['dropped']} dropped")
                whole = r["data"][:r["data"].rfind("\n") + 1]
                if not whole:
                    break
                for line in whole.splitlines():
                    last += 1
                    if line != f"{prefix}{last}":
                        self.wrong(f"{stream}, offset {at}: {line!r} instead of {prefix}{last}")
                at += len(whole)
            self.read[stream] = at, last

    def check_short(self):
        """Kept execs of the round before have ended with their status; new ones are begun."""
        for exec_id, code in list(self.short.items()):
            r = self.want((200,), self.ask("GET", f"{self.path}/exec/{exec_id}"), "a kept exec")
            if r.json["state"] == "ended":
                if r.json["exitCode"] != code:
                    self.wrong(f"a kept exec that ends with {code}: {r}")
                self.want((204,), self.ask("DELETE", f"{self.path}/exec/{exec_id}"), "forget it")
                del self.short[exec_id]
        for _ in range(2):
            code = self.rng.randrange(1, 120)
            body = {"cmd": f"sleep 0.{self.rng.randrange(5)}; exit {code}", "detach": True, "timeoutMs": 60000}
            self.short[self.want((201,), self.ask("POST", f"{self.path}/exec", body), "exec").json["execId"]] = code

    def finish(self):
        self.want((200,), self.ask("POST", f"{self.path}/exec", {"cmd": "touch /stop"}), "touch")
        r = self.want((200,), self.ask("POST", f"{self.path}/processes/counter/wait/exit", {}), "the counter's end")
        if r.json["exitCode"] != 42:
            self.wrong(f"the counter ends with 42: {r}")
        self.check_log()
        if self.read["stdout"][1] != self.read["stderr"][1]:
            self.wrong(f"lines: {self.read}")
        if not poll_until(lambda: all(self.ask("GET", f"{self.path}/exec/{e}").json["state"] == "ended" for e in self.short), LIMIT):
            self.wrong("kept execs do not end")
        self.check_short()


class Loop:
    def __init__(self, t, seed, kills, workers):
        self.t, self.d, self.rng, self.wanted = t, Daemon(t), random.Random(seed), kills
        self.up, self.over, self.kills = threading.Event(), False, 0
        self.up.set()
        self.steady = Steady(self, "steady", seed)
        self.workers = [Worker(self, f"w{i}", seed * 1000 + i) for i in range(workers)]

    def victims(self):
        both = [supervisor(self.d), self.d.proc.pid]
        return self.rng.choice((both[:1], both[1:], both, both[::-1]))

    def kill(self):
        victims = self.victims()
        pause(self.rng.uniform(0, 0.3), "the moment of its death is chosen at random")
        self.up.clear()
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.d.proc.wait(LIMIT)
        self.kills += 1
        while self.kills < self.wanted and self.rng.random() < 0.25:
            self.d.start_and_kill(self.rng.uniform(0, 0.15))
            self.kills += 1
        self.d.start()
        self.up.set()

    def swept(self):
        """Whether only what is listed is there, in both trees."""
        listed = {s["id"] for s in self.d.get("/v1/sandboxes").json["sandboxes"]}
        trees = [set(os.listdir(os.path.join(self.t.state, part))) for part in ("sandboxes", "supervisor/sandboxes")]
        return all(tree == listed for tree in trees) and not os.listdir(os.path.join(self.t.state, "supervisor/gone"))

    def run(self):
        self.steady.begin()
        threads = [threading.Thread(target=w.run) for w in self.workers]
        for th in threads:
            th.start()
        try:
            while self.kills < self.wanted and not self.t.problems:
                self.kill()
                self.steady.check()
        finally:
            self.over = True
            for th in threads:
                th.join()
        if self.t.problems:
            return
        self.finish()

    def finish(self):
        t, d = self.t, self.d
        self.steady.finish()
        t.equal([s["name"] for s in d.get("/v1/sandboxes").json["sandboxes"]], ["steady"], "what is left")
        t.check(poll_until(self.swept, 15), f"half-made things are left: {os.listdir(os.path.join(t.state, 'sandboxes'))}")
        d.clear()
        before = self.used_again()
        self.kill()
        after = self.used_again()
        t.check(all(a <= b for a, b in zip(after, before)), f"descriptors of launcher and supervisor: {before}, after one more crash {after}")

    def used_again(self):
        """The names are free; what the daemon has open once they are again, and it has had as many sandboxes."""
        for name in ["steady"] + [w.name for w in self.workers]:
            self.t.equal(self.d.post("/v1/sandboxes", {"name": name}).status, 201, f"the name {name} is free again")
        self.d.clear()
        return self.open_now()

    def open_now(self):
        """Descriptors of launcher and supervisor, at the least of some looks: what is being closed does not count."""
        looks = []
        for _ in range(10):
            looks.append((descriptors(self.d.proc.pid), descriptors(supervisor(self.d))))
            pause(0.02, "between two looks")
        return tuple(min(look[i] for look in looks) for i in range(2))


def crash_loop(t, seed, kills, workers=3):
    loop = Loop(t, seed, kills, workers)
    loop.run()
    if not t.problems:
        lives = sum(w.lives for w in loop.workers)
        cut, asked = sum(w.cut for w in loop.workers), sum(w.asked for w in loop.workers)
        print(f"# {loop.kills} kills: {lives} lives, {asked} steps, {cut} of them cut off, {loop.steady.read['stdout'][1]} lines")
        t.check(cut >= kills // 10, f"the kills have cut off {cut} of {asked} steps only")
        loop.d.stop()
    else:
        loop.t.fail(f"log: {loop.d.text()[-3000:]}")
