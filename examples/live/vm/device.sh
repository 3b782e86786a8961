# What the jobs in the machine share: our server on an image in its memory, attached by the kernel's nbd as /dev/nbd0.

WEARWELL=/tmp/host/wearwell
IMAGE=/tmp/image
SOCKET=/tmp/nbd
CONTROL=/tmp/control
MOUNT=/tmp/mount
DEVICE=/dev/nbd0
SERVER=
FAULTS=0
mkdir -p "$MOUNT"
modprobe nbd

fault() {
    echo "FAULT $*"
    FAULTS=$((FAULTS + 1))
}

create_image() { # design, size
    rm -rf "$IMAGE"
    "$WEARWELL" create "$IMAGE" --design "$1" --size "$2" >/dev/null
}

# Two connections: the promise of a flush across connections is used.
attach() {
    "$WEARWELL" serve --quiet --image "$IMAGE" --socket "$SOCKET" --control "$CONTROL" &
    SERVER=$!
    until [ -S "$SOCKET" ] && [ -S "$CONTROL" ]; do
        kill -0 "$SERVER" 2>/dev/null || { echo "the server did not start" >&2; exit 1; }
        sleep 0.1
    done
    nbd-client -unix "$SOCKET" "$DEVICE" -N wearwell -C 2 -b 4096 >/dev/null
    until [ "$(blockdev --getsize64 "$DEVICE")" -gt 0 ]; do sleep 0.1; done
}

# The kernel's requests fail from here on, as those of a drive that lost its power.
kill_server() {
    kill -9 "$SERVER"
    wait "$SERVER" 2>/dev/null || true
    rm -f "$SOCKET" "$CONTROL"
}

disconnect() {
    nbd-client -d "$DEVICE" >/dev/null
    # A device that is still being taken down cannot be attached again.
    until [ ! -e "/sys/block/${DEVICE##*/}/pid" ]; do sleep 0.1; done
}

detach() {
    disconnect
    kill -TERM "$SERVER"
    wait "$SERVER" || fault "the server ended with status $?"
    rm -f "$SOCKET" "$CONTROL"
}

audit() { # highest exit status that is fine
    local status=0
    "$WEARWELL" check "$IMAGE" >/tmp/check.log || status=$?
    [ "$status" -le "$1" ] || fault "wearwell check: $(cat /tmp/check.log)"
}

fsck_now() { # file system
    case $1 in
    ext4) e2fsck -fn "$DEVICE" ;;
    xfs) xfs_repair -n "$DEVICE" ;;
    btrfs) btrfs check "$DEVICE" ;;
    # Its exit status says little.
    f2fs) fsck.f2fs --dry-run "$DEVICE" && grep -q 'other corrupted bugs *\[Ok' /tmp/fsck.log && ! grep -q '\[Fail' /tmp/fsck.log ;;
    esac >/tmp/fsck.log 2>&1 || fault "$1 is not clean: $(tail -3 /tmp/fsck.log)"
}
