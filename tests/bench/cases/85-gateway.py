"""HTTP through the gateway: wrk asks nginx in a sandbox by its preview URL, and the same nginx from inside of the sandbox's own net
namespace, with nothing in between."""
import json
import os
import re
import shutil
import subprocess
import time
from urllib.parse import urlsplit

from benchlib import Case, Series, Skip
from engines import DOCKER_DIRS, Rind, cpu_seconds, descendants, engine

SECONDS, QUICK_SECONDS = 2, 1  # of one run of wrk
CONNS = 16
PORT = 8080
READY = 20
CONF = f"""daemon off; master_process off; error_log /dev/null; pid /tmp/nginx.pid;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 1000000000; client_body_temp_path /tmp/1; proxy_temp_path /tmp/2; fastcgi_temp_path /tmp/3;
  uwsgi_temp_path /tmp/4; scgi_temp_path /tmp/5;
  server {{ listen 127.0.0.1:{PORT}; root /www; }}
}}
"""


def program(name):
    path = shutil.which(name, path=":".join(DOCKER_DIRS + ["/usr/sbin", "/usr/bin"]))
    if not path:
        raise Skip(f"no {name} here; scripts/deps bench brings it")
    return path


def root_with_nginx(ctx):
    """The host's nginx and the libraries that it is linked with, as a root directory."""
    root = os.path.join(ctx.root, "nginx")
    nginx = program("nginx")
    for d in ("usr/sbin", "etc", "www", "tmp", "proc", "sys", "dev", "var/lib/nginx", "var/log/nginx"):
        os.makedirs(os.path.join(root, d))
    os.chmod(os.path.join(root, "tmp"), 0o1777)
    shutil.copy(nginx, os.path.join(root, "usr/sbin/nginx"))
    listed = subprocess.run(["ldd", nginx], stdout=subprocess.PIPE, text=True, check=True).stdout
    for lib in re.findall(r"(/\S+) \(0x", listed):
        os.makedirs(os.path.join(root, os.path.dirname(lib)[1:]), exist_ok=True)
        shutil.copy(lib, os.path.join(root, lib[1:]))
    for name, text in (("etc/nginx.conf", CONF), ("etc/passwd", "root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"),
                       ("etc/group", "root:x:0:\nnogroup:x:65534:\n"), ("www/index.html", "x" * 1024)):
        with open(os.path.join(root, name), "w", encoding="ascii") as f:
            f.write(text)
    return root


def namespace(pid):
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return None


def wait_for(call, what):
    end = time.monotonic() + READY
    while True:
        found = call()
        if found:
            return found
        if time.monotonic() > end:
            raise RuntimeError(what)
        time.sleep(0.02)


def cases(ctx):
    wrk = program("wrk")
    root = root_with_nginx(ctx)
    e = engine(ctx, Rind)
    kind = {"Content-Type": "application/json"}
    status, body = e.request("POST", "/v1/sandboxes", json.dumps({
        "name": "bench-nginx", "rootfs": root, "start": True, "command": ["/usr/sbin/nginx", "-c", "/etc/nginx.conf"]}), kind)
    if status != 201:
        raise RuntimeError(f"create: {status} {body[:300]!r}")
    wait_for(lambda: e.request("GET", f"/v1/sandboxes/bench-nginx/http/{PORT}/")[0] == 200, "nginx does not answer")
    status, body = e.request("POST", "/v1/sandboxes/bench-nginx/exposures", json.dumps({"port": PORT}), kind)
    if status not in (200, 201):
        raise RuntimeError(f"expose: {status} {body[:300]!r}")
    host = urlsplit(json.loads(body)["url"]).netloc
    # The process whose program is the root's nginx, by its file, as the path is the sandbox's own.
    wanted = os.stat(os.path.join(root, "usr/sbin/nginx"))

    def inside():
        for pid in descendants(e.procs[0].pid):
            try:
                st = os.stat(f"/proc/{pid}/exe")
            except OSError:
                continue
            if st.st_size == wanted.st_size and namespace(pid) not in (None, namespace("self")):
                return pid
        return None

    pid = wait_for(inside, "nginx is no process of the daemon's")
    ways = {
        "gateway": [wrk, "-H", f"Host: {host}", f"http://127.0.0.1:{host.rpartition(':')[2]}/"],
        "nginx itself": ["nsenter", f"--net=/proc/{pid}/ns/net", wrk, f"http://127.0.0.1:{PORT}/"],
    }
    seconds = QUICK_SECONDS if ctx.quick else SECONDS

    def name(who, what):
        return f"http, {who}: {what}"

    def batch(_):
        result = {}
        for who, argv in ways.items():
            before = cpu_seconds(e.daemons())
            at = argv.index(wrk) + 1
            text = subprocess.run([*argv[:at], "-t1", f"-c{CONNS}", f"-d{seconds}s", "--latency", *argv[at:]], stdout=subprocess.PIPE,
                                  text=True, check=True, timeout=seconds + 30).stdout
            bad = re.search(r"Non-2xx.*|Socket errors.*", text)
            count = int(re.search(r"(\d+) requests in", text).group(1))
            if bad or count == 0:
                raise RuntimeError(f"wrk: {bad.group(0) if bad else text}")
            rate = float(re.search(r"Requests/sec:\s+([\d.]+)", text).group(1))
            value, unit = re.search(r"50%\s+([\d.]+)(us|ms|s)", text).groups()
            result[name(who, "time for a request")] = [1e6 / rate]
            result[name(who, f"latency, {CONNS} connections")] = [float(value) * {"us": 1, "ms": 1e3, "s": 1e6}[unit]]
            if who == "gateway":
                result[name(who, "CPU of a request")] = [(cpu_seconds(e.daemons()) - before) * 1e6 / count]
        return result

    plain = {what: name("nginx itself", what) for what in ("time for a request", f"latency, {CONNS} connections")}
    series = [Series(name("gateway", what), peer=peer) for what, peer in plain.items()]
    series += [Series(name("gateway", "CPU of a request"))] + [Series(peer) for peer in plain.values()]
    return [Case(series, batch)]
