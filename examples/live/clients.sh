#!/usr/bin/env bash
# Throughput of 4-KiB requests at queue depth 32: ours by design, beside nbdkit and qemu-nbd on a raw file.
# Needs the packages of install.sh and a release build: WEARWELL=target/release/wearwell examples/live/clients.sh
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
require fio nbdkit qemu-nbd "$WEARWELL"
SECONDS_EACH=${SECONDS_EACH:-10}

rate() { # uri, pattern
    fio --name=r --ioengine=nbd --uri="$1" --thread --rw="$2" --bs=4k --size=256m --iodepth=32 --time_based \
        --runtime="$SECONDS_EACH" --randrepeat=0 --output-format=json 2>/dev/null | sed '/^{/,$!d' |
        python3 -c 'import json,sys; j=json.load(sys.stdin)["jobs"][0]; print(round(j["read"]["iops"]+j["write"]["iops"]))'
}

measure() { # name
    printf '%-12s %9s writes/s %9s reads/s\n' "$1" "$(rate "$URI" randwrite)" "$(rate "$URI" randread)"
}

truncate -s 256M "$WORK/raw"
nbdkit -f -U "$WORK/nbd" file "$WORK/raw" & OTHER=$!
until [ -S "$WORK/nbd" ]; do sleep 0.05; done
measure nbdkit
kill "$OTHER"; wait "$OTHER" || true; rm -f "$WORK/nbd"

qemu-nbd -t -f raw -e 8 -k "$WORK/nbd" "$WORK/raw" & OTHER=$!
until [ -S "$WORK/nbd" ]; do sleep 0.05; done
measure qemu-nbd
kill "$OTHER"; wait "$OTHER" || true; rm -f "$WORK/nbd"

for design in page-map recyclable remap delta integrated; do
    start_server "$design" 256MiB
    measure "$design"
    stop_server
done
