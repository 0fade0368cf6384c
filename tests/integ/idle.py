"""Whether anything of rind wakes up while nothing happens: context switches and processor time, of every thread."""
import os
import threading

import audit
from exec_client import supervisor
from harness import pause, poll_until
from serve import Daemon

COUNT = 100


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError:
        return ""


def switches(pid):
    """How often the threads of a process have been given a processor: all there is to a wake-up."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        text = read(f"/proc/{pid}/task/{task}/status")
        total += sum(int(line.split()[1]) for line in text.splitlines() if "ctxt_switches" in line)
    return total


def processor(pid):
    """Nanoseconds on a processor."""
    return sum(int(read(f"/proc/{pid}/task/{task}/schedstat").split()[0]) for task in os.listdir(f"/proc/{pid}/task"))


def watched(d):
    """Name -> pid of the daemon's two processes, and of every init and waiting inner process."""
    found = {"launcher": d.proc.pid, "supervisor": supervisor(d)}
    for pid, text in audit.descendants().items():
        if text == "rind-init":
            found[f"init {pid}"] = pid
    return found


def look(pids):
    return {name: (switches(pid), processor(pid)) for name, pid in pids.items()}


def fill(t, d):
    """Sandboxes with everything that may stay in one for days: a terminal, a background process, deadlines far away."""
    root = t.remember(t.root())
    bad = []

    def make(k):
        for i in range(k, COUNT, 4):
            spec = {"name": f"s{i}", "rootfs": root, "command": ["/bin/payload", "sleep"], "start": i % 10 != 9}
            if i % 10 == 1:
                spec |= {"hardTimeoutMs": 86400000, "inactivityTimeoutMs": 86400000, "restart": {"policy": "always"}}
            r = d.post("/v1/sandboxes", spec, seconds=60)
            if r.status != 201:
                bad.append(str(r))

    threads = [threading.Thread(target=make, args=(k,)) for k in range(4)]
    for th in threads:
        th.start()
    for th in threads:
        th.join()
    t.need(not bad, f"create: {bad[:3]}")
    for i in range(0, COUNT, 20):
        d.post(f"/v1/sandboxes/s{i}/exec", {"argv": ["/bin/payload", "sleep"], "tty": True, "detach": True, "timeoutMs": 86400000})
        d.post(f"/v1/sandboxes/s{i}/processes", {"argv": ["/bin/payload", "sleep"]})
        d.post(f"/v1/sandboxes/s{i + 3}/pause")
        d.post(f"/v1/sandboxes/s{i + 4}/stop", {"timeoutMs": 0})


def idle(t, seconds):
    with Daemon(t) as d:
        fill(t, d)
        pids = watched(d)
        t.need(len(pids) >= COUNT, f"processes to watch: {len(pids)}")

        def jobs():
            return [pid for pid in audit.descendants() if read(f"/proc/{pid}/comm").strip() == "rind-job"]

        t.need(poll_until(lambda: not jobs(), 60), "the stops have synced their files")

        def quiet():
            before = look(pids)
            pause(3, "late events of the new network (IPv6 addresses) and of stops that sync files wake the launcher once")
            return {**look(pids), "supervisor": None} == {**before, "supervisor": None}

        t.need(poll_until(quiet, 30), "it does not come to rest")
        before = look(pids)
        pause(seconds, "the time of idleness")
        after = look(pids)
        # The supervisor looks at the free space of the disk every 10 s: one system call, some 0.1 ms.
        looks = seconds // 10 + 1
        woken, used = (b - a for a, b in zip(before["supervisor"], after["supervisor"]))
        t.check(woken <= 4 * looks and used <= 2000000 * looks, f"supervisor: {woken} wake-ups, {used} ns within {seconds} s of idleness")
        for name in pids.keys() - {"supervisor"}:
            t.equal(after[name], before[name], f"{name}: wake-ups and processor time within {seconds} s of idleness")
