#!/usr/bin/env bash
# SQLite on ext4 on an image whose server is killed while it commits (recipe A9): every row of every acknowledged transaction must be
# there afterwards. Needs root, /dev/fuse, loop devices, python3, the packages of install.sh:
#   WEARWELL=target/release/wearwell examples/live/sqlite.sh CYCLES [design...]
set -euo pipefail
MEDIUM=image
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
require nbdfuse fusermount3 losetup mkfs.ext4 e2fsck python3 "$WEARWELL"
CYCLES=${1:?how many cycles}
shift
DESIGNS=("$@")
[ $# -gt 0 ] || DESIGNS=(page-map remap integrated)
WRITER=$(dirname "${BASH_SOURCE[0]}")/sqlite_writer.py
SIZE=256MiB
MOUNT=$WORK/mount
FAULTS=0

fault() {
    echo "FAULT $*"
    FAULTS=$((FAULTS + 1))
}

for DESIGN in "${DESIGNS[@]}"; do
    for MODE in WAL DELETE; do
        rm -rf "$WORK/image-$DESIGN"
        : >"$WORK/acked"
        start_server "$DESIGN" "$SIZE"
        attach
        mkfs.ext4 -q -F "$LOOP"
        mount "$LOOP" "$MOUNT"
        ROWS=0
        for ((number = 1; number <= CYCLES; number++)); do
            python3 "$WRITER" write "$MOUNT/db" "$MODE" "$number" >>"$WORK/acked" 2>/dev/null & writer=$!
            sleep "$((RANDOM % 3 + 1)).$((RANDOM % 10))"
            kill_server
            kill "$writer" 2>/dev/null || true
            wait "$writer" 2>/dev/null || true
            sleep 0.2
            detach
            "$WEARWELL" check "$WORK/image-$DESIGN" >"$WORK/check.log" || [ $? = 1 ] || fault "$(cat "$WORK/check.log")"
            start_server "$DESIGN" "$SIZE"
            attach
            mount "$LOOP" "$MOUNT"
            python3 "$WRITER" check "$MOUNT/db" "$WORK/acked" >"$WORK/rows" || fault "$DESIGN $MODE cycle $number: $(head -3 "$WORK/rows")"
            if [ "$(wc -l <"$WORK/acked")" -gt 6000 ]; then
                ROWS=$((ROWS + $(wc -l <"$WORK/acked")))
                rm -f "$MOUNT"/db* && sync && : >"$WORK/acked"
            fi
        done
        ROWS=$((ROWS + $(wc -l <"$WORK/acked")))
        umount "$MOUNT"
        e2fsck -fn "$LOOP" >/dev/null 2>&1 || fault "ext4 is not clean"
        detach
        stop_server
        "$WEARWELL" check "$WORK/image-$DESIGN" >/dev/null || fault "the image is not clean"
        [ "$ROWS" -gt 0 ] || fault "$DESIGN $MODE: nothing was committed"
        echo "$DESIGN SQLite $MODE: $CYCLES kills, $ROWS rows acknowledged and compared, $FAULTS faults so far"
    done
done
[ "$FAULTS" = 0 ]
