"""The Node.js client beside dockerode on the distribution's dockerd: exec, files and fetch, from one Node.js program each.

Docker's container has the host's network, which spares it everything between `fetch` and the server; its API has no other way
than a published port."""
import json
import os
import shutil
import subprocess

from benchlib import TOP, Case, Reach, Series, Skip
from engines import Docker, Rind, engine

HERE = os.path.join(TOP, "tests", "bench", "node")
DONE = os.path.join(HERE, "node_modules", ".installed")  # the lock file that is installed
MIB, QUICK_MIB = 64, 16
FEW = 5  # one round of Docker's for so many of rind's
NAMES = ["exec true", "exec, output", "write 1 KiB", "read 1 KiB", "write a file", "read a file", "fetch", "fetch, a body"]


def series(kind, mib):
    """Where Docker has nothing in between, rind may take longer; else it must not."""
    def name(who, what):
        size = f" of {mib} MiB" if "," in what or "a file" in what else ""
        return f"{who} by Node.js: {what}{size}"
    rind = kind is Rind
    return {n: Series(name(kind.name, n), peer=name(Docker.name, n),
                      reach=(Reach(ratio=1.5) if n.startswith("fetch") else Reach(below=True)) if rind else None) for n in NAMES}


def install():
    """The client, built; and dockerode, as the lock file has it."""
    if not shutil.which("node") or not shutil.which("npm"):
        raise Skip("no node and npm here; scripts/deps test brings them")
    r = subprocess.run([os.path.join(TOP, "scripts", "node-client")], stdout=subprocess.PIPE, text=True, check=False)
    if r.returncode != 0:
        raise Skip(f"clients/node cannot be built: {r.stdout[-300:]}")
    with open(os.path.join(HERE, "package-lock.json"), encoding="utf-8") as f:
        want = f.read()
    if os.path.exists(DONE):
        with open(DONE, encoding="utf-8") as f:
            if f.read() == want:
                return
    r = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"], cwd=HERE,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if r.returncode != 0:
        raise Skip(f"npm ci: {r.stdout[-300:]}")
    with open(DONE, "w", encoding="utf-8") as f:
        f.write(want)


def case(ctx, kind, mib):
    e = engine(ctx, kind)
    mine = series(kind, mib)

    def batch(n):
        rounds = n * (10 if kind is Rind else max(1, 10 // FEW))
        r = subprocess.run(["node", os.path.join(HERE, "drive.mjs"), kind.name, e.socket, e.root, str(rounds), str(mib)],
                           stdout=subprocess.PIPE, text=True, check=False)
        if r.returncode != 0:
            raise RuntimeError(f"drive.mjs for {kind.name}: status {r.returncode}")
        samples = json.loads(r.stdout.splitlines()[-1])["samples"]
        return {mine[n].name: values for n, values in samples.items()}
    return Case(list(mine.values()), batch)


def cases(ctx):
    install()
    mib = QUICK_MIB if ctx.quick else MIB
    made = [case(ctx, Rind, mib)]
    try:
        made.append(case(ctx, Docker, mib))
    except Skip as e:
        print(f"90-node: without Docker: {e}")
    return made
