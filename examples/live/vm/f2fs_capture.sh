#!/usr/bin/env bash
# What F2FS writes, trims and moves, as its own tracepoints say it, made into a trace whose moves are copies: f2fs:f2fs_submit_page_write
# names the old and the new block of every page, and what the cleaner moves is COLD_DATA. The kernel is a stock one in a virtual machine,
# the device ours (../../../docs/f2fs.md). Three phases: files are filled and overwritten; the cleaner runs by force; the load again.
# The copies must be as many as F2FS itself counts (iostat), the pages as many as the device was sent. Ten minutes on an idle machine.
# Needs the packages of ../install.sh and 110 MB from Debian:
#   WEARWELL=target/release/wearwell examples/live/vm/f2fs_capture.sh f2fs.wwt
# SIZE_MIB is the volume, FILES_MIB of it are files, OVERWRITES the 4-KiB writes in each of the two loads, SYNC_EVERY those before an fsync.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/vm.sh"
require nbd-client fio mkfs.f2fs fsck.f2fs python3
OUT=${1:?the trace to write, as f2fs.wwt}
SIZE_MIB=${SIZE_MIB:-1024} FILES_MIB=${FILES_MIB:-640} OVERWRITES=${OVERWRITES:-80000} SYNC_EVERY=${SYNC_EVERY:-64}
VM_MEMORY_MIB=${VM_MEMORY_MIB:-$((SIZE_MIB * 5 / 4 + 2048))}
VM_SECONDS=${VM_SECONDS:-3000}
mkdir -p "$SHARE"
cp "$HERE/device.sh" "$HERE/f2fs_clean.py" "$SHARE/"
vm_run "$HERE/f2fs_capture_job.sh" "$SIZE_MIB" "$FILES_MIB" "$OVERWRITES" "$SYNC_EVERY"
[ -z "${KEEP:-}" ] || cp -r "$SHARE" "$KEEP"
python3 "$HERE/f2fs_trace.py" "$SHARE/events" "$SHARE/iostat" "$SHARE/device_pages" "$WORK/f2fs.csv" | tee "$WORK/summary"
"$WEARWELL" trace convert "$WORK/f2fs.csv" "$OUT" --provenance "$(cat "$SHARE/provenance"); $(tr '\n' ';' <"$WORK/summary")"
"$WEARWELL" trace info "$OUT"
