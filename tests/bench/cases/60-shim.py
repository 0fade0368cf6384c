"""sandbox-shim beside the tools that do the same on the host: cat, ls -f, rm -rf. Time of whole commands, through pipes."""
import os
import shutil
import subprocess
import tempfile
import time

from benchlib import TOP, Case, Reach, Series

SHIM = os.environ.get("SHIM_BIN", os.path.join(TOP, "build", "shim", "sandbox-shim"))
SIZE, QUICK_SIZE = 1 << 30, 1 << 28
FILES, QUICK_FILES = 100000, 20000
RUNS = 5  # of each, however many rounds there are: a round takes seconds
CAT_RATIO = 1.11  # 90 % of its throughput
CHUNK = 1 << 20


def drain(argv, out):
    """Milliseconds of a command whose stdout is a pipe that goes to out."""
    start = time.perf_counter()
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as p:
        fd = p.stdout.fileno()
        while os.splice(fd, out, CHUNK):
            pass
    check(p)
    return (time.perf_counter() - start) * 1e3


def feed(argv, src, stdout):
    """Milliseconds of a command whose stdin is a pipe with the file src in it."""
    os.lseek(src, 0, os.SEEK_SET)
    start = time.perf_counter()
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=stdout) as p:
        fd = p.stdin.fileno()
        while os.splice(src, fd, CHUNK):
            pass
        p.stdin.close()
    check(p)
    return (time.perf_counter() - start) * 1e3


def plain(argv):
    start = time.perf_counter()
    subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - start) * 1e3


def check(p):
    if p.returncode != 0:
        raise RuntimeError(f"{p.args[0]} failed with status {p.returncode}")


def fill(directory, count):
    os.mkdir(directory)
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    for i in range(count):
        os.close(os.open(f"entry-{i}", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=fd))
    os.close(fd)


class Alternate:
    """Two ways of the same by turns: who is first changes."""

    def __init__(self, ways):
        self.ways, self.runs = list(ways.items()), 0

    def batch(self, _):
        if self.runs == RUNS:
            return {}
        self.runs += 1
        order = self.ways if self.runs % 2 else self.ways[::-1]
        return {name: [way()] for name, way in order}


def pair(name, peer, ways, ratio):
    alternate = Alternate(dict(zip((name, peer), ways)))
    return Case([Series(name, unit="ms", peer=peer, reach=Reach(ratio=ratio)), Series(peer, unit="ms")], alternate.batch)


def transfers(ctx, label, size):
    source = os.path.join(ctx.state, "source")
    with open(source, "wb") as f:
        block = os.urandom(CHUNK)
        for _ in range(size // CHUNK):
            f.write(block)
    null = os.open("/dev/null", os.O_WRONLY | os.O_CLOEXEC)
    src = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    # The target lies in memory: the disk's own pace is not what is compared.
    memory = tempfile.mkdtemp(prefix="rind-bench-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    target = os.path.join(memory, "target")

    def write_shim():
        ms = feed([SHIM, "write", target], src, subprocess.DEVNULL)
        os.unlink(target)
        return ms

    def write_cat():
        with open(target, "wb") as f:
            ms = feed(["cat"], src, f)
        os.unlink(target)
        return ms

    ctx.shim_directories.append(memory)
    yield pair(f"shim read, {label}", f"cat, {label} to a pipe",
               (lambda: drain([SHIM, "read", source], null), lambda: drain(["cat", source], null)), CAT_RATIO)
    yield pair(f"shim write, {label}", f"cat, {label} from a pipe", (write_shim, write_cat), CAT_RATIO)


def directories(ctx, count):
    listed, doomed = os.path.join(ctx.state, "listed"), os.path.join(ctx.state, "doomed")
    null = os.open("/dev/null", os.O_WRONLY | os.O_CLOEXEC)
    fill(listed, count)

    def remove(argv):
        fill(doomed, count)
        return plain(argv)

    yield pair(f"shim read-directory, {count} names", f"ls -f, {count} names",
               (lambda: drain([SHIM, "read-directory", listed], null), lambda: drain(["ls", "-f", listed], null)), 2)
    yield pair(f"shim remove --recursive, {count} files", f"rm -rf, {count} files",
               (lambda: remove([SHIM, "remove", doomed, "--recursive"]), lambda: remove(["rm", "-rf", doomed])), 1.2)


def cases(ctx):
    size, count = (QUICK_SIZE, QUICK_FILES) if ctx.quick else (SIZE, FILES)
    label = f"{size >> 20} MiB"
    ctx.shim_directories = []
    close = ctx.close

    def close_all():
        for d in ctx.shim_directories:
            shutil.rmtree(d, ignore_errors=True)
        close()

    ctx.close = close_all
    return list(transfers(ctx, label, size)) + list(directories(ctx, count))
