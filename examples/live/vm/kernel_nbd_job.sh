# The part of kernel_nbd.sh that runs in the machine: kills per file system, file systems, whether to lie, designs.
set -euo pipefail
. /tmp/host/device.sh
KILLS=$1 FILESYSTEMS=$2 LIAR=$3
shift 3
BYTES=$((600 << 20)) VERIFIED=$((48 << 20))

# A flush that is honest and requests that need none: the kernel must know of both.
look_at_queue() {
    local queue=/sys/block/${DEVICE##*/}/queue
    [ "$(cat $queue/write_cache)" = "write back" ] || fault "the kernel sends no flush"
    [ "$(cat $queue/fua)" = 1 ] || fault "the kernel sends no FUA"
    [ "$(cat $queue/discard_max_bytes)" -gt 0 ] || fault "the kernel sends no discard"
    [ "$(blockdev --getsize64 "$DEVICE")" = "$BYTES" ] || fault "the kernel sees another size"
}

verify() {
    fio --name=v --filename="$DEVICE" --ioengine=libaio --direct=1 --rw=randwrite --bs=4k --size="$VERIFIED" --iodepth=32 --verify=crc32c \
        --verify_fatal=1 --do_verify=1 --fsync=64 --randrepeat=0 >/tmp/fio.log 2>&1 || fault "fio: $(tail -5 /tmp/fio.log)"
    blkdiscard -f "$DEVICE" 2>/dev/null
    cmp -n "$VERIFIED" "$DEVICE" /dev/zero || fault "what was discarded is not zero"
}

make_fs() { # file system
    case $1 in
    ext4) mkfs.ext4 -q -F "$DEVICE" ;;
    xfs) mkfs.xfs -q -f "$DEVICE" ;;
    btrfs) mkfs.btrfs -q -f "$DEVICE" ;;
    f2fs) mkfs.f2fs -q -f "$DEVICE" ;;
    esac >/dev/null 2>&1
}

load_once() {
    stress-ng --temp-path "$MOUNT" --hdd 1 --hdd-bytes 8m --hdd-opts wr-rnd,rd-rnd,fsync --rename 1 --dentry 1 --dentries 128 \
        --fallocate 1 --fallocate-bytes 8m --verify -t 4s >/tmp/stress.log 2>&1 || fault "stress-ng: $(tail -3 /tmp/stress.log)"
    fstrim "$MOUNT"
}

# Files whose names are in /tmp/acked were acknowledged: fsync of the file and of its directory returned.
write_files() { # number of the kill
    local i=0 file
    while :; do
        i=$((i + 1)) file=ack/$1.$i
        head -c $((RANDOM * 3 + 1)) /dev/urandom >/tmp/t
        dd if=/tmp/t of="$MOUNT/$file" bs=1M conv=fsync status=none || return 0
        sync "$MOUNT/ack" || return 0
        echo "$file $(sha1sum </tmp/t | head -c 40)" >>/tmp/acked
    done
}

# An image that forgets what came behind the first kill. It is copied while nobody writes to it: else it would be refused as damaged.
lie() {
    if [ -d /tmp/older ]; then rm -rf "$IMAGE" && cp -r --sparse=always /tmp/older "$IMAGE"; else cp -r --sparse=always "$IMAGE" /tmp/older; fi
}

cut_off() { # number, file system
    local writer load file hash
    rm -rf "$MOUNT/load"
    mkdir -p "$MOUNT/ack" "$MOUNT/load"
    stress-ng --temp-path "$MOUNT/load" --hdd 1 --hdd-bytes 8m --hdd-opts fsync -t 90s >/dev/null 2>&1 &
    load=$!
    write_files "$1" 2>/dev/null & writer=$!
    sleep "$((RANDOM % 4 + 5)).$((RANDOM % 10))"
    kill_server
    kill "$writer" "$load" 2>/dev/null || true
    wait "$writer" "$load" 2>/dev/null || true
    umount "$MOUNT" 2>/dev/null || umount -l "$MOUNT"
    disconnect
    audit 1
    [ -z "$LIAR" ] || lie
    attach
    mount -t "$2" "$DEVICE" "$MOUNT" || { fault "$2 cannot be mounted after kill $1"; return 1; }
    while read -r file hash; do
        [ "$(sha1sum <"$MOUNT/$file" | head -c 40)" = "$hash" ] || fault "$2 on $DESIGN lost $file"
    done </tmp/acked
}

for module in ext4 xfs btrfs f2fs; do modprobe "$module" || true; done
for DESIGN in "$@"; do
    create_image "$DESIGN" "$BYTES"
    attach
    look_at_queue
    verify
    echo "$DESIGN: attached by $(uname -r) as write back with FUA and discard; fio verified, discarded: $FAULTS faults so far"
    for FS in $FILESYSTEMS; do
        : >/tmp/acked
        rm -rf /tmp/older
        make_fs "$FS"
        mount -t "$FS" "$DEVICE" "$MOUNT"
        load_once
        umount "$MOUNT"
        fsck_now "$FS"
        mount -t "$FS" "$DEVICE" "$MOUNT"
        for ((number = 1; number <= KILLS; number++)); do cut_off "$number" "$FS" || break; done
        umount "$MOUNT" 2>/dev/null || true
        fsck_now "$FS"
        [ "$KILLS" = 0 ] || [ -s /tmp/acked ] || fault "$FS on $DESIGN: no file was acknowledged"
        blkdiscard -f "$DEVICE" 2>/dev/null
        echo "$DESIGN $FS: loaded, trimmed, checked; $KILLS kills, $(wc -l </tmp/acked) files acknowledged and compared, $FAULTS faults so far"
    done
    detach
    audit 0
done
[ "$FAULTS" = 0 ]
