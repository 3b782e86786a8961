"""Has F2FS clean segments until none is left that pays: f2fs_clean.py MOUNT_POINT DIRTY_SEGMENTS_FILE"""

import fcntl
import os
import struct
import sys

# _IOW(0xf5, 6, __u32) of linux/f2fs.h; 1 asks for foreground cleaning.
GARBAGE_COLLECT = 0x4004F506


def main(mount, dirty_segments):
    def dirty():
        return int(open(dirty_segments).read())

    folder = os.open(mount, os.O_RDONLY)
    least, rounds_without_progress, rounds = dirty(), 0, 0
    print(f"cleaning from {least} dirty segments")
    while rounds_without_progress < 20 and least > 0:
        try:
            fcntl.ioctl(folder, GARBAGE_COLLECT, struct.pack("I", 1))
        except OSError as error:
            print(f"the cleaner stops: {error}")
            break
        rounds += 1
        left = dirty()
        rounds_without_progress = 0 if left < least else rounds_without_progress + 1
        least = min(left, least)
    print(f"{rounds} rounds, {dirty()} dirty segments left")


main(*sys.argv[1:])
