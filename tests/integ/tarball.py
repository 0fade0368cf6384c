"""Tar streams made byte by byte, so that they can be wrong in every way; and what a tree is like."""
import hashlib
import os
import stat
import struct

BLOCK = 512


def _field(value, size):
    """A number as octal; as GNU's base-256 where it is negative or too large; bytes as they are."""
    if isinstance(value, bytes):
        return value.ljust(size, b"\0")
    if 0 <= value < 8 ** (size - 1):
        return b"%0*o\0" % (size - 1, value)
    return (value & ((1 << (8 * size)) - 1) | (1 << (8 * size - 1))).to_bytes(size, "big")


def pax(records, kind=b"x", name=b"pax"):
    """A header of pax records ({key: value}, str or bytes)."""
    body = b""
    for key, value in records.items():
        key = key if isinstance(key, bytes) else key.encode()
        value = value if isinstance(value, bytes) else str(value).encode()
        line = b" " + key + b"=" + value + b"\n"
        size = len(line)
        while len(str(size)) + len(line) != size:
            size = len(str(size)) + len(line)
        body += str(size).encode() + line
    return entry(name, kind, body)


def entry(name, kind=b"0", data=b"", link=b"", mode=None, uid=0, gid=0, mtime=1000000000, size=None, magic=b"ustar\x0000",
          prefix=b"", dev=(0, 0), checksum=None, extra=b""):
    """One entry with its contents, padded. `size` lies about it; `extra` overwrites the header's end (offset 345)."""
    name, link, data = (x.encode() if isinstance(x, str) else x for x in (name, link, data))
    if mode is None:
        mode = 0o755 if kind == b"5" else 0o644
    head = b"".join([
        name[:100].ljust(100, b"\0"), _field(mode, 8), _field(uid, 8), _field(gid, 8),
        _field(len(data) if size is None else size, 12), _field(mtime, 12), b" " * 8, kind, link[:100].ljust(100, b"\0"),
        magic.ljust(8, b"\0"), b"\0" * 64, _field(dev[0], 8), _field(dev[1], 8), (extra or prefix).ljust(155 + 12, b"\0")])
    total = sum(head) if checksum is None else checksum
    head = head[:148] + b"%06o\0 " % total + head[156:]
    return head + data + b"\0" * (-len(data) % BLOCK)


def gnu_long(text, kind=b"L"):
    """GNU's header for a name (L) or a target (K) of any length."""
    text = text.encode() if isinstance(text, str) else text
    return entry("././@LongLink", kind, text + b"\0", magic=b"ustar  ")


def gnu_sparse(name, size, pieces):
    """GNU's old sparse format: pieces are (offset, bytes), four at most."""
    extra = b"\0" * 41
    for offset, data in pieces:
        extra += _field(offset, 12) + _field(len(data), 12)
    extra = extra.ljust(41 + 96, b"\0") + b"\0" + _field(size, 12)
    return entry(name, b"S", b"".join(d for _, d in pieces), magic=b"ustar  ", extra=extra)


def pax_sparse(name, size, pieces):
    """GNU's sparse format 1.0, in pax."""
    text = b"%d\n" % len(pieces) + b"".join(b"%d\n%d\n" % (o, len(d)) for o, d in pieces)
    body = text + b"\0" * (-len(text) % BLOCK) + b"".join(d for _, d in pieces)
    return pax({"GNU.sparse.major": 1, "GNU.sparse.minor": 0, "GNU.sparse.name": name,
                "GNU.sparse.realsize": size}) + entry("GNUSparseFile.0/x", data=body)


END = b"\0" * (2 * BLOCK)


def archive(*entries):
    return b"".join(entries) + END


def capability(permitted, root=None):
    """security.capability: version 2, or 3 with the root's id."""
    low, high = permitted & 0xffffffff, permitted >> 32
    if root is None:
        return struct.pack("<IIIII", 0x02000001, low, 0, high, 0)
    return struct.pack("<IIIIII", 0x03000001, low, 0, high, 0, root)


def _xattrs(path):
    found = {}
    for name in sorted(os.listxattr(path, follow_symlinks=False)):
        found[name] = os.getxattr(path, name, follow_symlinks=False)
    return found


def facts(top, base=0, times=True):
    """{path: what it is} of everything below top (and top itself as "."), ids relative to base."""
    found, links = {}, {}
    top = os.fsencode(top)
    for directory, names, files in os.walk(top):
        for name in [b"."] * (directory == top) + names + files:
            path = top if name == b"." else os.path.join(directory, name)
            key = b"." if name == b"." else os.path.relpath(path, top)
            st = os.lstat(path)
            fact = {"mode": oct(st.st_mode), "owner": (st.st_uid - base, st.st_gid - base), "xattrs": _xattrs(path)}
            if times:
                fact["mtime"] = st.st_mtime_ns
            if stat.S_ISLNK(st.st_mode):
                fact["target"] = os.readlink(path)
            elif stat.S_ISREG(st.st_mode):
                with open(path, "rb") as f:
                    fact["contents"] = (st.st_size, hashlib.sha256(f.read()).hexdigest())
                links.setdefault(st.st_ino, []).append(key)
            elif not stat.S_ISDIR(st.st_mode):
                fact["device"] = st.st_rdev
            found[key] = fact
    for names in links.values():
        for name in names:
            found[name]["names"] = sorted(names)
    return found
