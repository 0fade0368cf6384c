"""The suites: how each is fetched on the machine, and how it is run on a host of its own.

A suite is fetched before it is run: fetch() may use the network, run() has none. run() gets an Engine's environment, the
directory that fetch() has returned and a scratch directory, and returns a list of Result.
"""
import dataclasses
import json
import os
import subprocess
import sys

import engine
import fetch
import results

HERE = fetch.HERE
SUITE_LIMIT = 3000  # seconds for a suite; what is still running then has hung
TEST_LIMIT = 40     # seconds for one test of pytest


@dataclasses.dataclass
class Suite:
    name: str
    what: str
    fetch: object  # () -> ({what run needs}, version)
    run: object    # (engine, {…}, scratch) -> [Result]
    socket: str = None


def spawn(argv, env, scratch, **more):
    """Runs it with its output in a log; its exit status, None where it had to be ended."""
    with open(os.path.join(scratch, "output"), "ab") as log:
        p = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, **more)
        try:
            return p.wait(SUITE_LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, 9)
            p.wait()
            return None


def output(scratch):
    with open(os.path.join(scratch, "output"), encoding="utf-8", errors="replace") as f:
        return f.read()


def junit(path, status, scratch):
    """The results of a run; one failure where it wrote none."""
    if os.path.exists(path):
        return results.read_junit(path)
    return [results.Result("the_suite_runs", "failed", f"status {status}: {output(scratch)[-2000:]}")]


# ---- docker-py ---------------------------------------------------------------------------------------------------
DOCKER_PY_IMAGES = ("alpine:3.10", "alpine:latest", "busybox:latest", "busybox:buildroot-2014.02")


def docker_py_fetch(pattern, releases):
    wants = "tests/integration/conftest.py"
    found = fetch.checkout(pattern, wants)
    if found is None:
        found = fetch.APT.source("python-docker", releases, wants)
    source, version = found
    made = os.path.join(source, "docker", "_version.py")  # what building the package writes
    if not os.path.exists(made):
        with open(made, "w", encoding="ascii") as f:
            f.write(f"version = __version__ = {version!r}\n")
    return {"source": source}, version


def docker_py_run(e, needs, scratch):
    e.load_each(DOCKER_PY_IMAGES)
    e.load_each(["hello-world:latest"], {"Cmd": ["echo", "Hello from Docker!"]})
    tree, xml = os.path.join(scratch, "docker-py"), os.path.join(scratch, "junit.xml")
    subprocess.run(["cp", "-a", needs["source"], tree], check=True)  # it writes into where it is run
    argv = ["/usr/bin/python3", "-m", "pytest", "-p", "no:cacheprovider", "-q", "--timeout", str(TEST_LIMIT), "--junitxml", xml, "-o", "junit_family=xunit1",
            "-p", "pytest_clients", "--continue-on-collection-errors", "tests/integration"]
    status = spawn(argv, e.env | {"PYTHONPATH": f"{tree}:{HERE}", "PYTHONDONTWRITEBYTECODE": "1"}, scratch, cwd=tree)
    return junit(xml, status, scratch)


# ---- what npm brings ---------------------------------------------------------------------------------------------
def npm_fetch(package):
    into = fetch.npm()
    return {"npm": into}, fetch.npm_version(into, package)


def dockerode_suite_fetch():
    found = fetch.checkout("dockerode-[0-9]*", "test/container.js")
    if found is None:
        raise fetch.Unreachable("dockerode's package has no tests: name a directory with its checkout in RIND_CLIENTS_SRC")
    return {"npm": fetch.npm(), "source": found[0]}, found[1]


def mocha_results(path):
    """What mocha's json reporter wrote."""
    with open(path, encoding="utf-8") as f:
        run = json.load(f)
    found = []
    for test in run["tests"]:
        bad = test.get("err") or {}
        state = "failed" if bad else "skipped" if test in run["pending"] else "passed"
        found.append(results.Result(test["fullTitle"].replace(" ", "_"), state, (bad.get("message", "") + "\n" + bad.get("stack", ""))[:2000],
                                    (test.get("duration") or 0) / 1000))
    seen = {t["fullTitle"] for t in run["tests"]}
    found += [results.Result(t["fullTitle"].replace(" ", "_"), "failed", (t.get("err") or {}).get("message", "")) for t in run["failures"]
              if t["fullTitle"] not in seen]  # hooks
    return found


def dockerode_suite_run(e, needs, scratch):
    base = engine.base_layer()
    e.load_each(["ubuntu:latest"], {"Cmd": ["/bin/bash"]}, [base, engine.bash_layer()])
    e.load_each(["alpine:latest", "busybox:latest"], None, [base])
    modules = os.path.join(needs["npm"], "node_modules")
    tree = os.path.join(scratch, "dockerode")
    subprocess.run(["cp", "-a", needs["source"], tree], check=True)
    os.symlink(modules, os.path.join(tree, "node_modules"))
    found = []
    for name in sorted(n for n in os.listdir(os.path.join(tree, "test")) if n.endswith(".js") and n != "spec_helper.js"):
        out = os.path.join(scratch, name + ".json")
        status = spawn(["node", os.path.join(modules, "mocha/bin/mocha.js"), "--exit", "-R", "json", "-O", f"output={out}", f"test/{name}"], e.env, scratch, cwd=tree)
        if os.path.exists(out):
            found += mocha_results(out)
        else:
            found.append(results.Result(f"{name}_runs", "failed", f"status {status}: {output(scratch)[-1500:]}"))
    return found


def compose_for_node():
    """The docker command and its compose, which testcontainers calls."""
    needs, version = npm_fetch("testcontainers")
    return needs | {"docker": os.path.join(fetch.APT.deb("docker-cli", "sid")[0], "usr/bin/docker"),
                    "compose": os.path.join(fetch.APT.deb("docker-compose", "sid")[0], "usr/libexec/docker/cli-plugins/docker-compose")}, version


def node_test(file):
    """A suite in a file of Node's test runner, which finds its packages and its daemon in the environment."""
    def run(e, needs, scratch):
        bin_ = os.path.join(scratch, "bin")
        os.mkdir(bin_)
        plugins = os.path.join(e.env["HOME"], ".docker/cli-plugins")
        os.makedirs(plugins)
        if "docker" in needs:
            os.symlink(needs["docker"], os.path.join(bin_, "docker"))
            os.symlink(needs["compose"], os.path.join(plugins, "docker-compose"))
        e.load_each(["alpine:latest", "busybox:latest"])
        xml = os.path.join(scratch, "junit.xml")
        # Modules are looked for from where a file lies.
        copy = os.path.join(scratch, "suite")
        os.makedirs(copy)
        subprocess.run(["cp", os.path.join(HERE, file), os.path.join(HERE, "harness.mjs"), copy], check=True)
        os.symlink(os.path.join(needs["npm"], "node_modules"), os.path.join(copy, "node_modules"))
        status = spawn(["node", "--test", "--test-reporter=junit", f"--test-reporter-destination={xml}", os.path.join(copy, file)],
                       e.env | {"DOCKER_SOCKET": e.socket, "PATH": f"{bin_}:{e.env['PATH']}"} | needs.get("env", {}), scratch)
        return junit(xml, status, scratch)
    return run


def with_env(fetcher, **env):
    def both():
        needs, version = fetcher()
        return needs | {"env": env}, version
    return both


def devcontainers_fetch():
    """The devcontainer command runs the docker command, which is 28's here."""
    needs, version = npm_fetch("@devcontainers/cli")
    return needs | {"docker": os.path.join(fetch.APT.deb("docker-cli", "sid")[0], "usr/bin")}, version


def devcontainers_run(e, needs, scratch):
    e.load_each(["alpine:latest", "busybox:latest"], keep=scratch)
    env = e.env | {"PATH": f"{needs['docker']}:{e.env['PATH']}", "CLIENT": os.path.join(needs["npm"], "node_modules/.bin/devcontainer")}
    return scenario_results("devcontainers.py", env, scratch)


# ---- own scenarios in Python -------------------------------------------------------------------------------------
def scenario_results(module, env, scratch):
    """Runs a module of scenarios and reads what it has written, a line each."""
    out = os.path.join(scratch, "results")
    status = spawn([sys.executable, os.path.join(HERE, module), out], env | {"PYTHONDONTWRITEBYTECODE": "1", "SCRATCH": scratch}, scratch)
    found = []
    if os.path.exists(out):
        with open(out, encoding="utf-8") as f:
            found = [results.Result(**json.loads(line)) for line in f]
    if status != 0 or not found:
        found.append(results.Result("the_suite_runs", "failed", f"status {status}: {output(scratch)[-2000:]}"))
    return found


def scenarios(module):
    """A module of scenario.py's kind: its own process, which prints one JSON object a test."""
    def run(e, needs, scratch):
        e.load_each(["alpine:latest", "busybox:latest"], keep=scratch)
        return scenario_results(module, e.env | {"CLIENT": needs["client"]}, scratch)
    return run


def program(package, release, path):
    """A program of an unpacked package."""
    def fetched():
        into, version = fetch.APT.deb(package, release)
        return {"client": os.path.join(into, path)}, version
    return fetched


def installed(command, package):
    """A program that scripts/deps has installed."""
    def fetched():
        p = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, check=False, text=True)
        if p.returncode != 0 or not os.path.exists(command):
            raise fetch.Unreachable(f"{package} is not installed (scripts/deps clients)")
        return {"client": command}, p.stdout.strip()
    return fetched


SUITES = [
    Suite("docker-py-5", "its integration tests", lambda: docker_py_fetch("python-docker-5.*", ["bookworm"]), docker_py_run),
    Suite("docker-py-7", "its integration tests", lambda: docker_py_fetch("python-docker-7.*", ["sid", "trixie"]), docker_py_run),
    Suite("dockerode-suite", "dockerode's own tests, from a checkout", dockerode_suite_fetch, dockerode_suite_run, "/run/docker.sock"),
    Suite("docker-cli-20", "the docker command, verb by verb", program("docker.io", "bookworm", "usr/bin/docker"), scenarios("cli.py")),
    Suite("docker-cli-28", "the docker command, verb by verb", program("docker-cli", "sid", "usr/bin/docker"), scenarios("cli.py")),
    Suite("compose-1", "docker-compose, by projects", installed("/usr/bin/docker-compose", "docker-compose"), scenarios("compose.py")),
    Suite("compose-2", "docker-compose, by projects", program("docker-compose", "sid", "usr/libexec/docker/cli-plugins/docker-compose"), scenarios("compose.py")),
    Suite("dockerode", "dockerode's methods, scenarios of ours", lambda: npm_fetch("dockerode"), node_test("dockerode.test.mjs")),
    Suite("testcontainers", "testcontainers without its reaper", with_env(compose_for_node, TESTCONTAINERS_RYUK_DISABLED="true"),
          node_test("testcontainers.test.mjs")),
    Suite("testcontainers-ryuk", "testcontainers with its reaper", compose_for_node, node_test("testcontainers.test.mjs")),
    Suite("devcontainers", "the devcontainer command", devcontainers_fetch, devcontainers_run),
]
