"""A reproducible tar archive: sorted names, one fixed time, numeric owners.

Plain ustar with files, directories and symbolic links: runner/image/builtin-unpack.c takes no other entries, and `tar tvf` lists it anywhere.
"""
import io
import os
import tarfile

# One time for every entry. Not 0: GNU tar warns about "implausibly old" times when it unpacks them.
FIXED_TIME = 1704067200  # 2024-01-01T00:00:00Z


class Archive:
    """Collects entries, then writes them. A missing parent directory is an error."""

    def __init__(self):
        self.entries = {}

    def _add(self, path, kind, mode, owner, data=b"", target=""):
        path = path.strip("/")
        parent = os.path.dirname(path)
        if path in self.entries:
            raise ValueError(f"{path}: twice")
        if parent and (parent not in self.entries or self.entries[parent][0].type != tarfile.DIRTYPE):
            raise ValueError(f"{path}: {parent} is not a directory of this archive")
        info = tarfile.TarInfo(path)
        info.type, info.mode, info.mtime, info.size = kind, mode, FIXED_TIME, len(data)
        info.uid = info.gid = owner
        info.linkname = target
        self.entries[path] = (info, data)

    def directory(self, path, mode=0o755, owner=0):
        self._add(path, tarfile.DIRTYPE, mode, owner)

    def file(self, path, data, mode=0o644, owner=0):
        self._add(path, tarfile.REGTYPE, mode, owner, data=data)

    def symlink(self, path, target):
        self._add(path, tarfile.SYMTYPE, 0o777, 0, target=target)

    def __contains__(self, path):
        return path.strip("/") in self.entries

    def write(self, out):
        """Replaces `out` atomically. Sorting by name puts every directory before its entries."""
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for path in sorted(self.entries):
                info, data = self.entries[path]
                tar.addfile(info, io.BytesIO(data))
        temporary = f"{out}.{os.getpid()}.tmp"
        try:
            with open(temporary, "wb") as f:
                f.write(raw.getvalue())
            os.rename(temporary, out)
        except OSError:
            if os.path.exists(temporary):
                os.unlink(temporary)
            raise
