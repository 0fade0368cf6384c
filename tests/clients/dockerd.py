"""A dockerd instead of rind, for `run --docker`: whether a scenario asks for what Docker does, or for what we believed.

The programs are unpacked, not installed: dockerd and containerd of sid, runc of Debian 12, which its C library can run. It is to be started on a
host of isolate.py's, whose network, firewall, mounts and cgroups are not the machine's.
"""
import os
import shutil
import subprocess
import time

import engine
import fetch

PACKAGES = (("docker.io", "sid", "usr/sbin"), ("containerd", "sid", "usr/bin"), ("runc", "bookworm", "usr/sbin"), ("tini", "sid", "usr/bin"))


def fetch_all():
    """The PATH of what was unpacked."""
    return ":".join(os.path.join(fetch.APT.deb(name, release)[0], where) for name, release, where in PACKAGES)


class Dockerd(engine.Engine):
    """A running dockerd; `with` ends it and takes its files away."""

    def __init__(self, socket_path, path):
        super().__init__(socket_path)
        self.path = path

    def _spawn(self, *argv):
        with open(self.log, "ab") as log:
            return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=os.environ | {"PATH": f"{self.path}:{os.environ['PATH']}"})

    def __enter__(self):
        self.proc = self._spawn("dockerd", "--config-file", "/dev/null", "--host", f"unix://{self.socket}", "--data-root", f"{self.dir}/data", "--exec-root",
                                f"{self.dir}/exec", "--pidfile", f"{self.dir}/pid", "--group", "root", "--storage-driver", "vfs", "--log-level", "warn",
                                "--userland-proxy=false", "--ip6tables=false", "--exec-opt", "native.cgroupdriver=cgroupfs", "--init-path",
                                shutil.which("tini", path=self.path))
        end = time.monotonic() + engine.READY_LIMIT
        while True:
            try:
                if self.request("GET", "/_ping")[0] == 200:
                    return self
            except OSError:
                pass
            if self.proc.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"dockerd is not ready: {self.text()[-1500:]}")
            time.sleep(0.1)

    def __exit__(self, *_):
        self.proc.terminate()
        try:
            self.proc.wait(engine.READY_LIMIT)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
        shutil.rmtree(self.dir, ignore_errors=True)
