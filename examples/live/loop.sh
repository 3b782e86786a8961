#!/usr/bin/env bash
# The device as a loop device: fsx in block mode with holes (recipe A6), badblocks and blkdiscard (A12), then ext4.
# Needs root, /dev/fuse, the packages of install.sh: WEARWELL=target/release/wearwell examples/live/loop.sh [design...]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
require nbdfuse fusermount3 losetup fsx badblocks blkdiscard mkfs.ext4 e2fsck "$WEARWELL"
[ -c /dev/fuse ] || { echo "$0: there is no /dev/fuse" >&2; exit 1; }
DESIGNS=("$@")
[ $# -gt 0 ] || DESIGNS=(page-map recyclable remap delta integrated)

cat >"$WORK/fsx.toml" <<'END'
flen = 134217728
blockmode = true
nosizechecks = true
[opsize]
min = 512
max = 262144
align = 512
[weights]
read = 10
write = 10
fsync = 1
fdatasync = 1
punch_hole = 2
close_open = 0
invalidate = 0
truncate = 0
mapread = 0
mapwrite = 0
sendfile = 0
posix_fallocate = 0
posix_fadvise = 0
copy_file_range = 0
END

# 40 MB in files of any length.
mkdir "$WORK/tree"
for number in {1..400}; do head -c $((number * 511)) /dev/urandom >"$WORK/tree/$number"; done

for design in "${DESIGNS[@]}"; do
    start_server "$design" 128MiB
    attach
    fsx -f "$WORK/fsx.toml" -P "$WORK" -N 20000 -S 7 "$LOOP"
    badblocks -w -B -b 4096 -c 256 "$LOOP" 32768
    blkdiscard -f "$LOOP"
    cmp -n 134217728 "$LOOP" /dev/zero
    mkfs.ext4 -q -F "$LOOP"
    mount -t ext4 -o discard "$LOOP" "$WORK/mount"
    cp -r "$WORK/tree" "$WORK/mount/"
    rm -rf "$WORK"/mount/tree/*[13579]
    fstrim "$WORK/mount"
    umount "$WORK/mount"
    mount -t ext4 "$LOOP" "$WORK/mount"
    for file in "$WORK"/mount/tree/*; do cmp "$file" "$WORK/tree/${file##*/}"; done
    [ "$(ls "$WORK/mount/tree" | wc -l)" = 200 ]
    umount "$WORK/mount"
    e2fsck -fn "$LOOP"
    detach
    stop_server
    echo "$design: fsx, badblocks, discard, ext4 without a fault"
done
