"""Turns the tracepoints of F2FS into a trace: f2fs_trace.py EVENTS IOSTAT DEVICE_PAGES OUT.csv

Every page written is a write, but for what the cleaner moved: a page of COLD_DATA with an old block is a copy from there. Blocks that
F2FS discards are trims. Neighbours become one request, as they do in a bio. Ends with status 1 if events were lost, or if the copies are
not as many as F2FS counted ("fs gc data"), or the pages differ from those that the device was sent by more than its superblocks.
"""

import re
import sys
from collections import Counter

BLOCK = 4096
# Longest request: what a block layer lets through at once.
REQUEST_BLOCKS = 256
NULL_BLOCK, NEW_BLOCK = 0, 0xFFFFFFFF
WRITE = re.compile(r" (\d+)\.(\d+): f2fs_submit_\w+: .*oldaddr = 0x(\w+), newaddr = 0x(\w+), rw = WRITE\S*, type = (\w+)")
DISCARD = re.compile(r" (\d+)\.(\d+): f2fs_issue_discard: .*blkstart = 0x(\w+), blklen = 0x(\w+)")
MARK = re.compile(r" (\d+)\.(\d+): tracing_mark_write: phase")


class Trace:
    """The requests of a CSV trace; neighbours are put together."""

    def __init__(self, out):
        self.out = out
        self.last = None
        out.write("time_ns,op,offset_bytes,len_bytes,device,fingerprints,source_bytes\n")

    def add(self, time_ns, op, block, blocks, source=None):
        if self.last:
            _, last_op, first, count, last_source = self.last
            follows = op == last_op and op in "WC" and block == first + count and count < REQUEST_BLOCKS
            if follows and (op == "W" or source == last_source + count):
                self.last[3] += blocks
                return
        self.finish()
        self.last = [time_ns, op, block, blocks, source]

    def finish(self):
        if self.last:
            time_ns, op, block, blocks, source = self.last
            source = "" if source is None else source * BLOCK
            self.out.write(f"{time_ns},{op},{block * BLOCK},{blocks * BLOCK},0,,{source}\n")
        self.last = None


def nanoseconds(match):
    return int(match[1]) * 10**9 + int(match[2]) * 1000


def read_events(lines, trace):
    """Pages by type, blocks discarded."""
    pages, discarded = Counter(), 0
    for line in lines:
        if "LOST" in line and "EVENTS" in line:
            sys.exit(f"events were lost: {line.strip()}")
        if event := WRITE.search(line):
            old, new, kind = int(event[3], 16), int(event[4], 16), event[5]
            pages[kind] += 1
            is_move = kind == "COLD_DATA" and old not in (NULL_BLOCK, NEW_BLOCK)
            trace.add(nanoseconds(event), "C" if is_move else "W", new, 1, old if is_move else None)
        elif event := DISCARD.search(line):
            first, blocks = int(event[3], 16), int(event[4], 16)
            discarded += blocks
            trace.add(nanoseconds(event), "T", first, blocks)
        elif event := MARK.search(line):
            trace.add(nanoseconds(event), "P", 0, 0)
    trace.finish()
    return pages, discarded


def counted(iostat, name):
    """Pages that F2FS counted under a name, from iostat_info: `fs gc data: BYTES COUNT AVERAGE`."""
    for line in iostat:
        label, _, numbers = line.partition(":")
        if label.strip() == name:
            return int(numbers.split()[0]) // BLOCK
    sys.exit(f"iostat says nothing about {name}")


def main(events, iostat, device_pages, out):
    with open(out, "w") as csv, open(events, errors="replace") as lines:
        pages, discarded = read_events(lines, Trace(csv))
    iostat = open(iostat).read().splitlines()
    moved, gc_data = pages["COLD_DATA"], counted(iostat, "fs gc data")
    total, sent = sum(pages.values()), int(open(device_pages).read())
    print("pages by type: " + ", ".join(f"{kind} {count}" for kind, count in sorted(pages.items())))
    print(f"pages written {total}, the device was sent {sent}; blocks discarded {discarded}")
    print(f"data moved {moved}, F2FS counted {gc_data}, and {counted(iostat, 'fs gc node')} of nodes")
    if moved != gc_data:
        sys.exit("what is COLD_DATA is not what the cleaner moved")


main(*sys.argv[1:])
