#!/usr/bin/env bash
# A day with an image, each step one command of docs/serve.md: create, serve, make a file system, use it, be killed, snapshot, damage,
# repair, grow, another design, and an image of an earlier version brought up. What is read back is compared after each step.
# Needs nbdcopy and e2fsprogs: WEARWELL=target/release/wearwell examples/live/day.sh [design]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
PATH=$PATH:/usr/sbin:/sbin
require nbdcopy nbdinfo mkfs.ext4 e2fsck debugfs tar "$WEARWELL"
DESIGN=${1:-remap}
OLD_IMAGE=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/crates/serve/tests/version1/v1-page-map.tar.xz

step() { printf '%s\n' "$*"; }

serve() { # image
    "$WEARWELL" serve --quiet --image "$1" --socket "$WORK/nbd" --control "$WORK/control" & SERVER=$!
    until nbdinfo --size "$URI" >/dev/null 2>&1; do
        kill -0 "$SERVER" 2>/dev/null || { echo "the server did not start" >&2; exit 1; }
        sleep 0.05
    done
}

# A file system with a file of known contents, read back and checked through the device.
compare() { # image
    serve "$1"
    rm -f "$WORK/back"
    nbdcopy "$URI" "$WORK/back"
    stop_server
    e2fsck -fn "$WORK/back" >/dev/null 2>&1 || { echo "$1: e2fsck finds damage" >&2; exit 1; }
    debugfs -R "cat /letter" "$WORK/back" 2>/dev/null | cmp - "$WORK/letter"
}

step "create, serve, mkfs, use"
seq 200000 >"$WORK/letter"
"$WEARWELL" create "$WORK/disk" --size 32MiB --design "$DESIGN"
truncate -s 32M "$WORK/fs"
mkdir "$WORK/root" && cp "$WORK/letter" "$WORK/root/"
mkfs.ext4 -q -F -d "$WORK/root" "$WORK/fs"
serve "$WORK/disk"
nbdcopy --flush "$WORK/fs" "$URI"

step "snapshot while it is served"
"$WEARWELL" snapshot "$WORK/control" "$WORK/snapshot"

step "killed as by a cut of power"
kill_server
[ "$("$WEARWELL" check "$WORK/disk" >/dev/null; echo $?)" = 1 ]
compare "$WORK/disk"
"$WEARWELL" check "$WORK/disk"

step "the snapshot holds the same"
"$WEARWELL" check "$WORK/snapshot"
compare "$WORK/snapshot"

step "damage of metadata: a file is gone, another is half zeros"
rm "$WORK/disk/nvram"
truncate -s 4096 "$WORK/disk/journal"
"$WEARWELL" repair "$WORK/disk" --to "$WORK/repaired"
"$WEARWELL" check "$WORK/repaired"
compare "$WORK/repaired"

step "grow"
"$WEARWELL" resize "$WORK/repaired" --size 48MiB
"$WEARWELL" check "$WORK/repaired"
compare "$WORK/repaired"

step "another design"
"$WEARWELL" copy "$WORK/repaired" "$WORK/other" --design page-map
compare "$WORK/other"

step "an image of format version 1"
tar -xJf "$OLD_IMAGE" -C "$WORK"
if "$WEARWELL" serve --quiet --image "$WORK/v1-page-map" --socket "$WORK/nbd" 2>"$WORK/refused"; then exit 1; fi
grep -q "wearwell upgrade" "$WORK/refused"
"$WEARWELL" upgrade "$WORK/v1-page-map"
"$WEARWELL" check "$WORK/v1-page-map"
step "done"
