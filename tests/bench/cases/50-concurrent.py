"""Many starts at the same time: how many a second, everything removed again."""
from benchlib import Case, Series

COUNT, QUICK_COUNT = 200, 40


def cases(ctx):
    count = QUICK_COUNT if ctx.quick else COUNT
    spawn = ctx.program("spawn")
    name = f"rind run, {count} at once"
    bwrap = f"bwrap, {count} at once"

    def batch(_):
        result = {}
        for key, argv in ((name, ctx.rind + ["run", "--rootfs", ctx.root, "--", "/bin/true"]),
                          (bwrap, ["bwrap", "--unshare-all", "--bind", ctx.root, "/", "--proc", "/proc", "--dev", "/dev",
                                   "/bin/true"])):
            ns = ctx.samples([spawn, "-p", str(count)] + argv)[0][0]
            result[key] = [count / (ns / 1e9)]
        return result

    return [Case([Series(name, unit="per s", peer=bwrap), Series(bwrap, unit="per s")], batch, once=True)]
