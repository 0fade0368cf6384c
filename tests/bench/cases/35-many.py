"""Many sandboxes over the API, rind's and Docker's: created and deleted at once, with 1, 100 and 1000 of them alive, their
memory, and bytes through many execs at a time.

Docker stops at 100: a thousand would take it longer than the whole bench may."""
import os
import time

from benchlib import Case, Reach, Series, Skip
from engines import Docker, Rind, cpu_seconds, engine, pss_kib

AT_ONCE, QUICK_AT_ONCE = 100, 20
ALIVE, QUICK_ALIVE = 1000, 100
STREAMS, MIB, QUICK_MIB = 32, 64, 8
EXECS = 100
CREATES = 100  # more than the cgroups that rind lets wait (64, launch/janitor.c): whoever goes on pays for those before
RATIO = 1.5  # the aim
CALM, CALM_LIMIT = 0.05, 20  # share of the CPUs in use, and seconds after which it is measured all the same
GIB = 1024


def processors():
    """(all, idle) ticks so far."""
    with open("/proc/stat", encoding="ascii") as f:
        ticks = [int(x) for x in f.readline().split()[1:9]]
    return sum(ticks), ticks[3] + ticks[4]


def calm():
    """Until the kernel has done what making and removing hundreds left it to do: what so many alive cost is asked, not what their making does."""
    end = time.monotonic() + CALM_LIMIT
    while time.monotonic() < end:
        before = processors()
        time.sleep(0.5)
        total, idle = (b - a for a, b in zip(before, processors()))
        if total > 0 and 1 - idle / total < CALM:
            return


class Alive:
    """Execs and creates with so many sandboxes alive, and the host's own spawn at that moment."""

    def __init__(self, who, count, least):
        self.count = count
        at = f"with {count} alive"
        peer = (lambda what: f"{who}: {what} with {least} alive") if count != least and who == "rind" else (lambda what: None)
        reach = Reach(ratio=RATIO) if peer("") else None
        self.exec = Series(f"{who}: exec true {at}", peer=peer("exec true"), reach=reach)
        self.create = Series(f"{who}: create {at}", peer=peer("create"), reach=reach)
        self.spawn = Series(f"{who}: host spawn {at}")
        self.all = [self.exec, self.create, self.spawn]

    def measure(self, e, result):
        true = os.path.join(e.ctx.root, "bin", "true")
        share, creates = (1, CREATES) if e.name == "rind" else (4, CREATES // 20)  # so many fewer runs
        calm()
        spawned, execs, *_ = e.api("exec", EXECS // share, "many-0", true)
        for s, values in ((self.exec, execs), (self.create, e.api("create", creates)[0]), (self.spawn, spawned)):
            result.setdefault(s.name, []).extend(values)


class Many:
    def __init__(self, ctx, kind):
        quick, who = ctx.quick, kind.name
        self.e = engine(ctx, kind)
        self.at_once = QUICK_AT_ONCE if quick else AT_ONCE
        self.mib = QUICK_MIB if quick else MIB
        n, mib = self.at_once, f"{STREAMS} streams of {self.mib} MiB"
        self.created = Series(f"{who}: {n} creates at once", "ms")
        self.deleted = Series(f"{who}: {n} deletes at once", "ms")
        self.rate = Series(f"{who}: {mib}", "MiB/s")
        self.cpu = Series(f"{who}: {mib}, CPU of the daemons", "s/GiB")
        self.daemons = Series(f"{who}: PSS of the daemons with {n} sandboxes", "KiB")
        self.helpers = Series(f"{who}: PSS of the helpers, a sandbox", "KiB", reach=Reach(most=200) if who == "rind" else None)
        levels = [1, n] + ([QUICK_ALIVE if quick else ALIVE] if who == "rind" else [])
        self.levels = [Alive(who, count, 1) for count in dict.fromkeys(levels)]

    def series(self):
        own = [self.created, self.deleted, self.rate, self.cpu, self.daemons, self.helpers]
        return own + [s for level in self.levels for s in level.all]

    def _streams(self):
        e = self.e
        pids = e.daemons() + e.helpers()
        before = cpu_seconds(pids)
        us = e.api("streams", STREAMS, self.mib, "many-0")[0][0]
        total = STREAMS * self.mib
        return {self.rate.name: [total / (us / 1e6)], self.cpu.name: [(cpu_seconds(pids) - before) / (total / GIB)]}

    def _memory(self, count):
        helpers = self.e.helpers()
        if len(helpers) < count:
            raise RuntimeError(f"{self.e.name}: {len(helpers)} helpers of {count} sandboxes found")
        return {self.daemons.name: [sum(map(pss_kib, self.e.daemons()))],
                self.helpers.name: [sum(map(pss_kib, helpers)) / count]}

    def batch(self, _):
        """Up to the most and down again, so that a machine that gets slower or faster does not favour a level."""
        e, result = self.e, {}
        e.api("drop", 1)  # the one that is always there
        result[self.created.name] = [e.api("many", self.at_once)[0][0] / 1e3]
        result.update(self._memory(self.at_once))
        result[self.deleted.name] = [e.api("drop", self.at_once)[0][0] / 1e3]
        alive = 0
        for level in self.levels + self.levels[-2::-1]:
            if level.count > alive:
                e.api("fill", alive, level.count)
            else:
                e.api("empty", level.count, alive)
            alive = level.count
            level.measure(e, result)
        result.update(self._streams())
        return result


def cases(ctx):
    result = []
    for kind in (Rind, Docker):
        try:
            m = Many(ctx, kind)
        except Skip as e:
            print(f"left out: {e}")
            continue
        result.append(Case(m.series(), m.batch, once=True))
    return result
