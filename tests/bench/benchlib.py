"""What the cases of `make bench` share: building the C programs, running them, and the rows that come out.

A case is a module tests/bench/cases/NAME.py with

    def cases(ctx): return [Case, …]

or an executable there, which prints one JSON row a line (the keys of Row.json) and is run once. A Case names its series and
gathers samples for all of them in small batches; `run` calls the batches of all cases in turn, so that whatever disturbs the
machine disturbs all alike, and then makes rows of medians. Reach is declared with the series, next to what it is measured
against.
"""
import glob
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import tempfile

TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
HERE = os.path.join(TOP, "tests", "bench")
CASES = os.path.join(HERE, "cases")
OUT = os.path.join(TOP, "build", "bench")
RIND = os.environ.get("RIND_BIN", os.path.join(TOP, "build", "rind"))

CFLAGS = ["-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O2", "-g", "-I" + os.path.join(TOP, "runner"),
          "-I" + os.path.join(TOP, "shim")]
# musl has none of the kernel's headers.
MUSL = ["-static", "-idirafter", "/usr/include", "-idirafter", f"/usr/include/{os.uname().machine}-linux-gnu"]


def makefile_libs():
    """What rind is linked with: the makefile's line, so that there is one list."""
    with open(os.path.join(TOP, "Makefile"), encoding="utf-8") as f:
        return next(line for line in f if line.startswith("LIBS :=")).split()[2:]


LIBS = makefile_libs()


def load_case(name):
    """The module of tests/bench/cases/NAME, whose names are not Python's."""
    spec = importlib.util.spec_from_file_location(name[:-3].replace("-", "_"), os.path.join(CASES, name))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Skip(Exception):
    """This case cannot run here; the reason is printed with the table."""


class Reach:
    """What a series must reach. One of: at most `ratio` times the peer; at most the peer + `plus`; at most `most`."""

    def __init__(self, ratio=None, plus=None, most=None, below=False):
        self.ratio, self.plus, self.most, self.below = ratio, plus, most, below

    def text(self, unit, peer):
        if self.most is not None:
            return f"<= {self.most} {unit}"
        if self.plus is not None:
            return f"<= {peer} + {self.plus} {unit}"
        if self.below:
            return f"< {peer}"
        return f"<= {self.ratio} x {peer}"

    def reached(self, value, peer):
        if self.most is not None:
            return value <= self.most
        if peer is None:
            return None
        if self.plus is not None:
            return value <= peer + self.plus
        return value < peer if self.below else value <= self.ratio * peer


class Series:
    def __init__(self, name, unit="us", peer=None, reach=None):
        self.name, self.unit, self.peer, self.reach = name, unit, peer, reach
        self.samples = []

    def median(self):
        return statistics.median(self.samples)


class Case:
    """series: what it measures. batch(n) returns {series name: [values]} with about n values each; once=True: called once."""

    def __init__(self, series, batch, once=False):
        self.series, self.batch, self.once = series, batch, once


def rows(series):
    """Rows of all series with samples, peers resolved by name."""
    by_name = {s.name: s for s in series if s.samples}
    for s in by_name.values():
        peer = by_name.get(s.peer)
        value = s.median()
        against = peer.median() if peer else None
        yield {
            "name": s.name, "unit": s.unit, "median": round(value, 3), "min": round(min(s.samples), 3),
            "max": round(max(s.samples), 3), "runs": len(s.samples), "peer": s.peer,
            "ratio": round(value / against, 3) if against else None,
            "reach": s.reach.text(s.unit, s.peer) if s.reach else None,
            "reached": s.reach.reached(value, against) if s.reach else None,
        }


class Context:
    """Directories and programs of one run; close() removes what must not stay."""

    def __init__(self, quick):
        self.quick = quick
        self.engines = {}  # daemons of this run, by class (engines.py)
        self.cleanups = []  # what cases leave, called at the end
        os.makedirs(OUT, exist_ok=True)
        # Beside rind's own state, because the file system of the writable layer is part of what is measured.
        os.makedirs("/var/lib/rind", mode=0o700, exist_ok=True)
        self.state = tempfile.mkdtemp(prefix="bench-", dir="/var/lib/rind")
        # Not below a private directory: bwrap, runc and unshare walk to it with mapped ids.
        self.root = tempfile.mkdtemp(prefix="rind-bench-root-", dir="/var/tmp")
        self._make_root()
        # A state of its own: what other rinds of this host have left must not be swept here.
        self.rind = [RIND, "--state", os.path.join(self.state, "rind")]

    def close(self):
        for call in [e.stop for e in self.engines.values()] + self.cleanups:
            call()
        shutil.rmtree(self.state, ignore_errors=True)
        shutil.rmtree(self.root, ignore_errors=True)

    def _make_root(self):
        os.chmod(self.root, 0o755)
        for d in ("bin", "proc", "sys", "dev", "tmp", "etc"):
            os.mkdir(os.path.join(self.root, d))
        shutil.copy(self.build("true", ["payload-true.c"], musl=True), os.path.join(self.root, "bin", "true"))
        shutil.copy(os.path.join(TOP, "build", "payload"), os.path.join(self.root, "bin", "payload"))

    def build(self, name, sources, musl=False, runner=False):
        """Compiles OUT/name from sources in tests/bench; runner: with rind's own modules."""
        out = os.path.join(OUT, name)
        cmd = [os.environ.get("MUSL_CC", "musl-gcc") if musl else os.environ.get("CC", "gcc")] + CFLAGS + ["-o", out]
        cmd += [os.path.join(HERE, s) for s in sources]
        if musl:
            cmd += MUSL
        if runner:
            rel = os.path.join(TOP, "build", "rel")
            cmd += ["-pie", "-fPIE", os.path.join(rel, "librunner.a"), os.path.join(rel, "obj/runner/image/embed.o")] + LIBS
        subprocess.run(cmd, check=True)
        return out

    def samples(self, cmd, env=None):
        """Runs a program that prints {"samples": …} as its last line."""
        r = subprocess.run(cmd, stdout=subprocess.PIPE, text=True, env={**os.environ, **(env or {})})
        if r.returncode != 0:
            raise RuntimeError(f"{os.path.basename(cmd[0])} failed with status {r.returncode}")
        return json.loads(r.stdout.splitlines()[-1])["samples"]

    def spawn(self, commands, rounds):
        """Whole commands by turns, from a small C process: {name: [us, …]}."""
        words = []
        for argv in commands.values():
            words += ([";"] if words else []) + argv
        lists = self.samples([self.program("spawn"), str(rounds)] + words)
        return {name: [ns / 1e3 for ns in ns_list] for name, ns_list in zip(commands, lists)}

    def program(self, name, sources=None):
        """A helper program of more than one case, built once a run."""
        made = self.__dict__.setdefault("_made", {})
        if name not in made:
            made[name] = self.build(name, sources or [name + ".c"])
        return made[name]


def host_paths(patterns):
    """The policy's `*` stands for the host's names."""
    for p in patterns:
        yield from sorted(glob.glob(p)) if "*" in p else [p]


def floor_command(ctx, policy="untrusted"):
    """The floor with the masks and filters of a shipped policy."""
    if not hasattr(ctx, "floor"):
        ctx.floor = ctx.build("floor", ["floor.c", "floor-kit.c", "floor-cgroup.c"])
        ctx.floor_init = ctx.build("floor-init", ["floor-init.c", "floor-kit.c"], musl=True)
        filters = [os.path.join(OUT, f"{policy}.bpf"), os.path.join(OUT, "floor.bpf")]
        subprocess.run([ctx.build("filter", ["filter.c"], runner=True), policy] + filters, check=True,
                       stdout=subprocess.DEVNULL)
        ctx.filters = filters
        ctx.empty = os.path.join(ctx.state, "base")
        for d in ("proc", "sys", "dev"):
            os.makedirs(os.path.join(ctx.empty, d))
    with open(os.path.join(TOP, "policies", policy + ".json"), encoding="utf-8") as f:
        spec = json.load(f)
    cmd = [ctx.floor, "--state", ctx.state, "--init", ctx.floor_init, "--layer", ctx.root, "--layer", ctx.empty,
           "--filter", ctx.filters[0], "--init-filter", ctx.filters[1]]
    for p in host_paths(spec["maskedPaths"]):
        cmd += ["--mask", p]
    for p in spec["readonlyPaths"]:
        cmd += ["--read-only", p]
    return cmd
