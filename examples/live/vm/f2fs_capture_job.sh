# The part of f2fs_capture.sh that runs in the machine: MiB of the volume, MiB of files, overwrites per load, and per fsync.
set -euo pipefail
. /tmp/host/device.sh
SIZE_MIB=$1 FILES_MIB=$2 OVERWRITES=$3 SYNC_EVERY=$4
TRACING=/sys/kernel/tracing
mount -t tracefs tracefs "$TRACING"
modprobe f2fs

create_image page-map "${SIZE_MIB}MiB"
attach
mkfs.f2fs -q -f "$DEVICE"
mount -t f2fs -o mode=lfs "$DEVICE" "$MOUNT"
NAME=${DEVICE##*/}

device_pages() {
    python3 -c 'import json, socket, sys
control = socket.socket(socket.AF_UNIX)
control.connect(sys.argv[1])
control.sendall(b"{\"command\": \"stats\"}\n")
print(json.loads(control.makefile().readline())["host_page_writes"])' "$CONTROL"
}

load() { # name
    fio --name="$1" --directory="$MOUNT" --filename_format='file.$filenum' --nrfiles=40 --filesize="$((FILES_MIB / 40))M" \
        --ioengine=psync --rw=randwrite --random_distribution=zipf:0.9 --bs=4k --number_ios="$OVERWRITES" --io_size=100T --fsync="$SYNC_EVERY" \
        --randseed="$2" --fallocate=none >"/tmp/$1.log" 2>&1 || { cat "/tmp/$1.log"; exit 1; }
}

watch_events() { # 1 or 0
    for event in f2fs_submit_page_write f2fs_submit_page_bio f2fs_issue_discard; do
        echo "$1" >"$TRACING/events/f2fs/$event/enable"
    done
}

phase() { # what was done
    sync
    echo phase >"$TRACING/trace_marker"
    echo "$1 by $(cut -d. -f1 /proc/uptime) s: $(cat "/sys/fs/f2fs/$NAME/dirty_segments") dirty segments, $(cat "/sys/fs/f2fs/$NAME/free_segments") free"
}

# From here on every page is seen, and counted by F2FS as well.
echo 65536 >"$TRACING/buffer_size_kb"
echo 'op != 0' >"$TRACING/events/f2fs/f2fs_submit_page_bio/filter"
watch_events 1
cat "$TRACING/trace_pipe" >/tmp/events & READER=$!
echo 1 >"/sys/fs/f2fs/$NAME/iostat_enable"
BEFORE=$(device_pages)

fio --name=fill --directory="$MOUNT" --filename_format='file.$filenum' --nrfiles=40 --filesize="$((FILES_MIB / 40))M" --ioengine=psync \
    --rw=write --bs=256k --fallocate=none --end_fsync=1 >/tmp/fill.log 2>&1 || { cat /tmp/fill.log; exit 1; }
echo "filled by $(cut -d. -f1 /proc/uptime) s"
load first 1
phase "filled and overwritten"
python3 /tmp/host/f2fs_clean.py "$MOUNT" "/sys/fs/f2fs/$NAME/dirty_segments"
phase cleaned
load second 2
sync

watch_events 0
cat "/proc/fs/f2fs/$NAME/iostat_info" >/tmp/host/iostat
echo "$(($(device_pages) - BEFORE))" >/tmp/host/device_pages
sleep 3
kill "$READER"
cat "$TRACING"/per_cpu/cpu*/stats | grep -E '^(overrun|dropped events):' | grep -qv ': 0$' && fault "the kernel dropped events"
cp /tmp/events /tmp/host/events
umount "$MOUNT"
fsck_now f2fs
detach
audit 0
echo "F2FS of Linux $(uname -r), mode=lfs, $SIZE_MIB MiB, $FILES_MIB MiB of files, twice $OVERWRITES zipf overwrites (fio) with forced cleaning between; trace-driven: moves are copies here" >/tmp/host/provenance
[ "$FAULTS" = 0 ]
