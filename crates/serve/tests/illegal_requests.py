"""Illegal and edge requests by libnbd with its own checks off: what errno, and is the connection alive?"""

import errno
import sys

import nbd

SIZE = 8 << 20
h = nbd.NBD()
h.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
h.connect_uri(sys.argv[1])
h.set_strict_mode(0)
assert h.get_size() == SIZE

status = lambda context, offset, entries, error: 0
page = b"x" * 4096
cases = [
    ("read past the end", lambda: h.pread(4096, SIZE - 512), errno.EINVAL),
    ("write past the end", lambda: h.pwrite(page, SIZE - 512), errno.ENOSPC),
    ("trim past the end", lambda: h.trim(4096, SIZE - 512), errno.EINVAL),
    ("zero past the end", lambda: h.zero(4096, SIZE - 512), errno.ENOSPC),
    ("cache past the end", lambda: h.cache(4096, SIZE - 512), errno.EINVAL),
    ("status past the end", lambda: h.block_status(4096, SIZE - 512, status), errno.EINVAL),
    ("read at 2^63", lambda: h.pread(512, 1 << 63), errno.EINVAL),
    ("write at 2^63", lambda: h.pwrite(page, 1 << 63), errno.ENOSPC),
    ("read of 33 MiB", lambda: h.pread(33 << 20, 0), errno.EINVAL),
    ("write of 33 MiB", lambda: h.pwrite(b"x" * (33 << 20), 0), errno.EINVAL),
    ("status of nothing", lambda: h.block_status(0, 0, status), errno.EINVAL),
    ("unaligned read", lambda: h.pread(100, 0), errno.EINVAL),
    ("unaligned write", lambda: h.pwrite(b"x" * 512, 7), errno.EINVAL),
    ("FUA on a flush", lambda: h.flush(nbd.CMD_FLAG_FUA), None),
    ("FAST_ZERO", lambda: h.zero(4096, 0, nbd.CMD_FLAG_FAST_ZERO), None),
    ("FAST_ZERO that is no hole", lambda: h.zero(4096, 0, nbd.CMD_FLAG_FAST_ZERO | nbd.CMD_FLAG_NO_HOLE), errno.ENOTSUP),
    ("DF on a write", lambda: h.pwrite(page, 0, nbd.CMD_FLAG_DF), errno.EINVAL),
    ("unknown flag", lambda: h.trim(4096, 0, 1 << 12), errno.EINVAL),
    ("empty write", lambda: h.pwrite(b"", 0), None),
]
for name, request, expected in cases:
    try:
        request()
        got = None
    except nbd.Error as error:
        got = error.errnum
    assert got == expected, f"{name}: errno {got}, expected {expected}"
    assert h.pread(512, SIZE - 512) == bytes(512), f"after {name} the connection is not what it was"
print(len(cases), "requests")
