"""What rind unpacks and compiles at its first start in a state directory, kept for all others: nine tenths of such a start.

The first daemon of a binary leaves it below build/; each program copies it once, and each test has links to that copy. A test
that wants a state directory in which rind has never been makes an empty one.
"""
import atexit
import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile

PARTS = ("layers", "policies.cache")
LOCK = "lock"

_own = None  # this program's copy


def _kept(top, rind):
    """Where it is kept for this binary."""
    st = os.stat(rind)
    return os.path.join(top, "build", "test-template", f"{st.st_mtime_ns}-{st.st_size}")


@contextlib.contextmanager
def _locked(kept, how):
    """Whether the lock could be had. A copy of a tree that another program makes or removes meanwhile may lack a part without an error."""
    os.makedirs(os.path.dirname(kept), exist_ok=True)
    with open(os.path.join(os.path.dirname(kept), LOCK), "w", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, how)
        except BlockingIOError:
            yield False
            return
        yield True


def keep(top, rind, state):
    """Keeps what a daemon that has ended has in its state directory, unless it is kept already. It replaces another binary's."""
    kept = _kept(top, rind)
    if os.path.exists(kept) or not all(os.path.isdir(os.path.join(state, part)) for part in PARTS):
        return
    with _locked(kept, fcntl.LOCK_EX | fcntl.LOCK_NB) as mine:
        if not mine or os.path.exists(kept):
            return  # another program does it
        for other in set(os.listdir(os.path.dirname(kept))) - {LOCK}:
            shutil.rmtree(os.path.join(os.path.dirname(kept), other), ignore_errors=True)
        half = tempfile.mkdtemp(prefix="new-", dir=os.path.dirname(kept))
        subprocess.run(["cp", "-a", *(os.path.join(state, part) for part in PARTS), half], check=True)
        os.rename(half, kept)


def use(top, rind, state):
    """Puts it into a state directory in which rind has not been yet, where one can be made."""
    global _own  # pylint: disable=global-statement
    if os.path.exists(os.path.join(state, "layers")) or not os.path.isdir(os.path.dirname(state)):
        return
    if _own is None:
        kept = _kept(top, rind)
        if not os.path.exists(kept):
            return
        with _locked(kept, fcntl.LOCK_SH):
            if not os.path.exists(kept):
                return  # another program has just put another binary's in its place
            _own = tempfile.mkdtemp(prefix="rind-template-")
            atexit.register(shutil.rmtree, _own, ignore_errors=True)
            subprocess.run(["cp", "-a", *(os.path.join(kept, part) for part in PARTS), _own], check=True)
    os.makedirs(state, mode=0o700, exist_ok=True)
    links = os.stat(state).st_dev == os.stat(_own).st_dev
    subprocess.run(["cp", "-al" if links else "-a", *(os.path.join(_own, part) for part in PARTS), state], check=True)
