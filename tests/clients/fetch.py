"""What the suites need from outside: packages of the distribution and of npm, unpacked below build/clients and kept there.

Nothing is installed. The distribution's other releases have a sources.list, lists and a cache of their own below build/clients,
so that the machine's /etc/apt stays as it is. A source that cannot be fetched ends the suites that need it, and no others.

    build/clients/apt       lists and cache
    build/clients/deb/NAME  an unpacked package
    build/clients/src/NAME  an unpacked source; a directory that is there already is taken as it is
    build/clients/npm       node_modules by tests/clients/package-lock.json
"""
import glob
import hashlib
import os
import re
import shutil
import subprocess

TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
HERE = os.path.join(TOP, "tests", "clients")
BUILD = os.path.join(TOP, "build", "clients")
MIRROR = "http://deb.debian.org/debian"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
RELEASES = ("bookworm", "trixie", "sid")
LIMIT = 900  # seconds for one command of apt or npm
# A checkout of a client whose released packages carry no tests: $RIND_CLIENTS_SRC/NAME is copied to build/clients/src.
ELSEWHERE = os.environ.get("RIND_CLIENTS_SRC")


class Unreachable(Exception):
    """A source is not to be had, with the reason as one line."""


def _run(argv, what, **more):
    try:
        p = subprocess.run(argv, capture_output=True, timeout=LIMIT, check=False, stdin=subprocess.DEVNULL, **more)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise Unreachable(f"{what}: {e}") from None
    if p.returncode != 0:
        lines = (p.stderr or p.stdout).decode(errors="replace").strip().splitlines()
        said = [x for x in lines if re.match(r"(E:|npm (ERR!|error))", x)] or lines or ["no output"]
        raise Unreachable(f"{what}: {said[0][:200]}")
    return p.stdout.decode(errors="replace")


class Apt:
    """apt with the three releases, below build/clients/apt."""

    def __init__(self):
        self.dir, self.ready = os.path.join(BUILD, "apt"), False

    def _options(self):
        # apt-get reads the machine's status file otherwise, and would choose versions by what is installed.
        status = os.path.join(self.dir, "status")
        return ["-o", f"Dir::Etc::sourcelist={self.dir}/sources.list", "-o", "Dir::Etc::sourceparts=/dev/null",
                "-o", "Dir::Etc::preferencesparts=/dev/null", "-o", f"Dir::State::lists={self.dir}/lists", "-o", f"Dir::Cache={self.dir}/cache",
                "-o", f"Dir::State::status={status}", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=2"]

    def update(self):
        """Fetches the lists, once a run."""
        if self.ready:
            return
        for d in ("lists/partial", "cache/archives/partial"):
            os.makedirs(os.path.join(self.dir, d), exist_ok=True)
        with open(os.path.join(self.dir, "status"), "w", encoding="ascii"):
            pass
        with open(os.path.join(self.dir, "sources.list"), "w", encoding="ascii") as f:
            for release in RELEASES:
                for kind in ("deb", "deb-src"):
                    f.write(f"{kind} [signed-by={KEYRING}] {MIRROR} {release} main\n")
        _run(["apt-get", *self._options(), "-qq", "update"], "apt-get update")
        self.ready = True

    def deb(self, name, release):
        """An unpacked package of that release: (its directory, its version)."""
        into = os.path.join(BUILD, "deb", f"{name}-{release}")
        if not os.path.isdir(into):
            self.update()
            download = into + ".download"
            shutil.rmtree(download, ignore_errors=True)
            os.makedirs(download)
            _run(["apt-get", *self._options(), "-qq", "download", f"{name}/{release}"], f"{name} of {release}", cwd=download)
            [deb] = glob.glob(download + "/*.deb")
            _run(["dpkg-deb", "-x", deb, download + "/root"], f"unpack {name}")
            version = _run(["dpkg-deb", "-f", deb, "Version"], f"version of {name}").strip()
            with open(download + "/root/.version", "w", encoding="utf-8") as f:
                f.write(version)
            os.rename(download + "/root", into)
            shutil.rmtree(download)
        with open(into + "/.version", encoding="utf-8") as f:
            return into, f.read().strip()

    def source(self, name, releases, wants):
        """An unpacked source package of the first of these releases that can be had with the path `wants` in it."""
        reasons = []
        for release in releases:
            try:
                return self._source(name, release, wants)
            except Unreachable as e:
                reasons.append(str(e))
        raise Unreachable("; ".join(reasons))

    def _source(self, name, release, wants):
        self.update()
        listed = _run(["apt-cache", *self._options(), "showsrc", "--only-source", name], f"source {name}")
        policy = _run(["apt-get", *self._options(), "-qq", "--print-uris", "source", "--only-source", f"{name}/{release}"],
                      f"source {name} of {release}")
        found = re.search(re.escape(name) + r"_([^_/\s']+)\.orig\.tar", policy)
        if not found or name not in listed:
            raise Unreachable(f"source {name} of {release}: not listed")
        into = os.path.join(BUILD, "src", f"{name}-{found[1]}")
        if not os.path.isdir(into):
            half = into + ".half"
            shutil.rmtree(half, ignore_errors=True)
            os.makedirs(half)
            _run(["apt-get", *self._options(), "-qq", "source", "--only-source", f"{name}/{release}"], f"source {name} of {release}", cwd=half)
            [tree] = [d for d in glob.glob(half + "/*") if os.path.isdir(d)]
            os.rename(tree, into)
            shutil.rmtree(half)
        if not os.path.exists(os.path.join(into, wants)):
            raise Unreachable(f"source {name} {found[1]} of {release}: has no {wants}")
        return into, found[1]


APT = Apt()


def checkout(pattern, wants):
    """(directory, version) of a source that is below build/clients/src already, or a copy of one that RIND_CLIENTS_SRC has."""
    if ELSEWHERE:
        for path in glob.glob(os.path.join(ELSEWHERE, pattern)):
            into = os.path.join(BUILD, "src", os.path.basename(path))
            if not os.path.isdir(into):
                os.makedirs(os.path.dirname(into), exist_ok=True)
                shutil.copytree(path, into, symlinks=True)
    for path in sorted(glob.glob(os.path.join(BUILD, "src", pattern)), reverse=True):
        if os.path.exists(os.path.join(path, wants)):
            return path, path.rpartition("-")[2]
    return None


def npm():
    """Installs what tests/clients/package-lock.json names; the directory that has node_modules."""
    into, lock = os.path.join(BUILD, "npm"), os.path.join(HERE, "package-lock.json")
    os.makedirs(into, exist_ok=True)
    with open(lock, "rb") as f:
        want = hashlib.sha256(f.read()).hexdigest()
    mark = os.path.join(into, ".installed")
    if os.path.exists(mark):
        with open(mark, encoding="ascii") as f:
            if f.read() == want:
                return into
    for name in ("package.json", "package-lock.json"):
        shutil.copy(os.path.join(HERE, name), into)
    _run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--fetch-retries=2"], "npm ci", cwd=into)
    with open(mark, "w", encoding="ascii") as f:
        f.write(want)
    return into


def npm_version(into, package):
    """The installed version of a package."""
    with open(os.path.join(into, "node_modules", package, "package.json"), encoding="utf-8") as f:
        return re.search(r'"version":\s*"([^"]+)"', f.read())[1]
