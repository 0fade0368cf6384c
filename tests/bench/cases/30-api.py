"""One sandbox over the API, and the same over Docker's and by runc: a whole life, and an exec in a running one.

Docker and runc make no user namespace of their own for a sandbox here, and runc no overlay; Docker's API takes three requests for
an exec. Everybody has the same root directory, no network, and limits for memory, processes and CPU time."""
import os
import shutil
import subprocess

from benchlib import Case, Reach, Series, Skip, floor_command, load_case
from engines import Docker, Rind, engine

FLOOR = "floor, beside the API"
SPAWN = "host: spawn true, beside the API"
EXEC_PLUS = 400  # us over the floor: the aim
FEW = 5  # one run of Docker or runc for so many of rind
LIFE = "create + exec true + delete"
SLEEP = ["/bin/payload", "sleep", "1000000"]


def name(who, what):
    return f"{who}: {what}"


def api_series(kind):
    """Series and batch of one daemon."""
    who = kind.name
    rind = kind is Rind
    forms = ["exec true"] if not rind else ["exec true, buffered", "exec true, stream"]
    plus = Reach(plus=EXEC_PLUS) if rind else None
    parts = [LIFE, "… its create", "… its exec", "… its delete"]
    lives = [Series(name(who, p)) for p in parts]
    true = Series(name(who, "create, true exits, delete"), peer=FLOOR, reach=Reach(ratio=1.5) if rind else None)
    execs = [Series(name(who, f), peer=SPAWN, reach=plus) for f in forms]
    return lives, true, execs


def api_case(ctx, kind):
    e = engine(ctx, kind)
    lives, true, execs = api_series(kind)
    host_true = os.path.join(ctx.root, "bin", "true")
    spawn = [Series(SPAWN)] if kind is Rind else []
    every = 1 if kind is Rind else FEW

    def batch(n):
        n = max(1, n // every)
        result = dict(zip((s.name for s in lives), e.api("life", n)))
        result[true.name] = e.api("true", n)[0]
        spawned, *forms = e.api("exec", n, "many-0", host_true)
        result.update({s.name: values for s, values in zip(execs, forms)})
        if spawn:
            result[SPAWN] = spawned
        return result

    return Case(lives + [true] + execs + spawn, batch)


class Runc:
    """runc's own verbs, each a command: what a supervisor that drives runc pays."""

    def __init__(self, ctx):
        if not shutil.which("runc"):
            raise Skip("no runc here")
        self.ctx = ctx
        bundle = load_case("10-start.py").runc_bundle
        self.bundle = bundle(ctx, "api-bundle", SLEEP)
        self.runc = ["runc", "--root", os.path.join(ctx.state, "runc-api")]
        self.id = f"rind-bench-api-{os.getpid()}"
        self.kept = self.id + "-kept"
        subprocess.run(self.runc + ["run", "--detach", "--bundle", bundle(ctx, "api-kept", SLEEP), self.kept], check=True, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL)
        ctx.cleanups.append(lambda: subprocess.run(self.runc + ["delete", "--force", self.kept], check=False))

    def case(self):
        steps = [["create", "--bundle", self.bundle, self.id], ["start", self.id], ["exec", self.id, "/bin/true"],
                 ["delete", "--force", self.id]]
        life = []
        for s in steps:
            life += ([","] if life else []) + self.runc + s
        commands = {name("runc", LIFE): life, name("runc", "exec true"): self.runc + ["exec", self.kept, "/bin/true"]}
        return Case([Series(n) for n in commands], lambda n: self.ctx.spawn(commands, max(1, n // FEW)))


def cases(ctx):
    floor = floor_command(ctx)
    result = [Case([Series(FLOOR)], lambda n: {FLOOR: [ns / 1e3 for ns in ctx.samples(floor + ["--runs", str(n)])]})]
    for make in (lambda: api_case(ctx, Rind), lambda: api_case(ctx, Docker), lambda: Runc(ctx).case()):
        try:
            result.append(make())
        except Skip as e:
            print(f"left out: {e}")
    return result
