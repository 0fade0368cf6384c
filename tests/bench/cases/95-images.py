"""Images: a start from one of 40 layers beside one of a single layer, and loading beside what others do with the same archive.

Both images have the same files. Loading is `rind load` into an empty store without a daemon (its start and end are in it): the archive
is split, every digest checked, blobs are written to disk and layers unpacked. `skopeo copy` and `umoci unpack` do the same in two steps; `docker
load` is its daemon's; `tar x` only unpacks the layer. All read from the page cache; rind and docker sync what they store, the others do not."""
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import time

from benchlib import Case, Reach, Series, Skip, load_case
from engines import Docker, engine

unpack = load_case("90-unpack.py")
LAYERS = 40
STARTS_REACH = 1.3
ROUNDS = 3


def add(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = len(data), 1700000000, 0o755
    tar.addfile(info, io.BytesIO(data))


def archive(path, layers, name):
    """As docker save writes it; layers are files of tar archives."""
    ids = []
    for layer in layers:
        with open(layer, "rb") as f:
            ids.append("sha256:" + hashlib.file_digest(f, "sha256").hexdigest() if hasattr(hashlib, "file_digest")
                       else "sha256:" + hashlib.sha256(f.read()).hexdigest())
    config = {"architecture": "amd64" if os.uname().machine == "x86_64" else "arm64", "os": "linux", "config": {"Cmd": ["/bin/true"]},
              "rootfs": {"type": "layers", "diff_ids": ids}}
    with tarfile.open(path, "w") as tar:
        add(tar, "config.json", json.dumps(config).encode())
        for i, layer in enumerate(layers):
            tar.add(layer, f"{i}.tar")
        manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": [f"{i}.tar" for i in range(len(layers))]}]
        add(tar, "manifest.json", json.dumps(manifest).encode())
    return path


class Images:
    def __init__(self, ctx):
        self.ctx, self.ready, self.archives = ctx, False, {}

    def path(self, name):
        return os.path.join(self.ctx.state, "images-" + name)

    def layer(self, name, first, last):
        """bin/true, and numbered files."""
        with tarfile.open(self.path(name), "w") as tar:
            tar.add(os.path.join(self.ctx.root, "bin", "true"), "bin/true")
            for i in range(first, last):
                add(tar, f"usr/share/f{i}", str(i).encode())
        return self.path(name)

    def prepare(self):
        if self.ready:
            return
        many = [self.layer(f"l{i}", i, i + 1) for i in range(LAYERS)]
        one = [self.layer("all", 0, LAYERS)]
        for layers, name in ((many, "many"), (one, "one")):
            subprocess.run(self.ctx.rind + ["load", archive(self.path(name + ".tar"), layers, name + ":1")], check=True, stdout=subprocess.DEVNULL)
        self.ready = True

    def starts(self, n):
        self.prepare()
        return self.ctx.spawn({f"rind run, image of {what}": self.ctx.rind + ["run", name + ":1"]
                               for what, name in ((f"{LAYERS} layers", "many"), ("1 layer", "one"))}, n)

    # ---- loading ----
    def made(self, what):
        if what not in self.archives:
            layer = unpack.Unpack(self.ctx).archive(what)
            self.archives[what] = (layer, archive(self.path(what.replace(" ", "-") + "-image.tar"), [layer], "big:1"))
        return self.archives[what]

    def timed(self, command, *dirs):
        for d in dirs:
            shutil.rmtree(d, ignore_errors=True)
        os.sync()
        start = time.monotonic()
        for c in command:  # a round that is cut off fails the case, not the run
            subprocess.run(c, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=unpack.BUDGET)
        spent = (time.monotonic() - start) * 1000
        for d in dirs:
            shutil.rmtree(d, ignore_errors=True)
        return [spent]

    def loads(self, what):
        layer, image = self.made(what)
        state, oci, bundle, tree = (self.path(x) for x in ("state", "oci", "bundle", "tree"))
        rind = [self.ctx.rind[0], "--state", state]
        result = {f"load {what}: rind load": self.timed([rind + ["load", image]], state)}
        os.makedirs(tree, exist_ok=True)
        result[f"load {what}: tar x of the layer"] = self.timed([["mkdir", "-p", tree], ["tar", "-x", "-f", layer, "-C", tree]], tree)
        if shutil.which("skopeo") and shutil.which("umoci"):
            result[f"load {what}: skopeo copy + umoci unpack"] = self.timed(
                [["skopeo", "--insecure-policy", "copy", "-q", f"docker-archive:{image}", f"oci:{oci}:x"],
                 ["umoci", "unpack", "--image", f"{oci}:x", bundle]], oci, bundle)
        try:
            docker = engine(self.ctx, Docker)
            client = docker._program("docker")
        except (Skip, RuntimeError):
            return result
        host = [client, "-H", "unix://" + docker.socket]
        result[f"load {what}: docker load"] = self.timed([host + ["load", "-q", "-i", image]])
        subprocess.run(host + ["rmi", "-f", "big:1"], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return result


def cases(ctx):
    images = Images(ctx)
    one = "rind run, image of 1 layer"
    starts = Case([Series(f"rind run, image of {LAYERS} layers", "us", one, Reach(ratio=STARTS_REACH)), Series(one, "us")], images.starts)

    def loading(what):
        tar = f"load {what}: tar x of the layer"
        series = [Series(f"load {what}: rind load", "ms", tar)] + [Series(f"load {what}: {x}", "ms", tar) for x in
                                                                    ("skopeo copy + umoci unpack", "docker load")] + [Series(tar, "ms")]
        return Case(series, unpack.rounds(1 if ctx.quick else ROUNDS, lambda: images.loads(what)))

    return [starts] + [loading(what) for what in unpack.ARCHIVES]
