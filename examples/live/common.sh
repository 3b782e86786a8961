# What the scripts here share: programs that must exist, and a server of one design.

require() { # programs
    for program in "$@"; do
        command -v "$program" >/dev/null && continue
        echo "$0: \`$program\` is not there: run examples/live/install.sh; WEARWELL=target/release/wearwell names ours" >&2
        exit 1
    done
}

WEARWELL=${WEARWELL:-wearwell}
WORK=$(mktemp -d)
SERVER=

stop_server() {
    [ -z "$SERVER" ] && return
    kill -TERM "$SERVER"
    wait "$SERVER" || { echo "the server ended with status $?" >&2; exit 1; }
    SERVER=
}

clean_up() {
    # What is mounted goes before what it lies on.
    mountpoint -q "$WORK/mount" && umount -l "$WORK/mount"
    if [ -n "${LOOP:-}" ]; then losetup -d "$LOOP" 2>/dev/null || true; fi
    if [ -n "$SERVER" ]; then kill "$SERVER" 2>/dev/null || true; fi
    mountpoint -q "$WORK/fuse" && fusermount3 -uz "$WORK/fuse"
    # A virtual machine (vm/vm.sh).
    if [ -n "${MACHINE:-}" ]; then kill "$MACHINE" 2>/dev/null || true; fi
    rm -rf "$WORK"
}
trap clean_up EXIT

# Kills it as a cut of power would.
kill_server() {
    kill -9 "$SERVER"
    wait "$SERVER" 2>/dev/null || true
    SERVER=
    rm -f "$WORK/nbd" "$WORK/control"
}

# MEDIUM=image serves an image that is made when it is first asked for; memory is the default.
start_server() { # design, size, more arguments
    local what=(--memory --design "$1" --size "$2")
    if [ "${MEDIUM:-memory}" = image ]; then
        [ -d "$WORK/image-$1" ] ||
            "$WEARWELL" create "$WORK/image-$1" --design "$1" --size "$2" --durability "${DURABILITY:-process}" >/dev/null
        what=(--image "$WORK/image-$1")
    fi
    "$WEARWELL" serve --quiet "${what[@]}" --socket "$WORK/nbd" --control "$WORK/control" "${@:3}" &
    SERVER=$!
    until nbdinfo --size "$URI" >/dev/null 2>&1; do
        kill -0 "$SERVER" 2>/dev/null || { echo "the server did not start" >&2; exit 1; }
        sleep 0.05
    done
}

URI="nbd+unix:///?socket=$WORK/nbd"

# The served device as a loop device, in LOOP.
attach() {
    mkdir -p "$WORK/fuse" "$WORK/mount"
    # It aborts with a core when its server is killed.
    (ulimit -c 0 && exec nbdfuse "$WORK/fuse/disk" --unix "$WORK/nbd") 2>/dev/null & FUSE=$!
    until [ -s "$WORK/fuse/disk" ]; do
        kill -0 "$FUSE" 2>/dev/null || { echo "nbdfuse did not start" >&2; exit 1; }
        sleep 0.05
    done
    LOOP=$(losetup -f --show --direct-io=on "$WORK/fuse/disk")
}

# The server may be gone already: then nothing below the mount answers.
detach() {
    umount "$WORK/mount" 2>/dev/null || umount -l "$WORK/mount" 2>/dev/null || true
    losetup -d "$LOOP"
    LOOP=
    fusermount3 -u "$WORK/fuse" 2>/dev/null || fusermount3 -uz "$WORK/fuse" 2>/dev/null || true
    wait "$FUSE" 2>/dev/null || true
}
