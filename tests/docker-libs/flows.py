"""What programs do with docker-py, unmodified: tests/integ/test-docker-py runs each function in a process of its own.

usage: flows.py SOCKET FLOW
The daemon has the image box:1. A flow that is wrong ends with a traceback.
"""
import io
import sys
import tarfile

import docker
from docker.errors import APIError, ContainerError, ImageNotFound, NotFound

IMAGE = "box:1"


def equal(got, want, what):
    if got != want:
        raise AssertionError(f"{what}: {got!r}, want {want!r}")


def archive(name, data):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def run(client):
    """containers.run in the foreground, its errors, and with most of its options."""
    equal(client.containers.run(IMAGE, "echo hello world"), b"hello world\n", "run")
    equal(client.containers.run(IMAGE, ["sh", "-c", "echo o; echo e >&2"], remove=True, stdout=False, stderr=True), b"e\n", "stderr")
    try:
        client.containers.run(IMAGE, ["sh", "-c", "exit 3"], remove=True)
        raise AssertionError("no error of a command that fails")
    except ContainerError as e:
        equal(e.exit_status, 3, "its status")
    box = client.containers.run(
        IMAGE, ["sleep", "1000"], detach=True, name="named", labels={"a": "b"}, environment={"A": "1"}, hostname="h", mem_limit="64m", nano_cpus=500000000,
        pids_limit=50, ports={"80/tcp": None}, volumes={"v1": {"bind": "/v", "mode": "rw"}}, tmpfs={"/t": "size=1m"}, cap_drop=["ALL"], init=True, working_dir="/tmp",
        healthcheck={"test": ["CMD", "true"], "interval": 1000000000}, restart_policy={"Name": "on-failure", "MaximumRetryCount": 2}, shm_size="8m",
        extra_hosts={"db": "192.0.2.7"}, stop_signal="SIGTERM", stdin_open=True, network_mode="bridge", runtime="runc", ulimits=[docker.types.Ulimit(name="nofile", soft=100, hard=100)],
        mounts=[docker.types.Mount("/m", "v2"), docker.types.Mount("/m2", None, type="tmpfs")], security_opt=["no-new-privileges"])
    equal([c.name for c in client.containers.list(filters={"label": "a=b"}, before="none", since="none")], ["named"], "list")
    equal(client.api.create_container(IMAGE, "true", runtime="runc")["Warnings"], [], "a runtime at the top level")
    box.reload()
    equal(box.status, "running", "status")
    for attempt in ({"privileged": True}, {"network_mode": "host"}, {"pid_mode": "host"}, {"cpu_rt_period": 512}):
        try:
            client.containers.create(IMAGE, "true", **attempt)
            raise AssertionError(f"{attempt} was taken")
        except APIError as e:
            if e.status_code not in (403, 501):
                raise
    bound = client.containers.create(IMAGE, "true", cpuset_cpus="0")
    equal(client.containers.get(bound.id).attrs["HostConfig"]["CpusetCpus"], "0", "bound to a processor")
    bound.remove()
    box.remove(force=True, v=True)


def execs(client):
    """exec_run in all of its forms. An echo's output is there every time: docker-py loses what comes with the head of the answer."""
    box = client.containers.run(IMAGE, ["sleep", "1000"], detach=True)
    for n in range(40):
        equal(tuple(box.exec_run(["echo", str(n)])), (0, f"{n}\n".encode()), "exec_run")
        equal(box.exec_run("echo tty", tty=True).output, b"tty\r\n", "of a terminal")
    equal(tuple(box.exec_run(["sh", "-c", "echo o; echo e >&2; exit 3"], demux=True)), (3, (b"o\n", b"e\n")), "demux")
    equal(b"".join(box.exec_run("echo x y", stream=True).output), b"x y\n", "stream")
    equal(box.exec_run(["sh", "-c", "echo $A; pwd; id -u"], environment={"A": "b"}, workdir="/data", user="app").output, b"b\n/data\n1000\n", "options")
    equal(box.exec_run("sleep 1000", detach=True).exit_code, None, "detached")
    stream = box.exec_run("cat", stdin=True, socket=True).output
    stream._sock.sendall(b"in\n")
    stream._sock.shutdown(1)
    equal(stream.read(100)[8:], b"in\n", "socket")
    one = client.api.exec_create(box.id, "true", tty=True, detach_keys="ctrl-a")["Id"]
    client.api.exec_resize(one, 10, 20)
    client.api.exec_start(one)
    equal(client.api.exec_inspect(one)["ExitCode"], 0, "exec_inspect")
    box.remove(force=True)


def streams(client):
    """attach, logs, events and stats: their readers take a chunk for a whole object."""
    box = client.containers.create(IMAGE, ["sh", "-c", "echo from; cat"], stdin_open=True)
    stream = box.attach_socket(params={"stdin": 1, "stdout": 1, "stream": 1})
    box.start()
    stream._sock.sendall(b"in\n")
    stream._sock.shutdown(1)
    data = b"".join(iter(lambda: stream.read(1000), b""))
    equal(data.replace(b"\x01\0\0\0\0\0\0\5", b"").replace(b"\x01\0\0\0\0\0\0\3", b""), b"from\nin\n", "attach_socket")
    equal(b"".join(box.attach(stream=True, logs=True)), b"from\nin\n", "attach to what has ended")
    equal(box.logs(), b"from\nin\n", "logs")
    equal(b"".join(box.logs(stream=True, follow=True, tail=1)), b"in\n", "logs that are followed")
    equal(box.wait()["StatusCode"], 0, "wait")
    events = client.events(decode=True, filters={"type": "container"})
    box.remove()
    equal(next(events)["Action"], "destroy", "events")
    events.close()
    box = client.containers.run(IMAGE, ["sleep", "1000"], detach=True, pids_limit=50)
    equal(box.stats(stream=False)["pids_stats"]["limit"], 50, "stats")
    stats = box.stats(decode=True)
    equal([next(stats)["pids_stats"]["limit"] for _ in range(2)], [50, 50], "a stream of stats")
    stats.close()
    box.remove(force=True)


def life(client):
    """Verbs, archives, and what is shown of a container."""
    box = client.containers.run(IMAGE, ["sleep", "1000"], detach=True)
    equal(box.put_archive("/tmp", archive("f", b"abc")), True, "put_archive")
    data, stat = box.get_archive("/tmp/f")
    equal((tarfile.open(fileobj=io.BytesIO(b"".join(data))).extractfile("f").read(), stat["size"]), (b"abc", 3), "get_archive")
    equal([c["Path"] for c in box.diff() if c["Kind"] == 1], ["/tmp/f"], "diff")
    equal(box.top()["Processes"][0][-1], "sleep", "top")
    equal(box.update(restart_policy={"Name": "no"})["Warnings"], [], "update")
    for verb in (box.pause, box.unpause, lambda: box.resize(10, 20), lambda: box.rename("other"), lambda: box.kill("SIGCONT"), lambda: box.restart(timeout=0), lambda: box.stop(timeout=0)):
        verb()
    equal(client.containers.get("other").status, "exited", "rename, stop")
    box.start()
    image = box.commit("snap", "1", message="m", author="a", changes=["CMD echo snap"])
    equal(client.containers.run(image.tags[0], remove=True), b"snap\n", "commit")
    equal(len(b"".join(box.export())) > 10000, True, "export")
    box.remove(force=True)
    client.containers.prune()


def images(client):
    """Out and in again, names, a pull of what is there."""
    image = client.images.get(IMAGE)
    equal(image.tag("other", "2"), True, "tag")
    data = b"".join(client.images.get("other:2").save(named="other:2"))
    client.images.remove("other:2")
    equal([i.id for i in client.images.load(data)], [image.id], "load")
    equal([line["stream"] for line in client.api.load_image(data)], ["Loaded image: other:2\n"], "load_image")
    equal(client.images.pull("other", tag="2").id, image.id, "pull")
    equal("up to date" in list(client.api.pull("other", "2", stream=True, decode=True))[0]["status"], True, "the stream of a pull")
    equal("sha256:" in client.api.import_image_from_data(archive("x", b"y"), repository="made", tag="1"), True, "import")
    equal(len(image.history()), 1, "history")
    for call in (client.images.get, client.images.pull):
        try:
            call("nosuch")
            raise AssertionError("an image that is not there")
        except (ImageNotFound, NotFound):
            pass
    client.images.prune()


def others(client):
    """Networks, volumes, the engine."""
    net = client.networks.create("net", driver="bridge", check_duplicate=True, internal=False, labels={"x": "y"}, attachable=True, enable_ipv6=False)
    equal([n.name for n in client.networks.list(names=["net"])], ["net"], "networks")
    server = client.containers.run(IMAGE, ["sleep", "1000"], name="server", network="net", detach=True)
    equal(b"server" in client.containers.run(IMAGE, ["cat", "/etc/hosts"], network="net", remove=True), True, "a name in a network")
    server.remove(force=True)
    net.remove()
    volume = client.volumes.create("vol", driver="local", labels={"a": "b"})
    client.containers.run(IMAGE, ["touch", "/v/f"], volumes=["vol:/v"], remove=True)
    equal(client.containers.run(IMAGE, ["ls", "/v"], volumes=["vol:/v:ro"], remove=True), b"f\n", "a volume")
    volume.remove()
    client.networks.prune(), client.volumes.prune(), client.api.prune_builds()
    equal((client.ping(), client.info()["OSType"], "LayersSize" in client.df()), (True, "linux", True), "the engine")


if __name__ == "__main__":
    globals()[sys.argv[2]](docker.DockerClient(base_url=f"unix://{sys.argv[1]}", timeout=60))
