"""A daemon whose system calls the test may refuse, delay or answer, and processes that keep a dying init from its end.

    with Gate(t) as gate, Daemon(t, within=gate.within) as d:
        gate.refuse = True
        …                       # each start fails when it changes the root, and its init does not go away
        gate.slow = "rind-volume"
        …                       # each fsync of a process of this name waits
        gate.let_go()           # until now
    gate.keep(pid)          # this init does not end before the next
        gate.dumpable = True    # init is told that a change of ids has opened its memory, as with fs.suid_dumpable = 1
        gate.starts             # of each execve since: the name of who started the process, and whether they share memory

init is the PID 1 of a pid namespace, and such a one ends when all of that have been reaped. A child that entered from outside is
reaped by its parent, which is the test's.
"""
import ctypes
import errno
import fcntl
import os
import select
import socket
import struct
import subprocess
import sys
import threading

SYS_SECCOMP, SYS_PIVOT_ROOT, SYS_FSYNC, SYS_EXECVE, SYS_EXECVEAT, SYS_PRCTL, SYS_KCMP = 317, 155, 74, 59, 322, 157, 312  # x86_64
SET_MODE_FILTER, NEW_LISTENER = 1, 1 << 3
NOTIF_RECV, NOTIF_SEND = 0xC0502100, 0xC0182101
NOTIF, RESPONSE, CONTINUE = "QIIiIQ6Q", "QqiI", 1
RET_USER_NOTIF, RET_ALLOW = 0x7FC00000, 0x7FFF0000
CLONE_NEWPID = 0x20000000
PR_GET_DUMPABLE, KCMP_VM = 3, 1
INIT_NAME = "memfd:rind-init"
LIBC = ctypes.CDLL(None, use_errno=True)


class Gate:
    """Answers every call of some kinds below the daemon: as the kernel does, unless the test says otherwise."""

    def __init__(self, t):
        self.refuse, self.slow, self.dumpable = False, None, False
        self.holders, self.waiting, self.starts, self.lock = [], [], [], threading.Lock()
        self.path = t.path("gate")
        self.within = [sys.executable, os.path.abspath(__file__), "gate", self.path]

    def __enter__(self):
        self.server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.server.bind(self.path)
        self.server.listen()
        self.acceptor = threading.Thread(target=self._accept, daemon=True)
        self.acceptor.start()
        return self

    def __exit__(self, *_):
        self.let_go()
        # A call that waits is not ended by close(); and may be begun anew by the kernel, on what has the descriptor's number by then.
        self.server.shutdown(socket.SHUT_RDWR)
        self.acceptor.join()
        self.server.close()

    def _accept(self):
        while True:
            try:
                conn, _ = self.server.accept()
            except OSError:
                return
            with conn:
                listener = socket.recv_fds(conn, 1, 1)[1][0]
            threading.Thread(target=self._serve, args=(listener,), daemon=True).start()

    def _serve(self, listener):
        """Until nobody is left under the filter: from then on a call to receive fails at once, as it does when who asked was killed."""
        ready = select.poll()
        ready.register(listener, select.POLLIN)
        while not any(events & select.POLLHUP for _, events in ready.poll()):
            message = bytearray(struct.calcsize(NOTIF))
            try:
                fcntl.ioctl(listener, NOTIF_RECV, message)
                number, pid, _, call = struct.unpack(NOTIF, message)[:4]
                self._answer(listener, number, pid, call)
            except OSError as e:
                if e.errno not in (errno.ENOENT, errno.EINTR):  # whoever asked was killed
                    return

    def _answer(self, listener, number, pid, call):
        answer = struct.pack(RESPONSE, number, 0, 0, CONTINUE)
        if call == SYS_PIVOT_ROOT and self.refuse:
            self.keep(pid)
            answer = struct.pack(RESPONSE, number, 0, -errno.EIO, 0)
        if call == SYS_PRCTL and self.dumpable and name_of(pid) == INIT_NAME:
            answer = struct.pack(RESPONSE, number, 1, 0, 0)
        if call in (SYS_EXECVE, SYS_EXECVEAT):
            parent = parent_of(pid)
            self.starts.append((name_of(parent), LIBC.syscall(SYS_KCMP, parent, pid, KCMP_VM, 0, 0) == 0))
        with self.lock:
            if call == SYS_FSYNC and self.slow is not None and name_of(pid) == self.slow:
                self.waiting.append((listener, answer))
                return
        fcntl.ioctl(listener, NOTIF_SEND, answer)

    def keep(self, pid):
        """This init, however it is killed, does not end before let_go()."""
        holder = subprocess.Popen([sys.executable, os.path.abspath(__file__), "hold", str(pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert holder.stdout.readline() == b"held\n"
        self.holders.append(holder)

    def step(self):
        """One of those that wait goes on, if there is one."""
        with self.lock:
            first, self.waiting = self.waiting[:1], self.waiting[1:]
        self._go_on(first)

    def let_go(self):
        """Every init that was refused may end, and who waits goes on."""
        with self.lock:
            self.refuse, self.slow = False, None
            waiting, self.waiting = self.waiting, []
        while self.holders:
            self.holders.pop().communicate()
        self._go_on(waiting)

    def _go_on(self, waiting):
        for listener, answer in waiting:
            try:
                fcntl.ioctl(listener, NOTIF_SEND, answer)
            except OSError as e:
                if e.errno != errno.ENOENT:  # it was killed
                    raise


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8") as f:
            return f.read().strip()
    except OSError:
        return None


def parent_of(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            return int(f.read().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def gate(path, *argv):
    """Executes argv under the filter."""
    calls = (SYS_PIVOT_ROOT, SYS_FSYNC, SYS_EXECVE, SYS_EXECVEAT)
    insns = [(0x20, 0, 0, 0)]
    insns += [(0x15, len(calls) - i + 2, 0, call) for i, call in enumerate(calls)]
    insns += [(0x15, 0, 3, SYS_PRCTL), (0x20, 0, 0, 16), (0x15, 0, 1, PR_GET_DUMPABLE), (0x06, 0, 0, RET_USER_NOTIF), (0x06, 0, 0, RET_ALLOW)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *i) for i in insns))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(insns), ctypes.addressof(program)))
    fd = LIBC.syscall(SYS_SECCOMP, SET_MODE_FILTER, NEW_LISTENER, header)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as conn:
        conn.connect(path)
        socket.send_fds(conn, [b"x"], [fd])
    os.close(fd)
    os.execv(argv[0], argv)


def hold(pid):
    """A dead child in the pid namespace of pid, until stdin ends."""
    ns = os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY)
    if LIBC.setns(ns, CLONE_NEWPID) < 0:
        raise OSError(ctypes.get_errno(), "setns")
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    print("held", flush=True)
    sys.stdin.read()
    os.waitpid(child, 0)


if __name__ == "__main__":
    {"gate": gate, "hold": hold}[sys.argv[1]](*sys.argv[2:])
