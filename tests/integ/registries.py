"""Registries on loopback: the distribution's docker-registry, with TLS, passwords or a token server of the test's own; and one that
misbehaves on demand. Images to put there.

    with Distribution(t, tls=True) as r:      r.host, r.ca
    with Odd() as r:                          r.host, r.log; r.on("GET", "/v2/x/…", answer)
"""
import base64
import gzip
import hashlib
import http.server
import io
import json
import os
import shutil
import socket
import ssl
import subprocess
import tarfile
import threading
import urllib.parse

import audit
from harness import TOP, Skip, wait_for

OCI, DOCKER = "application/vnd.oci.image.", "application/vnd.docker."
MANIFEST_TYPE, INDEX_TYPE = OCI + "manifest.v1+json", OCI + "index.v1+json"
MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
USER, PASSWORD = "user", "pass:word"
BASIC = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
NAME = "registry.test"  # in the hosts of clients, not loopback by name
HOSTS = f"127.0.0.1 localhost\n127.0.0.1 {NAME} other.test\n169.254.169.254 metadata.test\n10.1.2.3 inside.test\n"


def sha(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def layer(name, size=100, seed=b""):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        info = tarfile.TarInfo(name)
        data = hashlib.shake_128(name.encode() + seed).digest(size)
        info.size = len(data)
        t.addfile(info, io.BytesIO(data))
    return out.getvalue()


class Image:
    """Blobs and a manifest. change: edits the manifest."""

    def __init__(self, name="a", layers=1, size=100, platform=None, change=None):
        plain = [layer(f"{name}-{i}", size) for i in range(layers)]
        self.layers = [gzip.compress(p, mtime=0, compresslevel=1) for p in plain]
        self.config = json.dumps({"os": "linux", "architecture": MACHINE, **(platform or {}), "config": {"Cmd": [name]},
                                  "rootfs": {"type": "layers", "diff_ids": [sha(p) for p in plain]}}).encode()
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST_TYPE,
                    "config": {"mediaType": OCI + "config.v1+json", "digest": sha(self.config), "size": len(self.config)},
                    "layers": [{"mediaType": OCI + "layer.v1.tar+gzip", "digest": sha(x), "size": len(x)} for x in self.layers]}
        if change:
            change(manifest)
        self.manifest = json.dumps(manifest).encode()
        self.digest = sha(self.manifest)
        self.blobs = {sha(x): x for x in [self.config, *self.layers]}


def index_of(*entries):
    """An index; entries: (Image, platform or None, more)."""
    return json.dumps({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [
        {"mediaType": MANIFEST_TYPE, "digest": i.digest, "size": len(i.manifest), **({"platform": p} if p else {}), **more}
        for i, p, more in entries]}).encode()


# ---- one that misbehaves ----

class Request:
    def __init__(self, handler, body):
        self.method, self.path, self.headers, self.body = handler.command, handler.path, handler.headers, body
        self.status = 0

    @property
    def auth(self):
        return self.headers.get("Authorization")


class Odd:
    """A registry with the images that it is given; rules answer before it does. A rule gets (handler, request) and returns True when
    it has answered."""

    def __init__(self, tls=None):
        self.log, self.rules, self.images, self.tags, self.lock = [], [], {}, {}, threading.Lock()
        self.uploads, self.blobs, self.manifests = {}, {}, {}
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                request = Request(self, body)
                with outer.lock:
                    outer.log.append(request)
                self.request_now = request
                for rule in list(outer.rules):
                    if rule(self, request):
                        return
                outer.serve(self, request)

            do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

            def reply(self, status, body=b"", headers=()):
                self.request_now.status = status
                self.send_response(status)
                for name, value in dict(headers).items():
                    for v in value if isinstance(value, list) else [value]:
                        self.send_header(name, v)
                if "Content-Length" not in dict(headers):
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def error(self, status, code, message, headers=()):
                self.reply(status, json.dumps({"errors": [{"code": code, "message": message}]}).encode(),
                           {"Content-Type": "application/json", **dict(headers)})

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):  # a client that leaves is what tests are about
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls[:2])
            if len(tls) > 2:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(tls[2])
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.host = f"127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def put(self, repository, image, tag="1"):
        self.blobs.update(image.blobs)
        self.manifests[image.digest] = (image.manifest, MANIFEST_TYPE)
        self.tags[(repository, tag)] = image.digest
        return image

    def put_index(self, repository, index, tag="1"):
        self.manifests[sha(index)] = (index, INDEX_TYPE)
        self.tags[(repository, tag)] = sha(index)

    def rule(self, fn):
        self.rules.append(fn)
        return fn

    def asked(self, method, part):
        with self.lock:
            return [q for q in self.log if q.method == method and part in q.path]

    def serve(self, h, q):
        path = urllib.parse.urlsplit(q.path)
        if path.path == "/v2/":
            return h.reply(200, b"{}")
        parts = path.path[4:].split("/")
        kind = next((k for k in ("manifests", "blobs", "tags") if k in parts), None)
        if not path.path.startswith("/v2/") or kind is None:
            return h.reply(404, b"404 page not found\n")
        at = parts.index(kind)
        repository, rest = "/".join(parts[:at]), parts[at + 1:]
        query = dict(urllib.parse.parse_qsl(path.query))
        if kind == "manifests":
            return self.serve_manifest(h, q, repository, rest[0])
        if kind == "blobs" and rest[0] == "uploads":
            return self.serve_upload(h, q, repository, rest[1] if len(rest) > 1 else "", query)
        return self.serve_blob(h, q, rest[0])

    def serve_manifest(self, h, q, repository, name):
        if q.method == "PUT":
            self.manifests[sha(q.body)] = (q.body, q.headers["Content-Type"])
            self.tags[(repository, name)] = sha(q.body)
            return h.reply(201, b"", {"Docker-Content-Digest": sha(q.body)})
        digest = self.tags.get((repository, name), name)
        if digest not in self.manifests:
            return h.error(404, "MANIFEST_UNKNOWN", "manifest unknown")
        body, kind = self.manifests[digest]
        return h.reply(200, body, {"Content-Type": kind, "Docker-Content-Digest": digest})

    def serve_blob(self, h, q, digest):
        if digest not in self.blobs:
            return h.error(404, "BLOB_UNKNOWN", "blob unknown to registry")
        data, asked = self.blobs[digest], q.headers.get("Range")
        if asked:
            first = int(asked.split("=")[1].split("-")[0])
            if first >= len(data):
                return h.reply(416, b"", {"Content-Range": f"bytes */{len(data)}"})
            return h.reply(206, data[first:], {"Content-Range": f"bytes {first}-{len(data) - 1}/{len(data)}"})
        return h.reply(200, data, {"ETag": f'"{digest}"'})

    def serve_upload(self, h, q, repository, ident, query):
        if q.method == "POST":
            if query.get("mount") in self.blobs:
                return h.reply(201, b"", {"Location": f"/v2/{repository}/blobs/{query['mount']}"})
            ident = str(len(self.uploads))
            self.uploads[ident] = b""
            return h.reply(202, b"", {"Location": f"{ident}?state=a%2Fb"})  # relative to the collection
        if ident not in self.uploads or query.get("state") != "a/b":
            return h.error(404, "BLOB_UPLOAD_UNKNOWN", "upload unknown")
        if q.method == "DELETE":
            del self.uploads[ident]
            return h.reply(204)
        self.uploads[ident] += q.body
        if q.method == "PATCH":
            return h.reply(202, b"", {"Location": f"/v2/{repository}/blobs/uploads/{ident}?state=a%2Fb",
                                      "Range": f"0-{len(self.uploads[ident]) - 1}"})
        data = self.uploads.pop(ident)
        if query.get("digest") != sha(data):
            return h.error(400, "DIGEST_INVALID", "provided digest did not match uploaded content")
        self.blobs[sha(data)] = data
        return h.reply(201, b"", {"Docker-Content-Digest": sha(data)})


class Tokens:
    """A rule for an Odd that wants tokens, and its token server at /token. uses: requests that a token is good for."""

    def __init__(self, odd, uses=1000, realm=None, challenge=None, needs_password=False):
        self.odd, self.uses, self.needs_password, self.given, self.asked = odd, uses, needs_password, {}, []
        self.realm = realm or f"http://{odd.host}/token"
        self.challenge = challenge or (lambda scope: f'Bearer realm="{self.realm}",service="svc",scope="{scope}"')
        odd.rules.insert(0, self.rule)

    def rule(self, h, q):
        url = urllib.parse.urlsplit(q.path)
        if url.path == "/token":
            fields = urllib.parse.parse_qs(url.query or q.body.decode())
            self.asked.append((q.method, fields, q.auth))
            if self.needs_password and q.auth != BASIC and "refresh_token" not in fields:
                h.error(401, "UNAUTHORIZED", "incorrect username or password")
                return True
            token = f"t{len(self.asked)}"
            self.given[token] = self.uses
            h.reply(200, json.dumps({"token": token, "expires_in": 300}).encode())
            return True
        token = (q.auth or "").removeprefix("Bearer ")
        if self.given.get(token, 0) > 0:
            self.given[token] -= 1
            return False
        scope = "" if url.path == "/v2/" else f"repository:{'/'.join(url.path[4:].split('/')[:-2])}:pull"
        h.error(401, "UNAUTHORIZED", "authentication required", {"WWW-Authenticate": self.challenge(scope)})
        return True


# ---- certificates ----

def certificates(t, name=NAME):
    """A CA with a certificate for a name and 127.0.0.1: (ca.pem, cert.pem, key.pem)."""
    ca, key, cert, request = (t.path(f"{name}-{x}") for x in ("ca.pem", "key.pem", "cert.pem", "csr.pem"))
    ca_key, extensions = t.path(f"{name}-ca-key.pem"), t.path(f"{name}-ext")
    t.write(extensions, f"subjectAltName=DNS:{name},IP:127.0.0.1\n")

    def openssl(*args):
        subprocess.run(["openssl", *args], check=True, capture_output=True)

    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", ca_key, "-out", ca,
            "-subj", "/CN=test CA", "-days", "2")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", request,
            "-subj", f"/CN={name}")
    openssl("x509", "-req", "-in", request, "-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-out", cert, "-days", "2",
            "-extfile", extensions)
    return ca, cert, key


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


# ---- the distribution's ----

def distribution_program():
    unpacked = os.path.join(TOP, "build/bench/docker/usr/bin/docker-registry")
    return shutil.which("docker-registry") or (unpacked if os.path.exists(unpacked) else None)


class Distribution:
    """docker-registry with its files below the test's directory. tls: certificates(); password: BASIC's user."""

    def __init__(self, t, tls=None, password=False):
        program = distribution_program()
        if not program:
            raise Skip("docker-registry is not installed")
        where, config = t.path("registry-data"), t.path("registry.yml")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        lines = ["version: 0.1", "log: {level: error, accesslog: {disabled: true}}",
                 f"storage: {{filesystem: {{rootdirectory: {where}}}, delete: {{enabled: true}}}}",
                 f"http: {{addr: '127.0.0.1:{self.port}'" +
                 (f", tls: {{certificate: {tls[1]}, key: {tls[2]}}}" if tls else "") + "}"]
        if password:
            import crypt  # bcrypt is the only form that docker-registry takes; later Pythons lack the module
            t.write(t.path("htpasswd"), f"{USER}:{crypt.crypt(PASSWORD, crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=16))}\n")
            lines.append(f"auth: {{htpasswd: {{realm: test, path: {t.path('htpasswd')}}}}}")
        t.write(config, "\n".join(lines) + "\n")
        self.host = f"127.0.0.1:{self.port}"
        self.proc = subprocess.Popen([program, "serve", config], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL, env={"PATH": os.environ["PATH"], "OTEL_TRACES_EXPORTER": "none"})
        audit.started.add(self.proc.pid)
        wait_for(self.answers, 60, what="that docker-registry listens")

    def answers(self):
        if self.proc.poll() is not None:
            raise AssertionError(f"docker-registry has ended: {self.proc.returncode}")
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.proc.terminate()
        self.proc.wait(30)
