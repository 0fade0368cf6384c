"""Images made by hand: layers as tar archives, put into OCI layouts and archives of docker save, whole or broken."""
import gzip
import hashlib
import io
import json
import os
import tarfile

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
APPLETS = "sh ls cat id env pwd stat test echo sleep find wc grep sha256sum true false mkdir touch rm ps head tr kill".split()


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def tar(*entries):
    """Entries: (name, content: bytes), (name, None, {tarinfo attributes})."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as f:
        for name, content, *more in entries:
            info = tarfile.TarInfo(name)
            info.mode = 0o755 if content is None else 0o644
            info.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            info.size = len(content or b"")
            for key, value in (more[0] if more else {}).items():
                setattr(info, key, value)
            f.addfile(info, io.BytesIO(content) if content and info.type == tarfile.REGTYPE else None)
    return out.getvalue()


def link(name, to, kind=tarfile.SYMTYPE):
    return (name, b"", {"type": kind, "linkname": to, "mode": 0o777})


def busybox(*more):
    """A layer with a shell, and users root and bob."""
    with open("/bin/busybox", "rb") as f:
        box = f.read()
    return tar(("bin", None), ("bin/busybox", box, {"mode": 0o755}), *[link(f"bin/{a}", "busybox") for a in APPLETS], ("etc", None),
               ("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nbob:x:1000:1000::/home/bob:/bin/sh\n"),
               ("etc/group", b"root:x:0:\nbob:x:1000:\n"), ("tmp", None, {"mode": 0o1777}), *more)


def config(layers, run=None, **more):
    """A configuration for these (uncompressed) layers."""
    return {"architecture": "amd64" if os.uname().machine == "x86_64" else "arm64", "os": "linux", "config": run or {},
            "rootfs": {"type": "layers", "diff_ids": [digest(x) for x in layers]}} | more


class Layout:
    """An OCI layout, of which anything may be changed before it is packed."""

    def __init__(self, layers, run=None, name=None, compress=gzip.compress, suffix="+gzip", cfg=None):
        self.layers = layers
        self.config = cfg if cfg is not None else config(layers, run)
        self.blobs = [compress(x) if compress else x for x in layers]
        self.type = LAYER + (suffix if compress else "")
        self.name = name
        self.damage = {}  # digest -> other content
        self.change_manifest = lambda m: m
        self.change_index = lambda i: i

    def files(self):
        files = {}

        def blob(data, kind):
            d = digest(data)
            files["blobs/sha256/" + d[7:]] = data
            return {"mediaType": kind, "digest": d, "size": len(data)}

        text = self.config if isinstance(self.config, bytes) else json.dumps(self.config).encode()
        m = {"schemaVersion": 2, "mediaType": MANIFEST, "config": blob(text, CONFIG), "layers": [blob(b, self.type) for b in self.blobs]}
        m = self.change_manifest(m)
        entry = blob(m if isinstance(m, bytes) else json.dumps(m).encode(), MANIFEST)
        if self.name:
            entry["annotations"] = {"org.opencontainers.image.ref.name": self.name}
        files["index.json"] = json.dumps(self.change_index({"schemaVersion": 2, "manifests": [entry]})).encode()
        files["oci-layout"] = b'{"imageLayoutVersion":"1.0.0"}'
        for d, data in self.damage.items():
            files["blobs/sha256/" + d[7:]] = data
        return files

    def tar(self):
        return tar(*sorted(self.files().items()))

    def directory(self, path):
        for name, data in self.files().items():
            os.makedirs(os.path.dirname(os.path.join(path, name)), exist_ok=True)
            with open(os.path.join(path, name), "wb") as f:
                f.write(data)
        return path

    @property
    def id(self):
        return digest(self.config if isinstance(self.config, bytes) else json.dumps(self.config).encode())


def docker_archive(layers, run=None, tags=("app:1",), names=None, extra=(), manifest=None):
    """What docker save writes since 1.10: manifest.json. names: of the layers' files."""
    cfg = json.dumps(config(layers, run)).encode()
    names = names or [f"{i}/layer.tar" for i in range(len(layers))]
    m = manifest or [{"Config": "config.json", "RepoTags": list(tags), "Layers": names}]
    return tar(("config.json", cfg), *zip(names, layers), *extra, ("manifest.json", json.dumps(m).encode()))


def docker_archive_v1(layers, run=None, name="app", tag="old"):
    """What docker save wrote before that: a directory a layer, which names its parent."""
    entries, parent = [], None
    for i, layer in enumerate(layers):
        about = {"id": f"{i:064x}", "created": "2015-01-01T00:00:00Z", "architecture": config([])["architecture"], "os": "linux"}
        if parent:
            about["parent"] = parent
        if i == len(layers) - 1:
            about["config"] = run or {}
        parent = about["id"]
        entries += [(parent, None), (f"{parent}/VERSION", b"1.0"), (f"{parent}/json", json.dumps(about).encode()),
                    (f"{parent}/layer.tar", layer)]
    return tar(*entries, ("repositories", json.dumps({name: {tag: parent}}).encode()))
