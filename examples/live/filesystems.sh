#!/usr/bin/env bash
# File systems on an image whose server is killed under load (recipes A7, A8): ext4, XFS and btrfs are created, loaded, trimmed and
# checked; then, cycle by cycle, files are written with fsync of file and directory while stress-ng works beside, the server is
# killed with SIGKILL, the image is audited, the file system mounted again, and the hash of every file that was acknowledged compared.
# Needs root, /dev/fuse, loop devices, the packages of install.sh:
#   WEARWELL=target/release/wearwell examples/live/filesystems.sh CYCLES [design...]
# FILESYSTEMS="ext4 xfs btrfs" chooses. LIAR=1 drops the image for an older copy after every kill: the script must then fail.
set -euo pipefail
MEDIUM=image
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
require nbdfuse fusermount3 losetup stress-ng mkfs.ext4 mkfs.xfs mkfs.btrfs e2fsck xfs_repair btrfs fstrim "$WEARWELL"
[ -c /dev/fuse ] || { echo "$0: there is no /dev/fuse" >&2; exit 1; }
CYCLES=${1:?how many cycles}
shift
DESIGNS=("$@")
[ $# -gt 0 ] || DESIGNS=(page-map remap integrated)
FILESYSTEMS=${FILESYSTEMS:-ext4 xfs btrfs}
SIZE=${SIZE:-448MiB}
MOUNT=$WORK/mount
FAULTS=0

fault() {
    echo "FAULT $*"
    FAULTS=$((FAULTS + 1))
}

audit() { # highest exit status that is fine
    local status=0
    "$WEARWELL" check "$WORK/image-$DESIGN" >"$WORK/check.log" || status=$?
    [ "$status" -le "$1" ] || fault "wearwell check: $(cat "$WORK/check.log")"
}

fsck_now() {
    case $FS in
    ext4) e2fsck -fn "$LOOP" ;;
    xfs) xfs_repair -n "$LOOP" ;;
    btrfs) btrfs check "$LOOP" ;;
    esac >"$WORK/fsck.log" 2>&1 || fault "$FS is not clean: $(tail -3 "$WORK/fsck.log")"
}

load_once() {
    stress-ng --temp-path "$MOUNT" --hdd 1 --hdd-bytes 16m --hdd-opts wr-rnd,rd-rnd,fsync --iomix 1 --iomix-bytes 16m --rename 1 \
        --dentry 1 --dentries 256 --fallocate 1 --fallocate-bytes 16m --verify -t "${LOAD_SECONDS:-3}s" >"$WORK/stress.log" 2>&1 ||
        fault "stress-ng: $(tail -3 "$WORK/stress.log")"
    fstrim "$MOUNT"
}

# Files whose names are in ACKED were acknowledged: fsync of the file and of its directory returned.
write_files() {
    local i=0 file
    while :; do
        i=$((i + 1)) file=ack/$1.$i
        head -c $((RANDOM * 3 + 1)) /dev/urandom >"$WORK/t"
        dd if="$WORK/t" of="$MOUNT/$file" bs=1M conv=fsync status=none || return 0
        sync "$MOUNT/ack" || return 0
        echo "$file $(sha1sum <"$WORK/t" | head -c 40)" >>"$WORK/acked"
    done
}

compare_files() {
    local file hash
    while read -r file hash; do
        [ "$(sha1sum <"$MOUNT/$file" | head -c 40)" = "$hash" ] || fault "$FS on $DESIGN lost $file"
    done <"$WORK/acked"
}

cycle() { # number
    local writer load
    rm -rf "$MOUNT/load"
    mkdir -p "$MOUNT/ack" "$MOUNT/load"
    stress-ng --temp-path "$MOUNT/load" --hdd 1 --hdd-bytes 8m --hdd-opts fsync --rename 1 --dentry 1 --dentries 256 --link 1 \
        --fallocate 1 --fallocate-bytes 8m -t 60s >/dev/null 2>&1 & load=$!
    write_files "$1" 2>/dev/null & writer=$!
    sleep "$((RANDOM % 2)).$((RANDOM % 10 + 5))"
    kill_server
    kill "$writer" "$load" 2>/dev/null || true
    wait "$writer" "$load" 2>/dev/null || true
    sleep 0.3
    detach
    audit 1
    if [ "${LIAR:-}" ]; then
        # An image that forgets the last cycle.
        [ ! -d "$WORK/older" ] || { rm -rf "$WORK/image-$DESIGN" && cp -r --sparse=always "$WORK/older" "$WORK/image-$DESIGN"; }
    fi
    start_server "$DESIGN" "$SIZE"
    attach
    mount -t "$FS" "$LOOP" "$MOUNT" || { fault "$FS on $DESIGN cannot be mounted after cycle $1"; return 1; }
    compare_files
    # Room for the next cycles: what was compared may go.
    if [ "$(wc -l <"$WORK/acked")" -gt 400 ]; then rm -rf "$MOUNT/ack" && sync && : >"$WORK/acked"; fi
}

for DESIGN in "${DESIGNS[@]}"; do
    for FS in $FILESYSTEMS; do
        rm -rf "$WORK/image-$DESIGN" "$WORK/older"
        : >"$WORK/acked"
        FILES=0
        start_server "$DESIGN" "$SIZE"
        attach
        if [ "$FS" = ext4 ]; then mkfs.ext4 -q -F "$LOOP"; else "mkfs.$FS" -q -f "$LOOP" 2>/dev/null; fi
        mount -t "$FS" "$LOOP" "$MOUNT"
        load_once
        umount "$MOUNT"
        fsck_now
        mount -t "$FS" "$LOOP" "$MOUNT"
        DONE=0
        for ((number = 1; number <= CYCLES; number++)); do
            if [ "${LIAR:-}" ] && [ "$number" = 1 ]; then
                sync && cp -r --sparse=always "$WORK/image-$DESIGN" "$WORK/older"
            fi
            before=$(wc -l <"$WORK/acked")
            cycle "$number" || break
            after=$(wc -l <"$WORK/acked")
            FILES=$((FILES + (after > before ? after - before : 0)))
            DONE=$number
        done
        umount "$MOUNT" 2>/dev/null || true
        fsck_now
        detach
        stop_server
        audit 0
        [ "$FILES" -gt 0 ] || fault "$FS on $DESIGN: no file was acknowledged"
        echo "$DESIGN $FS: $DONE kills, at least $FILES files acknowledged and compared, $FAULTS faults so far"
    done
done
[ "$FAULTS" = 0 ]
