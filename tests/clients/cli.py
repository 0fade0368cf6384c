"""Docker's own command, verb by verb: status, words and the shape of its tables."""
import io
import json
import os
import pty
import re
import select
import subprocess
import tarfile
import termios
import time

from scenario import IMAGE, main, scenario

ID = r"[0-9a-f]{64}"
SHORT = r"[0-9a-f]{12}"
SERVER = "mkdir /w; echo page >/w/index.html; exec httpd -f -p 80 -h /w"


def sleeper(t, *options):
    """A running container; its id."""
    box = t.ok("run", "-d", *options, IMAGE, "sleep", "1000")
    t.like(box, f"^{ID}$", "id of run -d")
    return box


# ---- the engine --------------------------------------------------------------------------------------------------
@scenario
def version_has_no_empty_fields(t):
    text = t.ok("version")
    t.like(text, r"^Server:", "version")
    server = text.partition("Server:")[2]
    for field in ("Version", "API version", "Go version", "OS/Arch"):
        t.like(server, rf"{field}: +\S", field)
    t.like(t.ok("version", "--format", "{{.Server.Version}}"), r"^\d")


@scenario
def info_describes_the_host(t):
    text = t.ok("info")
    for field in ("Containers", "Images", "Server Version", "Cgroup Driver", "Cgroup Version", "Kernel Version", "Operating System", "OSType",
                  "Architecture", "CPUs", "Total Memory", "Name", "Docker Root Dir", "Storage Driver", "Logging Driver"):
        t.like(text, rf"^ *{field}: +\S", field)
    t.like(t.ok("info", "-f", "{{.Swarm.LocalNodeState}} {{.Driver}} {{.NCPU}}"), r"^inactive \S+ \d+$")


@scenario
def system_df_and_prune(t):
    t.like(t.ok("system", "df"), r"^TYPE +TOTAL +ACTIVE +SIZE +RECLAIMABLE$")
    t.ok("system", "df", "-v")
    t.ok("run", IMAGE, "true")
    out = t.ok("system", "prune", "-f")
    t.like(out, f"^Deleted Containers:\n{ID}$")
    t.like(out, r"^Total reclaimed space: ")
    t.ok("system", "prune", "-f", "-a", "--volumes", "--filter", "label=nosuch")


@scenario
def events_tell_what_happens(t):
    since = str(int(time.time()) - 1)
    t.ok("run", "--name", "ev", "--rm", IMAGE, "true")
    t.ok("volume", "create", "evv")
    t.ok("network", "create", "evn")
    t.ok("network", "rm", "evn")
    t.ok("volume", "rm", "evv")
    out = t.ok("events", "--since", since, "--until", str(int(time.time()) + 1), "--format", "{{.Type}} {{.Action}}", seconds=20).splitlines()
    want = ["container create", "container attach", "container start", "container die", "container destroy", "volume create", "volume destroy",
            "network create", "network destroy"]
    t.equal([w for w in want if w not in out], [], "events that are missing")
    t.like(t.ok("events", "--since", since, "--until", str(int(time.time()) + 1), "-f", "container=ev", "-f", "event=die"), r"container die [0-9a-f]+ \(.*exitCode=0.*name=ev")


@scenario
def what_there_is_not_is_said(t):
    t.fails(1, r"(?i)this node is not a swarm manager", "node", "ls")
    t.fails(1, r"(?i)this node is not a swarm manager", "service", "ls")
    t.like(t.ok("plugin", "ls"), "^ID +NAME")
    t.ok("context", "ls")


# ---- run ---------------------------------------------------------------------------------------------------------
@scenario
def run_statuses_are_docker_s(t):
    t.equal(t.run("run", "--rm", IMAGE, "sh", "-c", "echo out; echo err >&2; exit 7"), (7, "out\n", "err\n"))
    t.fails(127, r'exec: "nosuch": executable file not found in \$PATH', "run", "--rm", IMAGE, "nosuch")
    t.fails(126, r"(?i)permission denied|is a directory", "run", "--rm", IMAGE, "/etc")
    t.fails(125, r"(?i)nosuch", "run", "--rm", "--pull", "never", "nosuch:1")
    t.fails(125, r'network nosuch not found', "run", "--rm", "--network", "nosuch", IMAGE, "true")
    t.equal(t.run("run", "--rm", IMAGE, "sh", "-c", "sleep 100 & kill -9 $!; wait $!")[0], 137)


@scenario
def run_takes_the_everyday_options(t):
    t.file("env", "FILE=yes\n# comment\nEMPTY=\n")
    out = t.ok("run", "--rm", "-e", "A=b", "--env-file", "env", "-w", "/tmp", "-u", "1000:1000", "-h", "named", "--entrypoint", "sh", IMAGE, "-c",
               "echo $A $FILE $(pwd) $(id -u):$(id -g) $(hostname)")
    t.equal(out, "b yes /tmp 1000:1000 named")
    t.equal(t.ok("run", "--rm", "-i", IMAGE, "cat", stdin="to stdin\n"), "to stdin")
    t.ok("run", "--rm", "--init", IMAGE, "true")
    t.ok("run", "--cidfile", os.path.join(t.dir, "cid"), "--rm", IMAGE, "true")
    with open(os.path.join(t.dir, "cid"), encoding="ascii") as f:
        t.like(f.read(), f"^{ID}$", "--cidfile")
    t.equal(t.ok("run", "--rm", "--label", "a=b", "--name", "nn", "--platform", "linux/amd64", IMAGE, "echo", "x"), "x")
    t.equal(t.ok("ps", "-aq"), "")


@scenario
def run_with_a_terminal(t):
    master, slave = pty.openpty()
    p = t.popen("run", "--rm", "-it", IMAGE, "sh", "-c", "tty; stty size; read x; echo got:$x", stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    os.write(master, b"typed\n")
    seen, end = b"", time.monotonic() + 30
    while time.monotonic() < end and b"got:typed" not in seen:
        if select.select([master], [], [], 1)[0]:
            try:
                seen += os.read(master, 4096)
            except OSError:
                break
    t.like(seen.decode(), r"/dev/(pts/\d+|console)")
    t.check(b"got:typed" in seen, f"{seen!r}")
    t.equal(p.wait(30), 0)
    os.close(master)


@scenario
def detach_keys_leave_it_running(t):
    master, slave = pty.openpty()
    p = t.popen("run", "-it", "--name", "kept", IMAGE, "sh", stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    seen = b""

    def reads():
        """What the command has written so far; an error of the terminal is its end."""
        nonlocal seen
        if select.select([master], [], [], 0)[0]:
            try:
                seen += os.read(master, 4096)
            except OSError:
                pass
        return seen
    # Keys that come before the command has its terminal in raw mode are the terminal's: it swallows ctrl-q.
    t.until(lambda: not termios.tcgetattr(master)[3] & termios.ICANON, "the terminal is raw")
    t.until(lambda: b"#" in reads(), "the shell asks for a command")
    os.write(master, b"\x10\x11")
    t.until(lambda: (reads(), p.poll() is not None)[1], "run -it ends after ctrl-p ctrl-q")
    os.close(master)
    t.equal(t.ok("inspect", "-f", "{{.State.Running}}", "kept"), "true")


@scenario
def limits_of_resources(t):
    box = sleeper(t, "-m", "64m", "--cpus", "0.5", "--pids-limit", "50", "--ulimit", "nofile=100:200", "--shm-size", "16m")
    t.equal(t.ok("inspect", "-f", "{{.HostConfig.Memory}} {{.HostConfig.NanoCpus}} {{.HostConfig.PidsLimit}} {{.HostConfig.ShmSize}}", box),
            "67108864 500000000 50 16777216")
    t.equal(t.ok("exec", box, "sh", "-c", "ulimit -n; ulimit -Hn"), "100\n200")
    t.like(t.ok("exec", box, "df", "/dev/shm"), "16384")
    t.equal(t.run("run", "--rm", "-m", "16m", IMAGE, "sh", "-c", "x=a; while :; do x=$x$x; done")[0], 137, "out of memory")


@scenario
def memory_swap_and_reservation(t):
    box = sleeper(t, "-m", "64m", "--memory-swap", "128m", "--memory-reservation", "32m", "--memory-swappiness", "10")
    t.equal(t.ok("inspect", "-f", "{{.HostConfig.MemorySwap}} {{.HostConfig.MemoryReservation}}", box), "134217728 33554432")


@scenario
def cpu_shares_and_cpuset(t):
    box = sleeper(t, "-c", "512", "--cpuset-cpus", "0")
    t.equal(t.ok("inspect", "-f", "{{.HostConfig.CpuShares}} {{.HostConfig.CpusetCpus}}", box), "512 0")
    t.equal(t.ok("exec", box, "nproc"), "1")


@scenario
def update_changes_limits(t):
    box = sleeper(t, "-m", "64m")
    t.equal(t.ok("update", "--restart", "on-failure:3", box), box)
    t.equal(t.ok("update", "-m", "96m", "--memory-swap", "96m", box), box)
    t.equal(t.ok("inspect", "-f", "{{.HostConfig.Memory}}", box), str(96 << 20))
    t.equal(t.ok("update", "--cpus", "0.7", "--pids-limit", "77", box), box)


@scenario
def tmpfs_takes_options(t):
    out = t.ok("run", "--rm", "--tmpfs", "/t:rw,noexec,nosuid,size=1m,mode=0700", IMAGE, "sh", "-c", "grep ' /t ' /proc/mounts; stat -c %a /t")
    t.like(out, r"^tmpfs /t tmpfs .*noexec.*size=1024k")
    t.like(out, "^700$")
    t.like(t.ok("run", "--rm", "--mount", "type=tmpfs,dst=/t,tmpfs-size=2m,tmpfs-mode=1770", IMAGE, "sh", "-c", "grep ' /t ' /proc/mounts; stat -c %a /t"), "size=2048k")
    t.like(t.ok("run", "--rm", "--tmpfs", "/t:exec,uid=1000,gid=1000", IMAGE, "stat", "-c", "%u:%g", "/t"), "^1000:1000$")


@scenario
def volumes_of_all_kinds(t):
    host = os.path.join(t.dir, "host")
    os.mkdir(host)
    t.file("host/f", "of the host\n")
    t.equal(t.ok("run", "--rm", "-v", f"{host}:/h", IMAGE, "sh", "-c", "cat /h/f; echo x >/h/new"), "of the host")
    t.check(os.path.exists(os.path.join(host, "new")), "a bind is written through")
    t.fails(1, "(?i)read-only file system", "run", "--rm", "-v", f"{host}:/h:ro", IMAGE, "touch", "/h/z")
    t.fails(1, "(?i)read-only file system", "run", "--rm", "--mount", f"type=bind,src={host},dst=/h,readonly", IMAGE, "touch", "/h/z")
    t.equal(t.ok("run", "--rm", "-v", "named:/d", IMAGE, "sh", "-c", "echo kept >/d/f"), "")
    t.equal(t.ok("run", "--rm", "--mount", "source=named,target=/d", IMAGE, "cat", "/d/f"), "kept")
    t.ok("run", "--rm", "-v", "/anonymous", IMAGE, "touch", "/anonymous/f")
    t.equal(t.ok("volume", "ls", "-q"), "named", "--rm takes the anonymous volume")
    missing = os.path.join(t.dir, "is", "made")
    t.ok("run", "--rm", "-v", f"{missing}:/h", IMAGE, "true")
    t.check(os.path.isdir(missing), "-v makes the directory of the host")
    t.fails(125, "bind source path does not exist", "run", "--rm", "--mount", f"type=bind,src={t.dir}/nosuch,dst=/h", IMAGE, "true")


@scenario
def volumes_from_another_container(t):
    sleeper(t, "--name", "has", "-v", "/d")
    t.ok("exec", "has", "sh", "-c", "echo shared >/d/f")
    t.equal(t.ok("run", "--rm", "--volumes-from", "has", IMAGE, "cat", "/d/f"), "shared")


@scenario
def a_read_only_root(t):
    t.fails(1, "(?i)read-only file system", "run", "--rm", "--read-only", IMAGE, "touch", "/x")
    t.fails(1, "(?i)read-only file system", "run", "--rm", "--read-only", IMAGE, "sh", "-c", "echo 1 >>/etc/hosts")
    t.ok("run", "--rm", "--read-only", "--tmpfs", "/tmp", IMAGE, "touch", "/tmp/x")


@scenario
def capabilities_and_security_options(t):
    t.ok("run", "--rm", "--cap-drop", "ALL", "--cap-add", "CHOWN", IMAGE, "chown", "1000", "/tmp")
    t.ok("run", "--rm", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", IMAGE, "true")
    t.ok("run", "--rm", "--security-opt", "no-new-privileges:true", IMAGE, "true")
    t.fails(125, "(?i)privileged", "run", "--rm", "--privileged", IMAGE, "true")
    t.fails(125, "(?i)pid", "run", "--rm", "--pid", "host", IMAGE, "true")


@scenario
def ptrace_and_unconfined_seccomp(t):
    for options in (["--cap-add", "SYS_PTRACE"], ["--security-opt", "seccomp=unconfined"], ["--cap-add=SYS_PTRACE", "--security-opt", "seccomp=unconfined"]):
        t.equal(t.run("run", "--rm", *options, IMAGE, "true")[:2], (0, ""), f"run {' '.join(options)}")  # a warning is allowed


@scenario
def sysctls_of_the_network(t):
    t.equal(t.ok("run", "--rm", "--sysctl", "net.ipv4.ip_unprivileged_port_start=1000", IMAGE, "cat", "/proc/sys/net/ipv4/ip_unprivileged_port_start"), "1000")


@scenario
def names_and_hosts(t):
    out = t.ok("run", "--rm", "--add-host", "db:192.0.2.9", "--add-host", "host.docker.internal:host-gateway", IMAGE, "cat", "/etc/hosts")
    t.like(out, r"^192\.0\.2\.9\s+db$")
    t.like(out, r"^[0-9.]+\s+host\.docker\.internal$")
    t.equal(t.ok("run", "--rm", "-h", "a", "--domainname", "b.c", IMAGE, "hostname", "-f").split("\n")[0], "a.b.c")


@scenario
def dns_options(t):
    out = t.ok("run", "--rm", "--dns", "192.0.2.53", "--dns-search", "example.com", "--dns-option", "ndots:2", IMAGE, "cat", "/etc/resolv.conf")
    t.like(out, "192.0.2.53")
    t.like(out, r"^search example\.com")
    t.like(out, r"^options .*ndots:2")


@scenario
def options_that_hint(t):
    for options in (["--oom-score-adj", "100"], ["--log-driver", "none"], ["--log-driver", "json-file", "--log-opt", "max-size=1m"],
                    ["--group-add", "10", "--stop-signal", "INT", "--stop-timeout", "3"], ["--ipc", "private", "--cgroupns", "private"],
                    ["--blkio-weight", "300"], ["--mac-address", "02:42:ac:11:00:09"], ["--runtime", "runc"], ["--isolation", "default"]):
        code, _, err = t.run("run", "--rm", *options, IMAGE, "true")
        t.check(code == 0, f"run {' '.join(options)}: {code} {err!r}")


@scenario
def a_docker_file_marks_the_root(t):
    t.ok("run", "--rm", IMAGE, "test", "-e", "/.dockerenv")


@scenario
def health_checks(t):
    box = sleeper(t, "--health-cmd", "test -e /tmp/well", "--health-interval", "300ms", "--health-retries", "2", "--health-timeout", "2s")
    t.equal(t.ok("inspect", "-f", "{{.State.Health.Status}}", box), "starting")
    t.until(lambda: t.ok("inspect", "-f", "{{.State.Health.Status}}", box) == "unhealthy", "unhealthy")
    t.ok("exec", box, "touch", "/tmp/well")
    t.until(lambda: t.ok("inspect", "-f", "{{.State.Health.Status}}", box) == "healthy", "healthy")
    t.like(t.ok("ps", "--format", "{{.Status}}"), r"^Up .* \(healthy\)$")
    t.equal(t.ok("ps", "-q", "--no-trunc", "-f", "health=healthy"), box)
    t.ok("stop", "-t", "1", box)
    t.equal(t.ok("inspect", "-f", "{{.State.Health.Status}}", box), "unhealthy")


@scenario
def restart_policies(t):
    t.ok("run", "-d", "--name", "again", "--restart", "on-failure:2", IMAGE, "sh", "-c", "exit 3")
    t.until(lambda: t.ok("inspect", "-f", "{{.RestartCount}} {{.State.Status}}", "again") == "2 exited", "two restarts")
    t.ok("run", "-d", "--name", "always", "--restart", "always", IMAGE, "sleep", "1000")
    t.ok("stop", "-t", "0", "always")
    t.equal(t.ok("inspect", "-f", "{{.State.Status}}", "always"), "exited")


# ---- the life of a container -------------------------------------------------------------------------------------
@scenario
def create_start_stop_restart_kill_wait_rm(t):
    box = t.ok("create", "--name", "box", IMAGE, "sleep", "1000")
    t.equal(t.ok("start", "box"), "box")
    t.equal(t.ok("start", "box"), "box", "a start of what runs")
    t.equal(t.ok("restart", "-t", "0", "box"), "box")
    t.equal(t.ok("kill", "-s", "KILL", "box"), "box")
    t.equal(t.ok("wait", "box"), "137")
    t.fails(1, r"(?i)is not running", "kill", "box")
    t.equal(t.ok("start", "box"), "box")
    t.equal(t.ok("stop", "-t", "0", "box"), "box")
    t.equal(t.ok("stop", "box"), "box", "a stop of what does not run")
    t.equal(t.ok("start", box), box)
    t.fails(1, r"(?i)stop the container before", "rm", "box")
    t.equal(t.ok("rm", "-f", "box"), "box")
    t.fails(1, r"No such container: box", "rm", "box")


@scenario
def start_attached(t):
    t.ok("create", "--name", "box", "-i", IMAGE, "sh", "-c", "cat; exit 5")
    code, out, _ = t.run("start", "-ai", "box", stdin="hello\n")
    t.equal((code, out), (5, "hello\n"))


@scenario
def pause_and_rename(t):
    box = sleeper(t, "--name", "old")
    t.equal(t.ok("pause", "old"), "old")
    t.like(t.ok("ps", "--format", "{{.Status}}"), r"\(Paused\)")
    t.fails(1, r"(?i)paused", "exec", "old", "true")
    t.equal(t.ok("unpause", "old"), "old")
    t.ok("rename", "old", "new")
    t.equal(t.ok("inspect", "-f", "{{.Name}} {{.Id}}", "new"), f"/new {box}")
    sleeper(t, "--name", "other")
    t.fails(1, r"(?i)already in use", "rename", "other", "new")


@scenario
def ps_and_its_filters(t):
    sleeper(t, "--name", "up", "--label", "k=v")
    t.run("run", "--name", "down", IMAGE, "sh", "-c", "exit 4")
    text = t.ok("ps", "-a")
    t.like(text, r"^CONTAINER ID +IMAGE +COMMAND +CREATED +STATUS +PORTS +NAMES$")
    t.like(text, rf'^{SHORT} +alpine +"sleep 1000" +.*ago +Up .* +up$')
    t.like(text, r"Exited \(4\) .* ago +down$")
    for options, want in ([("-f", "label=k=v"), "up"], [("-f", "status=exited"), "down"], [("-f", "exited=4"), "down"], [("-f", "name=^up$"), "up"],
                          [("-f", "ancestor=alpine", "-f", "status=running"), "up"], [("-n", "1"), "down"], [("-l",), "down"], [("-f", "since=up"), "down"],
                          [("-f", "before=down"), "up"]):
        t.equal(t.ok("ps", "-a", "--format", "{{.Names}}", *options), want, f"ps {options}")
    t.like(t.ok("ps", "-as"), r"SIZE")
    t.like(t.ok("ps", "--no-trunc", "-q"), f"^{ID}$")


@scenario
def inspect_and_what_is_not_there(t):
    box = sleeper(t, "--name", "seen")
    t.equal(t.json("inspect", "seen")[0]["Id"], box)
    t.equal(t.ok("inspect", "-f", "{{.Config.Image}} {{json .Config.Cmd}}", "seen"), 'alpine ["sleep","1000"]')
    t.ok("inspect", "-s", "-f", "{{.SizeRootFs}}", "seen")
    t.like(t.ok("inspect", "--type", "image", "-f", "{{.Id}}", "alpine"), f"^sha256:{ID}$")
    t.fails(1, r"No such object: nosuch", "inspect", "nosuch")
    t.fails(1, r"No such container: nosuch", "container", "inspect", "nosuch")
    t.fails(1, r"No such image: nosuch", "image", "inspect", "nosuch")
    t.fails(1, r"no such volume|No such volume", "volume", "inspect", "nosuch")
    t.fails(1, r"network nosuch not found|No such network: nosuch", "network", "inspect", "nosuch")


@scenario
def logs_of_all_kinds(t):
    box = t.ok("run", "-d", IMAGE, "sh", "-c", "echo one; sleep 1.2; echo two; echo three >&2; exec sleep 1000")
    t.until(lambda: "three" in "".join(t.run("logs", box)[1:]), "the last line")
    t.equal(t.run("logs", box)[1:], ("one\ntwo\n", "three\n"))
    t.equal(t.ok("logs", "--tail", "1", box) + t.run("logs", "-n", "1", box)[2], "three\n")
    t.like(t.ok("logs", "-t", box), r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z one$")
    stamp = t.ok("logs", "-t", box).split("\n")[1].split(" ")[0]
    t.equal(t.ok("logs", "--since", stamp, box), "two")
    t.equal(t.ok("logs", "--until", stamp.replace("Z", "Z"), box).split("\n")[0], "one")
    t.like(t.ok("logs", "--since", "10m", box), "one")
    p = t.popen("logs", "-f", "--tail", "0", box, stdout=subprocess.PIPE)
    t.ok("kill", box)
    t.equal(p.wait(20), 0, "logs -f ends with the container")


@scenario
def exec_in_its_ways(t):
    box = sleeper(t)
    t.equal(t.run("exec", box, "sh", "-c", "echo o; echo e >&2; exit 9"), (9, "o\n", "e\n"))
    t.equal(t.ok("exec", "-e", "A=1", "-w", "/tmp", "-u", "1000", box, "sh", "-c", "echo $A $(pwd) $(id -u)"), "1 /tmp 1000")
    t.equal(t.ok("exec", "-i", box, "cat", stdin="in\n"), "in")
    t.ok("exec", "-d", box, "touch", "/tmp/done")
    t.until(lambda: t.run("exec", box, "test", "-e", "/tmp/done")[0] == 0, "the detached one is done")
    code, out, err = t.run("exec", box, "nosuch")
    t.equal(code, 127)
    t.like(out + err, r'exec: "nosuch": executable file not found in \$PATH')
    t.fails(1, r"(?i)no such container: nosuch", "exec", "nosuch", "true")
    t.file("env", "F=2\n")
    t.equal(t.ok("exec", "--env-file", "env", box, "sh", "-c", "echo $F"), "2")


@scenario
def attach_and_its_end(t):
    box = t.ok("run", "-d", "-i", IMAGE, "sh", "-c", "read x; echo got $x; sleep 0.5; exit 3")
    code, out, _ = t.run("attach", box, stdin="line\n")
    t.equal((code, out), (3, "got line\n"))


@scenario
def top_stats_port_diff(t):
    box = sleeper(t, "-m", "64m", "-p", "127.0.0.1:0:8080", "-p", "127.0.0.1:0:53/udp")
    t.like(t.ok("top", box), r"^UID +PID +PPID +C +STIME +TTY +TIME +CMD$")
    t.like(t.ok("top", box), r"sleep 1000$")
    t.like(t.ok("top", box, "-o", "pid,comm"), r"^PID +COMMAND$")
    text = t.ok("stats", "--no-stream", box)
    t.like(text, r"^CONTAINER ID +NAME +CPU % +MEM USAGE / LIMIT +MEM % +NET I/O +BLOCK I/O +PIDS")
    t.like(text, r"[\d.]+[KM]iB / 64MiB")
    t.like(t.ok("stats", "--no-stream", "--format", "{{.PIDs}}", box), r"^[1-9]")
    t.like(t.ok("port", box), r"^8080/tcp -> 127\.0\.0\.1:\d+$")
    t.like(t.ok("port", box, "8080"), r"^127\.0\.0\.1:\d+$")
    t.ok("exec", box, "sh", "-c", "echo x >/made; rm /etc/alpine-release")
    t.like(t.ok("diff", box), r"^A /made$")
    t.like(t.ok("diff", box), r"^D /etc/alpine-release$")


@scenario
def cp_in_and_out(t):
    box = sleeper(t, "--name", "box")
    t.file("in/a", "A")
    t.file("in/d/b", "B")
    t.ok("cp", "in", "box:/tmp/")
    t.equal(t.ok("exec", box, "cat", "/tmp/in/a", "/tmp/in/d/b"), "AB")
    t.ok("cp", "in/.", "box:/srv")
    t.equal(t.ok("exec", box, "ls", "/srv"), "a\nd")
    t.ok("cp", "box:/srv", "out")
    with open(os.path.join(t.dir, "out/d/b"), encoding="ascii") as f:
        t.equal(f.read(), "B")
    archive = subprocess.run([t.client, "cp", "box:/srv/d", "-"], capture_output=True, env=t.env, check=True).stdout
    t.equal(tarfile.open(fileobj=io.BytesIO(archive)).getnames(), ["d", "d/b"])
    t.ok("cp", "-", "box:/opt", stdin=archive)
    t.equal(t.ok("exec", box, "cat", "/opt/d/b"), "B")
    t.ok("stop", "-t", "0", "box")
    t.ok("cp", "box:/opt/d/b", "stopped")
    t.ok("cp", "in/a", "box:/opt/d/a")
    t.fails(1, r"(?i)could not find the file|no such (file|container:path)", "cp", "box:/nosuch", "x")


@scenario
def commit_export_import(t):
    t.ok("run", "--name", "box", IMAGE, "sh", "-c", "echo changed >/made")
    t.like(t.ok("commit", "-m", "why", "-a", "me", "-c", "ENV X=y", "-c", 'CMD ["cat", "/made"]', "box", "snap:1"), f"^sha256:{ID}$")
    t.equal(t.ok("run", "--rm", "snap:1"), "changed")
    t.like(t.ok("inspect", "-f", "{{json .Config.Env}} {{.Author}} {{.Comment}}", "snap:1"), r"X=y.* me why")
    t.ok("export", "-o", "fs.tar", "box")
    t.check("made" in tarfile.open(os.path.join(t.dir, "fs.tar")).getnames(), "export")
    t.like(t.ok("import", "-c", "ENV Y=z", "-c", "CMD [\"sh\"]", "fs.tar", "imported:1"), f"^sha256:{ID}$")
    t.equal(t.ok("run", "--rm", "imported:1", "sh", "-c", "cat /made; echo $Y"), "changed\nz")


@scenario
def prunes_say_what_they_take(t):
    box = t.ok("create", IMAGE, "true")
    t.like(t.ok("container", "prune", "-f"), f"^Deleted Containers:\n{box}\n\nTotal reclaimed space: ")
    t.ok("volume", "create", "keep")
    t.ok("volume", "prune", "-f")
    t.ok("network", "create", "gone")
    t.like(t.ok("network", "prune", "-f"), "^Deleted Networks:\ngone")
    t.like(t.ok("image", "prune", "-f"), "^Total reclaimed space: ")


# ---- images ------------------------------------------------------------------------------------------------------
@scenario
def images_and_their_verbs(t):
    t.like(t.ok("images"), r"^(REPOSITORY +TAG +IMAGE ID +CREATED +SIZE|IMAGE +ID +DISK USAGE)")
    t.like(t.ok("images", "-q", "--no-trunc", "alpine"), f"^sha256:{ID}$")
    t.like(t.ok("images", "--format", "{{.Repository}}:{{.Tag}}", "-f", "reference=alp*"), "^alpine:latest$")
    t.ok("tag", "alpine", "mine:2")
    t.like(t.ok("history", "mine:2"), r"^IMAGE +CREATED +CREATED BY +SIZE +COMMENT$")
    t.ok("save", "-o", "s.tar", "mine:2")
    t.like(t.ok("rmi", "mine:2"), "^Untagged: mine:2$")
    t.equal(t.ok("load", "-i", "s.tar"), "Loaded image: mine:2")
    saved = subprocess.run([t.client, "save", "mine:2", "busybox"], capture_output=True, env=t.env, check=True).stdout
    names = tarfile.open(fileobj=io.BytesIO(saved)).getnames()
    t.check("manifest.json" in names, f"save to stdout: {names}")
    t.like(t.ok("load", "-q", stdin=saved), "Loaded image: busybox:latest")
    t.ok("image", "rm", "-f", "mine:2")
    t.fails(1, r"(?i)no such image: nosuch", "rmi", "nosuch")
    t.like(t.ok("image", "ls", "-a", "--digests"), "DIGEST|alpine")


@scenario
def an_image_in_use_stays(t):
    box = sleeper(t)
    t.fails(1, rf"(?i)conflict: .*(container {box[:12]}|is using)", "rmi", IMAGE)


@scenario
def a_load_of_garbage_is_refused(t):
    t.fails(1, r".", "load", stdin=b"no archive at all" * 100)


@scenario
def a_pull_of_what_is_there(t):
    t.like(t.both("pull", "alpine"), r"alpine:latest")


@scenario
def pull_push_search_login_need_a_registry(t):
    t.fails(1, r".", "pull", "nosuch.example/x:1")
    t.fails(1, r".", "push", "alpine")
    t.fails(1, r".", "search", "alpine")


@scenario
def build_makes_an_image(t):
    t.file("Dockerfile", "FROM alpine\nRUN echo built >/built\nCMD cat /built\n")
    t.env["DOCKER_BUILDKIT"] = "0"
    t.ok("build", "-t", "built:1", ".")
    t.equal(t.ok("run", "--rm", "built:1"), "built")


# ---- volumes and networks ----------------------------------------------------------------------------------------
@scenario
def volumes_as_objects(t):
    t.equal(t.ok("volume", "create", "--label", "a=b", "vol"), "vol")
    t.like(t.ok("volume", "ls"), r"^DRIVER +VOLUME NAME\nlocal +vol$")
    v = t.json("volume", "inspect", "vol")[0]
    t.equal((v["Name"], v["Driver"], v["Scope"], v["Labels"]), ("vol", "local", "local", {"a": "b"}))
    t.equal(t.ok("volume", "ls", "-q", "-f", "label=a=b", "-f", "dangling=true"), "vol")
    sleeper(t, "-v", "vol:/d")
    t.fails(1, r"(?i)volume is in use", "volume", "rm", "vol")
    anonymous = t.ok("volume", "create")
    t.like(anonymous, f"^{ID}$")
    t.like(t.ok("volume", "prune", "-f"), anonymous)


@scenario
def volumes_of_the_local_driver_with_options(t):
    os.mkdir(os.path.join(t.dir, "data"))
    t.ok("volume", "create", "--opt", "type=tmpfs", "--opt", "device=tmpfs", "--opt", "o=size=1m", "tmp")
    t.like(t.ok("run", "--rm", "-v", "tmp:/d", IMAGE, "grep", " /d ", "/proc/mounts"), "^tmpfs /d")
    t.ok("volume", "create", "--opt", "type=none", "--opt", "o=bind", "--opt", f"device={t.dir}/data", "bnd")
    t.ok("run", "--rm", "-v", "bnd:/d", IMAGE, "touch", "/d/f")
    t.check(os.path.exists(os.path.join(t.dir, "data/f")), "a bind by a volume")


@scenario
def networks_and_names(t):
    t.like(t.ok("network", "create", "--label", "a=b", "net"), f"^{ID}$")
    t.like(t.ok("network", "ls"), r"^NETWORK ID +NAME +DRIVER +SCOPE$")
    t.like(t.ok("network", "ls"), rf"^{SHORT} +net +bridge +local$")
    t.ok("run", "-d", "--name", "web", "--network", "net", "--network-alias", "www", IMAGE, "sh", "-c", SERVER)
    for name in ("web", "www"):
        t.equal(t.ok("run", "--rm", "--network", "net", IMAGE, "sh", "-c", f"for i in 1 2 3 4 5 6 7 8; do wget -q -O - http://{name}/ && break; sleep 0.3; done"), "page", name)
    t.equal(sorted(c["Name"] for c in t.json("network", "inspect", "net")[0]["Containers"].values()), ["web"])
    t.fails(1, r"(?i)has active endpoints", "network", "rm", "net")
    t.fails(1, r"(?i)already exists", "network", "create", "net")
    t.ok("network", "create", "--internal", "inner")


@scenario
def names_are_answered_by_dns(t):
    t.ok("network", "create", "net")
    sleeper(t, "--name", "web", "--network", "net")
    box = sleeper(t, "--network", "net")
    t.like(t.ok("exec", box, "nslookup", "web"), r"Address.*\d+\.\d+\.\d+\.\d+")
    sleeper(t, "--name", "late", "--network", "net")
    t.like(t.ok("exec", box, "nslookup", "late"), r"Address.*\d+\.\d+\.\d+\.\d+")


@scenario
def network_connect_and_disconnect(t):
    t.ok("network", "create", "net")
    t.ok("create", "--name", "made", IMAGE, "sh", "-c", SERVER)
    t.ok("network", "connect", "--alias", "other", "net", "made")
    t.ok("start", "made")
    t.like(t.ok("inspect", "-f", "{{json .NetworkSettings.Networks}}", "made"), r'"net":')
    t.ok("network", "create", "second")
    box = sleeper(t, "--network", "second")

    def reached():
        return t.run("exec", box, "timeout", "3", "wget", "-q", "-O", "-", "http://other/")[1] == "page\n"
    t.check(not reached(), "a container of another network does not find it")
    t.ok("network", "connect", "net", box)
    t.until(reached, "it is found once connected", 10)
    t.ok("network", "disconnect", "net", box)
    t.check(not reached(), "it is not reached after disconnect")


@scenario
def addresses_are_chosen(t):
    t.ok("network", "create", "--subnet", "10.77.0.0/24", "--gateway", "10.77.0.1", "net")
    t.equal(t.ok("network", "inspect", "-f", "{{(index .IPAM.Config 0).Subnet}}", "net"), "10.77.0.0/24")
    box = sleeper(t, "--network", "net", "--ip", "10.77.0.77")
    t.like(t.ok("exec", box, "ip", "addr"), r"10\.77\.0\.77/")


@scenario
def links_are_aliases(t):
    sleeper(t, "--name", "db")
    t.like(t.ok("run", "--rm", "--link", "db:database", IMAGE, "cat", "/etc/hosts"), r"database")


@scenario
def a_network_of_another_container(t):
    sleeper(t, "--name", "one", "-h", "first", "--add-host", "x:192.0.2.7")
    t.like(t.ok("run", "--rm", "--network", "container:one", IMAGE, "sh", "-c", "hostname; cat /etc/hosts"), r"^first\n(.*\n)*192\.0\.2\.7\s+x")


@scenario
def ports_are_published(t):
    t.ok("run", "-d", "--name", "web", "-p", "127.0.0.1:0:80", IMAGE, "sh", "-c", SERVER)
    address = t.ok("port", "web", "80/tcp").splitlines()[0]

    def fetched():
        import urllib.request  # pylint: disable=import-outside-toplevel
        try:
            with urllib.request.urlopen(f"http://{address}/", timeout=5) as r:
                return r.read() == b"page\n"
        except OSError:
            return False
    t.until(fetched, "the page over the published port")
    t.ok("run", "-d", "--name", "range", "-p", "127.0.0.1:18100-18105:80", IMAGE, "sleep", "100")
    t.like(t.ok("port", "range"), r"127\.0\.0\.1:1810[0-5]$")
    t.ok("run", "-d", "--name", "all", "-P", "--expose", "81", IMAGE, "sleep", "100")
    t.like(t.ok("port", "all"), r"^81/tcp -> ")
    t.like(t.ok("ps", "--format", "{{.Ports}}", "-f", "name=^web$"), r"^127\.0\.0\.1:\d+->80/tcp$")
    t.fails(125, r"(?i)port is already allocated|address already in use", "run", "--rm", "-p", f"{address}:80", IMAGE, "true")


main()
