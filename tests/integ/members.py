"""Clients of a daemon that are not its owner."""
import json
import os

from harness import mount, umount

GROUP = 54321


def as_user(t, uid, groups, fn):
    """Runs fn in a child with these ids; what it returns comes back as JSON."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups(groups)
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            answer = fn()
        except BaseException as e:  # pylint: disable=broad-except
            answer = repr(e)
        os.write(write, json.dumps(answer).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as f:
        text = f.read()
    os.waitpid(pid, 0)
    return json.loads(text)


def with_group(t):
    """The group rind, for this test program's mount namespace alone."""
    with open("/etc/group", encoding="utf-8") as f:
        text = "".join(line for line in f if not line.startswith("rind:"))
    mount(t.write("group", text + f"rind:x:{GROUP}:\n"), "/etc/group", flags=0x1000)
    t.cleanups.append(lambda: umount("/etc/group"))
    os.chmod(t.dir, 0o711)
