"""Inside one process that goes on running, as the daemon does: a sandbox's whole life, an exec in a running sandbox, and the
file operations that are execs of the shim. Without the API, which has cases of its own."""
import os

from benchlib import Case, Reach, Series

CREATE = "in one process: create+true+remove"
SPAWN = "host: spawn true"
EXEC = "exec true in a running sandbox"
STAT = "shim: stat"
READ = "shim: read of 4 KiB"
FLOOR = "floor: create+true+remove"  # of 10-start.py
EXEC_PLUS, SHIM_PLUS = 400, 200  # us


def cases(ctx):
    program = ctx.build("inproc", ["inproc.c"], runner=True)
    with open(os.path.join(ctx.root, "etc", "4k"), "wb") as f:
        f.write(b"x" * 4096)
    state = os.path.join(ctx.state, "inproc")

    def us(verb, n):
        return [[ns / 1e3 for ns in values] for values in ctx.samples([program, verb, state, ctx.root, str(n)])]

    def execs(n):
        return dict(zip((SPAWN, EXEC, STAT, READ), us("exec", n)))

    return [
        Case([Series(CREATE, peer=FLOOR, reach=Reach(ratio=1.5))], lambda n: {CREATE: us("create", n)[0]}),
        Case([Series(SPAWN), Series(EXEC, peer=SPAWN, reach=Reach(plus=EXEC_PLUS)),
              Series(STAT, peer=EXEC, reach=Reach(plus=SHIM_PLUS)), Series(READ, peer=EXEC, reach=Reach(plus=SHIM_PLUS))],
             execs),
    ]
