"""Memory of an idle sandbox: the proportional set size of every process that is neither the user's nor the supervisor."""
import os
import re
import subprocess
import time

from benchlib import Case, Reach, Series

NAME = "idle sandbox: PSS of its helpers"
READY_SECONDS = 20


def children(pid):
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as f:
            found += [int(x) for x in f.read().split()]
    return found


def descendants(pid):
    result = []
    for child in children(pid):
        result += [child] + descendants(child)
    return result


def pss_kib(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        return int(re.search(r"^Pss:\s+(\d+) kB", f.read(), re.M).group(1))


def is_users(pid):
    """The user's processes run a file of the sandbox, the helpers run init's sealed memfd."""
    return not os.readlink(f"/proc/{pid}/exe").startswith("/memfd:")


def measure(ctx):
    # It ends with its stdin: as PID 1 it would ignore SIGTERM.
    p = subprocess.Popen(ctx.rind + ["run", "--interactive", "--", "sh", "-c", "echo ready; exec cat"], stdout=subprocess.PIPE,
                         stdin=subprocess.PIPE)
    try:
        if p.stdout.readline() != b"ready\n":
            raise RuntimeError("the idle sandbox did not start")
        deadline = time.monotonic() + READY_SECONDS
        while not any(os.readlink(f"/proc/{d}/exe").endswith("busybox") for d in descendants(p.pid)):
            if time.monotonic() > deadline:
                raise RuntimeError("no user process found in the idle sandbox")
            time.sleep(0.01)
        helpers = [d for d in descendants(p.pid) if not is_users(d)]
        if not helpers:
            raise RuntimeError("no helper process found in the idle sandbox")
        return {NAME: [sum(pss_kib(d) for d in helpers)]}
    finally:
        p.stdin.close()
        try:
            p.wait(READY_SECONDS)
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()
        p.stdout.close()


def cases(ctx):
    return [Case([Series(NAME, unit="KiB", reach=Reach(most=200))], lambda _: measure(ctx), once=True)]
