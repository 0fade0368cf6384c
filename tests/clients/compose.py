"""docker-compose, 1.29 and 2, by the projects that people write. The client's first argument, where it has one, is left to `compose()`."""
import json
import os
import re
import time

from scenario import IMAGE, main, scenario

SLEEPER = f"    image: {IMAGE}\n    command: sleep 1000\n    stop_grace_period: 1s\n"
WEB = (f"    image: {IMAGE}\n    command: sh -c 'mkdir -p /w; echo page >/w/index.html; echo serving; exec httpd -f -p 80 -h /w'\n"
       "    stop_grace_period: 1s\n")


def project(t, text, name="docker-compose.yml"):
    """A project of this text, named after the scenario."""
    t.env["COMPOSE_PROJECT_NAME"] = "p"
    t.two = re.search(r"version v?2\.", t.ok("version").splitlines()[0]) is not None
    t.file(name, re.sub(r"^version: .*\n", "", text) if t.two else text)  # 2 warns of it


def up(t, *more, **kw):
    return t.both("up", "-d", *more, seconds=120, **kw)


def box(t, service="a", number=1):
    """The name of a service's container."""
    return f"p{'-' if t.two else '_'}{service}{'-' if t.two else '_'}{number}"


def seen(t, service="a", number=1):
    """What the API says of it; None where it is not there."""
    status, text = t.api("GET", f"/containers/{box(t, service, number)}/json")
    return json.loads(text) if status == 200 else None


@scenario
def up_and_down(t):
    project(t, f"services:\n  a:\n{SLEEPER}")
    up(t)
    t.equal(seen(t)["State"]["Status"], "running")
    t.equal(seen(t)["Config"]["Labels"]["com.docker.compose.service"], "a")
    up(t)
    t.both("down", seconds=120)
    t.equal(seen(t), None)
    t.equal([n for n in json.loads(t.api("GET", "/networks")[1]) if n["Name"].startswith("p_")], [])


@scenario
def services_find_each_other(t):
    project(t, f"services:\n  web:\n{WEB}    networks: {{n: {{aliases: [www]}}}}\n  a:\n{SLEEPER}    networks: [n]\nnetworks:\n  n: {{}}\n")
    up(t)
    for name in ("web", "www", box(t, "web")):
        t.equal(t.ok("exec", "-T", "a", "wget", "-q", "-O", "-", f"http://{name}/"), "page", name)
    t.both("down", seconds=120)


@scenario
def depends_on_with_a_health_check(t):
    project(t, f"version: '2.4'\nservices:\n  db:\n{SLEEPER}    healthcheck: {{test: 'test -e /tmp/well || (sleep 1; touch /tmp/well; false)', interval: 500ms, "
               f"retries: 20, timeout: 5s}}\n  a:\n{SLEEPER}    depends_on: {{db: {{condition: service_healthy}}}}\n")
    up(t)
    t.equal(seen(t, "db")["State"]["Health"]["Status"], "healthy")
    t.check(seen(t)["State"]["StartedAt"] > seen(t, "db")["State"]["StartedAt"], "a starts after db")


@scenario
def depends_on_completion(t):
    project(t, f"services:\n  job:\n    image: {IMAGE}\n    command: sh -c 'sleep 0.5; exit 0'\n  a:\n{SLEEPER}    depends_on: {{job: {{condition: service_completed_successfully}}}}\n")
    if not t.two:
        t.skip("1.29 does not know the condition in this file format")
    up(t)
    t.equal(seen(t)["State"]["Status"], "running")
    t.equal(seen(t, "job")["State"]["ExitCode"], 0)


@scenario
def volumes_named_bound_and_tmpfs(t):
    t.file("src/f", "of the host\n")
    project(t, f"version: '2.4'\nservices:\n  a:\n{SLEEPER}    volumes:\n      - data:/data\n      - ./src:/src:ro\n    tmpfs: /scratch\nvolumes:\n  data: {{labels: {{l: m}}}}\n")
    up(t)
    t.equal(t.ok("exec", "-T", "a", "cat", "/src/f"), "of the host")
    t.ok("exec", "-T", "a", "sh", "-c", "echo kept >/data/f; touch /scratch/x")
    t.both("down", seconds=120)
    up(t)
    t.equal(t.ok("exec", "-T", "a", "cat", "/data/f"), "kept")
    t.both("down", "-v", seconds=120)
    t.equal(t.api("GET", "/volumes/p_data")[0], 404)


@scenario
def environment_and_files(t):
    t.file(".env", "OUTER=from-dotenv\n")
    t.file("more.env", "MORE=1\n")
    project(t, f"version: '2.4'\nservices:\n  a:\n{SLEEPER}    environment: {{A: '${{OUTER}}', B: plain}}\n    env_file: more.env\n    working_dir: /tmp\n    user: '1000'\n    hostname: named\n"
               "    labels: {x: y}\n    mem_limit: 64m\n    extra_hosts: ['db:192.0.2.7']\n    cap_drop: [ALL]\n    ulimits: {nofile: 200}\n    init: true\n")
    up(t)
    t.equal(t.ok("exec", "-T", "a", "sh", "-c", "echo $A $B $MORE $(pwd) $(id -u) $(hostname) $(ulimit -n)"), "from-dotenv plain 1 /tmp 1000 named 200")
    t.equal(seen(t)["HostConfig"]["Memory"], 64 << 20)


@scenario
def scale_and_ports(t):
    project(t, f"services:\n  a:\n{SLEEPER}  web:\n{WEB}    ports: ['127.0.0.1:0:80']\n")
    up(t, "--scale", "a=3")
    t.check(seen(t, "a", 3) is not None, "three of them")
    up(t, "--scale", "a=1")
    t.equal((seen(t, "a", 2), seen(t, "a", 3)), (None, None))
    t.like(t.ok("port", "web", "80"), r"^127\.0\.0\.1:\d+$")


@scenario
def logs_ps_top_and_events(t):
    project(t, f"services:\n  a:\n    image: {IMAGE}\n    command: sh -c 'echo one; echo two; exec sleep 1000'\n    stop_grace_period: 1s\n")
    up(t)
    t.until(lambda: "two" in t.ok("logs"), "the lines")
    t.like(t.ok("logs", "--no-color", "a"), r"^(p_)?a[-_]1 +\| one$|^p-a-1 +\| one$")
    t.equal(len([x for x in t.ok("logs", "--tail", "1", "a").splitlines() if "|" in x]), 1, "logs --tail 1")
    t.like(t.ok("ps"), re.escape(box(t)))
    t.equal(t.ok("ps", "-q"), seen(t)["Id"])
    t.like(t.ok("top"), "sleep")
    with open(os.path.join(t.dir, "followed"), "w+", encoding="utf-8") as out:
        p = t.popen("logs", "-f", stdout=out)
        t.until(lambda: out.seek(0) == 0 and "two" in out.read(), "logs -f shows the lines")
    t.both("kill", seconds=60)
    t.equal(p.wait(30), 0, "logs -f ends")


@scenario
def exec_and_its_status(t):
    project(t, f"services:\n  a:\n{SLEEPER}")
    up(t)
    t.equal(t.run("exec", "-T", "a", "sh", "-c", "echo o; exit 6")[:2], (6, "o\n"))
    t.equal(t.ok("exec", "-T", "-e", "X=1", "-u", "1000", "-w", "/tmp", "a", "sh", "-c", "echo $X $(id -u) $(pwd)"), "1 1000 /tmp")


@scenario
def run_starts_what_it_needs(t):
    project(t, f"services:\n  db:\n{SLEEPER}  a:\n    image: {IMAGE}\n    depends_on: [db]\n    entrypoint: ['sh', '-c']\n")
    code, out, err = t.run("run", "--rm", "-T", "-e", "X=7", "a", "echo x$$X; exit 3".replace("$$", "$"), seconds=120)
    t.equal((code, out), (3, "x7\n"), err)
    t.equal(seen(t, "db")["State"]["Status"], "running")
    t.ok("run", "-d", "--name", "named", "a", "sleep 100", seconds=120)
    t.equal(t.api("GET", "/containers/named/json")[0], 200)


@scenario
def restart_stop_start_pause(t):
    project(t, f"services:\n  a:\n{SLEEPER}")
    up(t)
    before = seen(t)
    t.both("restart", "-t", "1")
    t.check(seen(t)["State"]["StartedAt"] != before["State"]["StartedAt"], "it is started anew")
    t.equal(seen(t)["Id"], before["Id"])
    t.both("pause")
    t.equal(seen(t)["State"]["Status"], "paused")
    t.both("unpause")
    t.both("stop", "-t", "1")
    t.equal(seen(t)["State"]["Status"], "exited")
    t.both("start")
    t.equal(seen(t)["State"]["Status"], "running")
    t.both("kill", "-s", "KILL")
    t.until(lambda: seen(t)["State"]["Status"] == "exited", "killed")
    t.both("rm", "-f")
    t.equal(seen(t), None)


@scenario
def a_change_recreates(t):
    text = f"services:\n  a:\n{SLEEPER}    environment: {{X: '1'}}\n    volumes: ['/anon']\n  b:\n{SLEEPER}"
    project(t, text)
    up(t)
    before, other = seen(t)["Id"], seen(t, "b")["Id"]
    t.ok("exec", "-T", "a", "touch", "/anon/kept")
    project(t, text.replace("'1'", "'2'"))
    up(t)
    t.check(seen(t)["Id"] != before, "a changed service is made anew")
    t.equal(seen(t, "b")["Id"], other, "another one stays")
    t.equal(t.ok("exec", "-T", "a", "sh", "-c", "echo $X; ls /anon"), "2\nkept", "anonymous volumes go over")
    up(t, "--force-recreate", "b")
    t.check(seen(t, "b")["Id"] != other, "--force-recreate")
    project(t, f"services:\n  a:\n{SLEEPER}")
    up(t, "--remove-orphans")
    t.equal(seen(t, "b"), None, "--remove-orphans")


@scenario
def profiles_choose(t):
    project(t, f"version: '3.9'\nservices:\n  a:\n{SLEEPER}  debug:\n{SLEEPER}    profiles: [dbg]\n")
    up(t)
    t.equal(seen(t, "debug"), None)
    t.prefix = ["--profile", "dbg"]
    up(t)
    t.equal(seen(t, "debug")["State"]["Status"], "running")


@scenario
def config_is_shown(t):
    project(t, f"services:\n  a:\n{SLEEPER}")
    t.like(t.ok("config"), r"image: alpine")
    t.equal(t.ok("config", "--services"), "a")


@scenario
def up_in_the_foreground(t):
    project(t, f"services:\n  a:\n    image: {IMAGE}\n    command: sh -c 'echo done; exit 5'\n")
    code, out, err = t.run("up", "--exit-code-from", "a", seconds=120)
    t.equal(code, 5, out + err)
    t.check("done" in out + err, f"{out} {err}")


@scenario
def networks_of_several_kinds(t):
    project(t, f"version: '2.4'\nservices:\n  a:\n{SLEEPER}    networks: [front, back]\n  b:\n{SLEEPER}    networks: [back]\n  lone:\n{SLEEPER}    network_mode: none\n"
               "networks:\n  front: {}\n  back: {internal: true}\n")
    up(t)
    t.equal(sorted(seen(t)["NetworkSettings"]["Networks"]), ["p_back", "p_front"])


@scenario
def a_network_with_addresses(t):
    project(t, f"version: '2.4'\nservices:\n  a:\n{SLEEPER}    networks: {{n: {{ipv4_address: 10.78.0.9}}}}\nnetworks:\n  n: {{ipam: {{config: [{{subnet: 10.78.0.0/24}}]}}}}\n")
    up(t)
    t.like(t.ok("exec", "-T", "a", "ip", "addr"), r"10\.78\.0\.9/")


@scenario
def a_service_with_an_address_is_made_anew(t):
    text = (f"version: '2.4'\nservices:\n  web:\n{WEB}    environment: {{X: '1'}}\n    networks: {{n: {{ipv4_address: 10.78.0.9}}}}\n  a:\n{SLEEPER}    networks: [n]\n"
            "networks:\n  n: {ipam: {config: [{subnet: 10.78.0.0/24, gateway: 10.78.0.254, aux_addresses: {nas: 10.78.0.1}}]}}\n")
    project(t, text)
    up(t)
    net = json.loads(t.api("GET", "/networks/p_n")[1])
    t.equal(net["IPAM"]["Config"], [{"Subnet": "10.78.0.0/24", "Gateway": "10.78.0.254", "AuxiliaryAddresses": {"nas": "10.78.0.1"}}])
    before, address = seen(t, "web")["Id"], seen(t, "web")["NetworkSettings"]["Networks"]["p_n"]["IPAddress"]
    t.equal(address, "10.78.0.9")
    if t.two:  # 1.29 makes no service anew: a_change_recreates
        project(t, text.replace("'1'", "'2'"))
        up(t)
        t.check(seen(t, "web")["Id"] != before, "made anew")
    t.until(lambda: t.run("exec", "-T", "a", "wget", "-q", "-O", "-", "http://10.78.0.9/")[1].strip() == "page", "at the same address")
    t.both("down", seconds=120)


@scenario
def links_and_network_of_a_service(t):
    project(t, f"version: '2.4'\nservices:\n  web:\n{WEB}  a:\n{SLEEPER}    links: ['web:site']\n  side:\n{SLEEPER}    network_mode: 'service:web'\n")
    up(t)
    t.equal(t.ok("exec", "-T", "a", "wget", "-q", "-O", "-", "http://site/"), "page")
    t.equal(t.ok("exec", "-T", "side", "wget", "-q", "-O", "-", "http://127.0.0.1/"), "page")


@scenario
def configs_and_secrets_as_files(t):
    t.file("secret.txt", "hidden\n")
    project(t, f"version: '3.8'\nservices:\n  a:\n{SLEEPER}    secrets: [s]\nsecrets:\n  s: {{file: ./secret.txt}}\n")
    up(t)
    t.equal(t.ok("exec", "-T", "a", "cat", "/run/secrets/s"), "hidden")


@scenario
def cp_and_images(t):
    project(t, f"services:\n  a:\n{SLEEPER}")
    up(t)
    t.like(t.ok("images"), "alpine")
    if not t.two:
        t.skip("1.29 has no cp")
    t.file("f", "copied")
    t.both("cp", "f", "a:/tmp/f")
    t.equal(t.ok("exec", "-T", "a", "cat", "/tmp/f"), "copied")
    t.both("cp", "a:/tmp/f", "back")
    with open(os.path.join(t.dir, "back"), encoding="ascii") as f:
        t.equal(f.read(), "copied")


@scenario
def wait_watches_health(t):
    project(t, f"services:\n  a:\n{SLEEPER}    healthcheck: {{test: 'true', interval: 300ms}}\n")
    if not t.two:
        t.skip("1.29 has no --wait")
    up(t, "--wait")
    t.equal(seen(t)["State"]["Health"]["Status"], "healthy")
    t.like(t.ok("ps"), r"\(healthy\)")
    t.like(t.ok("ls"), r"^p +running\(1\)")
    t.like(t.ok("stats", "--no-stream"), re.escape(box(t)))


@scenario
def resources_of_deploy(t):
    project(t, f"version: '3.8'\nservices:\n  a:\n{SLEEPER}    deploy: {{resources: {{limits: {{cpus: '0.5', memory: 64M}}, reservations: {{memory: 32M}}}}}}\n")
    if not t.two:
        t.prefix = ["--compatibility"]
        t.env["COMPOSE_COMPATIBILITY"] = "1"
    up(t)
    time.sleep(0.1)
    t.equal((seen(t)["HostConfig"]["Memory"], seen(t)["HostConfig"]["NanoCpus"]), (64 << 20, 500000000))


@scenario
def a_build_of_a_service(t):
    t.file("Dockerfile", f"FROM {IMAGE}\nRUN echo built >/built\nCMD sleep 1000\n")
    project(t, "services:\n  a:\n    build: .\n    stop_grace_period: 1s\n")
    t.env["DOCKER_BUILDKIT"] = "0"
    up(t)
    t.equal(t.ok("exec", "-T", "a", "cat", "/built"), "built")


main()
