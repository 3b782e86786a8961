#!/usr/bin/env bash
# A capture of F2FS (live/vm/f2fs_capture.sh) on the device of Remap-SSD, a thirty-second of its size: with the cleaner's moves as reads and
# writes, and as remaps under each reverse map. Prints a row per scheme and what RM-39..42 ask. docs/f2fs.md explains the figures.
#   WEARWELL=target/release/wearwell examples/f2fs_replay.sh [traces/f2fs.wwt [option of replay...]]
# PAGES is the pages per block (128: 1 GiB exported), LOG_MIB the NVRAM or log (the paper's 80 MB for 32 GiB, to scale).
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
WEARWELL=${WEARWELL:-wearwell}
TRACE=${1:-$HERE/../traces/f2fs.wwt}
# What else the device is, `--precondition fill` for example.
OTHER=("${@:2}")
# The drive is empty unless something else is asked for.
[[ " ${OTHER[*]} " == *" --precondition "* ]] || OTHER+=(--precondition none)
PAGES=${PAGES:-128}
LOG_MIB=${LOG_MIB:-$(awk "BEGIN { print 80 * $PAGES / 4096 }")}
for program in "$WEARWELL" python3; do
    command -v "$program" >/dev/null || { echo "$0: \`$program\` is not there; WEARWELL=target/release/wearwell names ours" >&2; exit 1; }
done
[ -r "$TRACE" ] || { echo "$0: there is no $TRACE; examples/live/vm/f2fs_capture.sh makes one" >&2; exit 1; }
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

replay() { # name, design, what else
    "$WEARWELL" replay "$TRACE" --quiet --design "$2" --device rm-36g --timing event --arrival closed --seed 1 \
        --set device.blocks_per_plane=144 --set "device.pages_per_block=$PAGES" --json "$WORK/$1" "${OTHER[@]}" "${@:3}"
}

scheme() { # name, reverse map, its size if it has one
    replay "$1" remap --set remap.dedup=false --set "remap.reverse_map=$2" "${@:3}"
}
LIMITED=(--set "remap.size_mib=$LOG_MIB")

# A design that shares no pages carries a remap out as a read and a write.
replay NoRemap page-map
scheme Remap-SSD segments "${LIMITED[@]}"
scheme NLog nvram-log "${LIMITED[@]}"
scheme FLog flash-log "${LIMITED[@]}"
scheme Opt ideal
cd "$WORK"
python3 "$HERE/f2fs_rows.py" NoRemap Remap-SSD NLog FLog Opt
