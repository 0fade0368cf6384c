"""The devcontainer command of npm: a workspace is brought up in a container of a local image, and commands run in it."""
import json
import os

from scenario import IMAGE, main, scenario


def workspace(t, **config):
    """A folder with a devcontainer.json. Where the shell's own environment is asked for, its greeting is taken for a part of that."""
    t.file("work/.devcontainer/devcontainer.json", json.dumps({"image": IMAGE, "updateRemoteUserUID": False, "userEnvProbe": "none"} | config))
    t.file("work/file", "of the host\n")
    return os.path.join(t.dir, "work")


def up(t, folder, *more):
    """What `up` says at its end, as JSON."""
    out = t.ok("up", "--workspace-folder", folder, *more, seconds=150)
    said = json.loads(out.splitlines()[-1])
    t.equal(said["outcome"], "success")
    return said


@scenario
def up_and_exec(t):
    folder = workspace(t)
    said = up(t, folder)
    t.like(said["containerId"], "^[0-9a-f]{64}$")
    t.equal(t.ok("exec", "--workspace-folder", folder, "cat", "file").splitlines()[-1], "of the host")
    t.ok("exec", "--workspace-folder", folder, "sh", "-c", "echo made >made")
    t.check(os.path.exists(os.path.join(folder, "made")), "the workspace is the host's folder")


@scenario
def the_environment_of_a_login_shell(t):
    folder = workspace(t, userEnvProbe="loginInteractiveShell")
    up(t, folder)
    t.equal(t.ok("exec", "--workspace-folder", folder, "cat", "file").splitlines()[-1], "of the host")


@scenario
def up_twice_is_one_container(t):
    folder = workspace(t)
    first = up(t, folder)["containerId"]
    t.equal(up(t, folder)["containerId"], first)
    t.check(up(t, folder, "--remove-existing-container")["containerId"] != first, "--remove-existing-container")


@scenario
def commands_and_environment_of_the_life(t):
    folder = workspace(t, containerEnv={"A": "1"}, remoteEnv={"B": "2"}, onCreateCommand="touch /tmp/created", postStartCommand="touch /tmp/started",
                       postCreateCommand=["touch", "/tmp/after"])
    up(t, folder)
    t.equal(t.ok("exec", "--workspace-folder", folder, "sh", "-c", "ls /tmp/created /tmp/started /tmp/after >/dev/null && echo $A $B").splitlines()[-1], "1 2")


@scenario
def run_arguments_mounts_and_users(t):
    folder = workspace(t, runArgs=["--memory", "128m", "--init"],
                       mounts=["source=cache,target=/cache,type=volume"], remoteUser="node", containerUser="root")
    up(t, folder)
    t.equal(t.ok("exec", "--workspace-folder", folder, "sh", "-c", "id -un; test -d /cache && echo there").splitlines()[-2:], ["node", "there"])


@scenario
def a_debugger_is_asked_for(t):
    up(t, workspace(t, runArgs=["--cap-add", "SYS_PTRACE", "--security-opt", "seccomp=unconfined"]))


@scenario
def a_container_user_is_given_the_hosts_uid(t):
    folder = workspace(t, remoteUser="node", updateRemoteUserUID=True)
    up(t, folder)


@scenario
def forwarded_ports_and_configuration(t):
    folder = workspace(t, appPort=["127.0.0.1:18222:80"])
    up(t, folder)
    text = t.ok("read-configuration", "--workspace-folder", folder)
    t.like(text, r'"image":"alpine"')


@scenario
def an_image_from_a_dockerfile(t):
    t.file("work/.devcontainer/Dockerfile", f"FROM {IMAGE}\nRUN echo built >/built\n")
    t.file("work/.devcontainer/devcontainer.json", json.dumps({"build": {"dockerfile": "Dockerfile"}, "updateRemoteUserUID": False, "userEnvProbe": "none"}))
    folder = os.path.join(t.dir, "work")
    up(t, folder, "--buildkit", "never")
    t.equal(t.ok("exec", "--workspace-folder", folder, "cat", "/built").splitlines()[-1], "built")


main()
