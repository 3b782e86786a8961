# What the scripts here share: programs that must exist, and a server of one design.

require() { # programs
    for program in "$@"; do
        command -v "$program" >/dev/null && continue
        echo "$0: \`$program\` is not installed: run examples/live/install.sh" >&2
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
    if [ -n "$SERVER" ]; then kill "$SERVER" 2>/dev/null || true; fi
    rm -rf "$WORK"
}
trap clean_up EXIT

start_server() { # design, size
    "$WEARWELL" serve --quiet --memory --design "$1" --size "$2" --socket "$WORK/nbd" --control "$WORK/control" &
    SERVER=$!
    until [ -S "$WORK/nbd" ]; do
        kill -0 "$SERVER" 2>/dev/null || { echo "the server did not start" >&2; exit 1; }
        sleep 0.05
    done
}

URI="nbd+unix:///?socket=$WORK/nbd"
