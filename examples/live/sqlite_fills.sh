#!/usr/bin/env bash
# SQLite on the VFS of crates/sqlite: the stock sqlite3 program loads it, over an image and over a running server, with
# checkpoints by writes and by remaps; the dump of every database must be that of a plain file. Then db_bench's fills on
# designs side by side (crates/sqlite/examples/fills.rs), as the table of docs/sqlite.md. Needs sqlite3, cargo:
#   WEARWELL=target/release/wearwell LIBRARY=target/release/libwearwell_sqlite examples/live/sqlite_fills.sh [SCALE [WORKLOAD...]]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
require sqlite3 nbdinfo sha256sum "$WEARWELL"
LIBRARY=$(realpath "${LIBRARY:?the path of libwearwell_sqlite without .so}.so")
LIBRARY=${LIBRARY%.so}
SIZE=256MiB

# 20,000 rows in 200 transactions, replaced at random by a generator with a seed, then some deleted.
work() {
    echo "pragma journal_mode=wal; pragma synchronous=normal; create table t(id integer primary key, body blob, sum text);"
    awk 'BEGIN { seed = 1
        for (t = 0; t < 200; t++) {
            print "begin;"
            for (k = 0; k < 100; k++) {
                seed = (seed * 16807) % 2147483647
                printf "replace into t values(%d, zeroblob(%d), hex(%d));\n", seed % 8000, seed % 900, seed
            }
            print "commit;"
        }
        print "delete from t where id % 7 = 0; pragma wal_checkpoint(truncate);" }'
}

sqlite() { # URI, statements from standard input
    { printf '.load %s\n.open %s\n' "$LIBRARY" "$1"; cat; } | sqlite3 -batch :memory:
}

digest() { sha256sum | cut -d' ' -f1; }

# Writes, opens again, compares.
compare() { # what, URI
    work | sqlite "$2" >/dev/null
    local integrity found
    integrity=$(echo 'pragma integrity_check;' | sqlite "$2")
    found=$(echo '.dump' | sqlite "$2" | digest)
    [ "$integrity" = ok ] || { echo "$1: $integrity" >&2; exit 1; }
    [ "$found" = "$EXPECTED" ] || { echo "$1: another dump than that of a plain file" >&2; exit 1; }
    echo "$1: integrity_check ok, the dump of a plain file"
}

work | sqlite3 -batch "$WORK/plain.db" >/dev/null
EXPECTED=$(sqlite3 "$WORK/plain.db" .dump | digest)
sqlite3 --version | cut -d' ' -f1-2

for REMAP in on off; do
    IMAGE=$WORK/sqlite-$REMAP
    compare "image, remap=$REMAP" "file:demo.db?vfs=wearwell&image=$IMAGE&size=$SIZE&design=remap&remap=$REMAP"
    "$WEARWELL" check "$IMAGE" >/dev/null
    start_server remap "$SIZE"
    compare "server, remap=$REMAP" "file:demo.db?vfs=wearwell&nbd=$WORK/nbd&control=$WORK/control&remap=$REMAP"
    stop_server
done

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cargo run --quiet --release -p wearwell-sqlite --example fills -- "$@"
