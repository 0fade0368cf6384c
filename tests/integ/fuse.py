"""A FUSE file system that its server stops answering, by hand over /dev/fuse: no library, and nothing runs for it.

    f = Silent(path)            mounted; only the handshake is answered
    f.asked(seconds)            whether somebody has asked it something since
    f.close()                   who waits for it gets ENOTCONN
"""
import os
import select
import struct

from harness import Skip, mount, umount

INIT, IN_HEADER = 26, struct.Struct("=IIQQIIIHH")


class Silent:
    def __init__(self, path, owner=0):
        try:
            self.fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
            mount("silent", path, "fuse", 0, f"fd={self.fd},rootmode=40755,user_id={owner},group_id={owner},allow_other")
        except OSError as e:
            raise Skip(f"no FUSE here: {e}") from None
        self.path = path
        self._answer_init()

    def _answer_init(self):
        if not select.select([self.fd], [], [], 10)[0]:
            raise AssertionError("the kernel does not begin")
        request = os.read(self.fd, 1 << 20)
        _, opcode, unique = IN_HEADER.unpack(request[:IN_HEADER.size])[:3]
        if opcode != INIT:
            raise AssertionError(f"begins with {opcode}")
        major, minor, readahead = struct.unpack("=III", request[IN_HEADER.size:IN_HEADER.size + 12])
        body = struct.pack("=IIIIHHIIHHI", major, min(minor, 31), readahead, 0, 12, 9, 1 << 17, 1, 32, 0, 0).ljust(64, b"\0")
        os.write(self.fd, struct.pack("=IiQ", 16 + len(body), 0, unique) + body)

    def asked(self, seconds):
        """Takes one request, and keeps silent: who has asked cannot even be killed."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        os.read(self.fd, 1 << 20)
        return True

    def close(self):
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
            umount(self.path)
