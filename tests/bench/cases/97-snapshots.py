"""Snapshots: a sandbox with 10,000 changed files becomes an image, beside `docker commit` of the same; both pause it for the copy.

Each time the image is removed again. rind's image is hashed, synced and unpacked when it answers: it can be started at once; Docker's is a directory
of its layer store."""
import io
import json
import os
import random
import subprocess
import tarfile
import time

from benchlib import Case, Reach, Series, Skip
from engines import IMAGE, Docker, Rind, engine

FILES, BYTES = 10000, 4096
ROUNDS = 5
OURS, THEIRS = f"snapshot of {FILES} files: rind", f"snapshot of {FILES} files: docker commit"


def changes(count):
    data, rng = io.BytesIO(), random.Random(1)
    with tarfile.open(fileobj=data, mode="w") as tar:
        for i in range(count):
            info = tarfile.TarInfo(f"changed/{i % 100}/{i}")
            info.size, info.mode = BYTES, 0o644
            # Half of it compresses, as half of what people write does.
            tar.addfile(info, io.BytesIO(rng.randbytes(BYTES // 2) + b"x" * (BYTES // 2)))
    return data.getvalue()


class Snapshots:
    def __init__(self, ctx):
        self.ctx, self.ready, self.docker, self.why = ctx, False, None, None

    def ask(self, e, what, *args):
        status, body = e.request(*args)
        if status not in (200, 201, 204):
            raise RuntimeError(f"{what}: {status} {body[:300]!r}")
        return json.loads(body) if body and body[:1] in (b"{", b"[") else None

    def prepare(self):
        if self.ready:
            return
        self.rind = engine(self.ctx, Rind)
        tar = changes(1000 if self.ctx.quick else FILES)
        archive = os.path.join(self.ctx.state, "snapshot-root.tar")
        with tarfile.open(archive, "w") as f:
            f.add(self.ctx.root, arcname=".")
        self.cli = [self.ctx.rind[0], "images", "--socket", self.rind.socket]
        subprocess.run(self.cli + ["import", archive, "snapshots:base"], check=True, stdout=subprocess.DEVNULL)
        headers = {"Content-Type": "application/json"}
        self.box = self.ask(self.rind, "create", "POST", "/v1/sandboxes", json.dumps({"image": "snapshots:base", "command": ["/bin/sleep"], "start": False}), headers)["id"]
        self.ask(self.rind, "put", "PUT", f"/v1/sandboxes/{self.box}/files/archive?path=/", tar, {"Content-Type": "application/x-tar"})
        try:
            self.docker = engine(self.ctx, Docker)
        except (Skip, RuntimeError) as e:
            self.why = str(e)
        else:
            self.container = self.ask(self.docker, "create", "POST", "/containers/create", json.dumps({"Image": IMAGE, "Cmd": ["/bin/sleep"]}), headers)["Id"]
            self.ask(self.docker, "put", "PUT", f"/containers/{self.container}/archive?path=/", tar, {"Content-Type": "application/x-tar"})
        self.ready = True

    def timed(self, e, *args):
        os.sync()
        start = time.monotonic()
        made = self.ask(e, "snapshot", *args)
        return (time.monotonic() - start) * 1000, made

    def batch(self, _):
        self.prepare()
        spent, _ = self.timed(self.rind, "POST", f"/v1/sandboxes/{self.box}/snapshot", '{"name":"snapshots:made"}', {"Content-Type": "application/json"})
        subprocess.run(self.cli + ["rm", "snapshots:made"], check=True, stdout=subprocess.DEVNULL)
        result = {OURS: [spent]}
        if self.docker is None:
            print(f"97-snapshots: docker: {self.why}")
            return result
        spent, made = self.timed(self.docker, "POST", f"/commit?container={self.container}&pause=true")
        self.ask(self.docker, "remove", "DELETE", f"/images/{made['Id']}?noprune=true")
        return result | {THEIRS: [spent]}


def cases(ctx):
    s = Snapshots(ctx)
    left = [1 if ctx.quick else ROUNDS]

    def batch(n):
        if left[0] == 0:
            return {}
        left[0] -= 1
        return s.batch(n)
    return [Case([Series(OURS, "ms", THEIRS, Reach(ratio=0.5)), Series(THEIRS, "ms")], batch)]
