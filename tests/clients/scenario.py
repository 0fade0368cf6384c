"""Scenarios of our own for a client that is a command: one function each, its name is the claim.

    from scenario import main, scenario

    @scenario
    def run_prints(t):
        t.equal(t.ok("run", "--rm", IMAGE, "echo", "hi"), "hi")

    main()

The command, the daemon's address and a directory come by the environment: CLIENT, DOCKER_HOST, SCRATCH. After each scenario
everything that it has made is removed over the API, so that each one finds an empty daemon with the images.
"""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import traceback
import urllib.parse

LIMIT = 60           # seconds for one command
SCENARIO_LIMIT = 180  # seconds for one scenario
IMAGE = "alpine"
KEPT = ("alpine:latest", "busybox:latest")  # the suite's images
_all = []


def scenario(fn):
    _all.append(fn)
    return fn


class Failed(Exception):
    """A claim does not hold."""


class Skipped(Exception):
    """This release of the client cannot do it."""


class Scenario:
    """What a scenario is given: the command, and checks. A command that should work and does not ends the scenario."""

    def __init__(self, name):
        self.name, self.client = name, os.environ["CLIENT"]
        self.dir = os.path.join(os.environ["SCRATCH"], name)
        os.makedirs(self.dir, exist_ok=True)
        self.started, self.problems, self.env, self.prefix = [], [], dict(os.environ), []

    # ---- checks: they record and go on, so that one run shows every failure
    def check(self, condition, what):
        if not condition:
            self.problems.append(what)

    def need(self, condition, what):
        if not condition:
            raise Failed(what)

    def equal(self, got, want, what=""):
        self.check(got == want, f"{what}: {got!r}, want {want!r}")

    def like(self, text, pattern, what=""):
        """The whole text, or a line of it, is of this shape."""
        self.check(re.search(pattern, text, re.M), f"{what}: {text[-600:]!r} is not like {pattern!r}")

    def skip(self, why):
        raise Skipped(why)

    # ---- the command
    def run(self, *args, stdin=None, seconds=LIMIT, cwd=None):
        """(status, stdout, stderr)"""
        try:
            p = subprocess.run([self.client, *self.prefix, *args], input=stdin.encode() if isinstance(stdin, str) else stdin,
                               stdin=None if stdin is not None else subprocess.DEVNULL,
                               capture_output=True, env=self.env, timeout=seconds, check=False, cwd=cwd or self.dir)
        except subprocess.TimeoutExpired as e:
            raise Failed(f"{' '.join(args)}: still running after {seconds} s; {(e.stdout or b'')[-300:]!r} {(e.stderr or b'')[-300:]!r}") from None
        return p.returncode, p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace")

    def ok(self, *args, **kw):
        """stdout of a command that must work, without its last line end."""
        code, out, errors = self.run(*args, **kw)
        self.need(code == 0, f"{' '.join(args)}: status {code}, {out[-400:]!r}, {errors[-600:]!r}")
        return out.rstrip("\n")

    def both(self, *args, **kw):
        """stdout and stderr of a command that must work."""
        code, out, errors = self.run(*args, **kw)
        self.need(code == 0, f"{' '.join(args)}: status {code}, {out[-400:]!r}, {errors[-600:]!r}")
        return out + errors

    def fails(self, code, pattern, *args, **kw):
        """A command must end with this status and words on stderr."""
        got, out, errors = self.run(*args, **kw)
        self.check(got == code and re.search(pattern, errors + out), f"{' '.join(args)}: status {got}, {(out + errors)[-600:]!r}; want {code}, {pattern!r}")

    def json(self, *args, **kw):
        return json.loads(self.ok(*args, **kw))

    def popen(self, *args, **kw):
        """A command that runs on; it is ended with the scenario."""
        p = subprocess.Popen([self.client, *self.prefix, *args], env=self.env, cwd=kw.pop("cwd", self.dir), **kw)
        self.started.append(p)
        return p

    def until(self, condition, what, seconds=30):
        end = time.monotonic() + seconds
        while not condition():
            self.need(time.monotonic() < end, f"not within {seconds} s: {what}")
            time.sleep(0.1)

    def file(self, name, content):
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(content)
        return path

    # ---- the API
    def api(self, method, path, body=None):
        conn = http.client.HTTPConnection("localhost", timeout=LIMIT)
        conn.sock = socket.socket(socket.AF_UNIX)
        conn.sock.settimeout(LIMIT)
        conn.sock.connect(urllib.parse.urlparse(os.environ["DOCKER_HOST"]).path)
        try:
            conn.request(method, path, body, {"Content-Type": "application/x-tar"} if body else {})
            r = conn.getresponse()
            return r.status, r.read()
        finally:
            conn.close()

    def clear(self):
        """Removes all that a scenario has left on the daemon, and its images but those of the suite."""
        for p in self.started:
            if p.poll() is None:
                p.kill()
            p.wait()
        for c in json.loads(self.api("GET", "/containers/json?all=1")[1]):
            self.api("DELETE", f"/containers/{c['Id']}?force=1&v=1")
        for n in json.loads(self.api("GET", "/networks")[1]):
            if n["Name"] not in ("bridge", "none", "host", "default"):
                self.api("DELETE", f"/networks/{n['Id']}")
        for v in json.loads(self.api("GET", "/volumes")[1])["Volumes"] or []:
            self.api("DELETE", f"/volumes/{v['Name']}?force=1")
        for i in json.loads(self.api("GET", "/images/json")[1]):
            for tag in i["RepoTags"] or [i["Id"]]:
                if tag not in KEPT:
                    self.api("DELETE", f"/images/{tag}?force=1")
        for name in KEPT:
            if self.api("GET", f"/images/{name}/json")[0] != 200:  # a scenario has removed it
                with open(os.path.join(os.environ["SCRATCH"], name.partition(":")[0] + ".tar"), "rb") as f:
                    self.api("POST", "/images/load?quiet=1", f.read())


def _late(*_):
    raise Failed(f"still running after {SCENARIO_LIMIT} s")


def _run(fn):
    """One scenario: what results.Result takes."""
    t, begin, state, message = Scenario(fn.__name__), time.monotonic(), "passed", ""
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(SCENARIO_LIMIT)
    try:
        fn(t)
    except Skipped as e:
        state, message = "skipped", str(e)
    except Failed as e:
        state, message = "failed", str(e)
    except Exception:  # pylint: disable=broad-exception-caught
        state, message = "failed", traceback.format_exc()[-1500:]
    finally:
        signal.alarm(0)
    if t.problems:
        state, message = "failed", "\n".join([*t.problems, message]).strip()
    try:
        t.clear()
    except Exception:  # pylint: disable=broad-exception-caught
        state, message = "failed", f"{message}\nclean-up: {traceback.format_exc()[-800:]}"
    return {"name": fn.__name__, "state": state, "message": message, "seconds": round(time.monotonic() - begin, 3)}


def main():
    """Runs all, or those named: main.py OUT [NAME…]"""
    names = sys.argv[2:]
    with open(sys.argv[1], "a", encoding="utf-8") as out:
        for fn in _all:
            if not names or fn.__name__ in names:
                print(json.dumps(_run(fn)), file=out, flush=True)
