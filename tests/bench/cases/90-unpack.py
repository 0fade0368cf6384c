"""Unpacking a layer: rind-rootfs, with its namespaces, its hash and its confined processes, beside plain `tar x`.

One archive is of 1 GB in files of 10 MB, the other of 50,000 files of 3 KB in 500 directories. Both are plain: what a decompressor
takes is its own. They are read from the page cache, and nothing is synced within the time that is measured.
"""
import io
import os
import random
import shutil
import subprocess
import tarfile
import time

from benchlib import TOP, Case, Reach, Series, Skip

PROGRAM = os.path.join(TOP, "build", "builder", "rind-rootfs")
FASTER = 1.25  # unpack at 0.8 of tar's speed or more
ROUNDS = 3
BUDGET = 240  # seconds for all rounds of one archive: where the disk is busy, fewer have to do
ARCHIVES = {"1 GB": (100, 1, 10 << 20), "50,000 files": (50000, 500, 3 << 10)}


def make(path, files, directories, size):
    source = random.Random(1)
    words = [source.randbytes(256) for _ in range(256)]
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        for i in range(files):
            where = f"usr/lib/d{i * directories // files}"
            if i % (files // directories) == 0:
                entry = tarfile.TarInfo(where)
                entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, 0o755, 1700000000
                tar.addfile(entry)
            data = b"".join(source.choice(words) for _ in range(size // 256))
            entry = tarfile.TarInfo(f"{where}/file{i}")
            entry.size, entry.mode, entry.mtime = len(data), 0o644, 1700000000 + i
            tar.addfile(entry, io.BytesIO(data))


def rounds(count, once):
    """A batch function that does `once` so often, or until BUDGET is spent."""
    left, end = [count], []

    def batch(_):
        if not end:
            end.append(time.monotonic() + BUDGET)
        if left[0] == 0 or time.monotonic() > end[0]:
            return {}
        left[0] -= 1
        return once()
    return batch


class Unpack:
    def __init__(self, ctx):
        self.ctx, self.archives = ctx, {}

    def archive(self, what):
        if what not in self.archives:
            path = os.path.join(self.ctx.state, what.replace(" ", "-") + ".tar")
            make(path, *ARCHIVES[what])
            self.archives[what] = path
        return self.archives[what]

    def once(self, command):
        """Milliseconds, into an empty directory."""
        tree = os.path.join(self.ctx.state, "tree")
        os.makedirs(tree)
        os.sync()
        start = time.monotonic()
        try:
            subprocess.run([tree if word == "TREE" else word for word in command], check=True, stdout=subprocess.DEVNULL, timeout=BUDGET)
        except subprocess.TimeoutExpired:
            raise Skip(f"{command[0]} takes more than {BUDGET} s: the machine is too busy") from None
        finally:
            spent = time.monotonic() - start
            shutil.rmtree(tree, ignore_errors=True)
        return spent * 1000

    def batch(self, what):
        if not os.path.exists(PROGRAM):
            raise Skip(f"{PROGRAM} is not built")
        path = self.archive(what)
        return {f"unpack {what}: rind-rootfs": [self.once([PROGRAM, "unpack", "--layer", "--bottom", path, "TREE"])],
                f"unpack {what}: tar x": [self.once(["tar", "-x", "-f", path, "-C", "TREE"])]}


def cases(ctx):
    unpack = Unpack(ctx)

    def case(what):
        series = [Series(f"unpack {what}: rind-rootfs", "ms", f"unpack {what}: tar x", Reach(ratio=FASTER)),
                  Series(f"unpack {what}: tar x", "ms")]
        return Case(series, rounds(1 if ctx.quick else ROUNDS, lambda: unpack.batch(what)))

    return [case(what) for what in ARCHIVES]
