#!/usr/bin/env bash
# Throughput of 4-KiB requests at queue depth 32: ours by design, in memory and on an image, beside nbdkit and qemu-nbd on a raw
# file, in one run. Every device is written once before. The buffers are fio's: random bytes, scrambled from request to request.
# Needs the packages of install.sh and a release build: WEARWELL=target/release/wearwell examples/live/clients.sh [design...]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
require fio nbdkit qemu-nbd "$WEARWELL"
SECONDS_EACH=${SECONDS_EACH:-10}
DESIGNS=("$@")
[ $# -gt 0 ] || DESIGNS=(page-map recyclable remap delta integrated)

rate() { # uri, pattern
    fio --name=r --ioengine=nbd --uri="$1" --thread --rw="$2" --bs=4k --size=256m --iodepth=32 --time_based \
        --runtime="$SECONDS_EACH" --randrepeat=0 --output-format=json 2>/dev/null | sed '/^{/,$!d' |
        python3 -c 'import json,sys; j=json.load(sys.stdin)["jobs"][0]; print(round(j["read"]["iops"]+j["write"]["iops"]))'
}

measure() { # name
    local writes reads
    fio --name=w --ioengine=nbd --uri="$URI" --thread --rw=write --bs=256k --size=256m --iodepth=8 >/dev/null 2>&1
    writes=$(rate "$URI" randwrite) reads=$(rate "$URI" randread)
    : "${BASE_WRITES:=$writes}" "${BASE_READS:=$reads}"
    awk -v name="$1" -v w="$writes" -v r="$reads" -v bw="$BASE_WRITES" -v br="$BASE_READS" \
        'BEGIN { printf "| %-20s | %7d | %.2f | %7d | %.2f |\n", name, w, w / bw, r, r / br }'
}

echo "| server | writes/s | x nbdkit | reads/s | x nbdkit |"
echo "|---|---:|---:|---:|---:|"

truncate -s 256M "$WORK/raw"
nbdkit -f -U "$WORK/nbd" file "$WORK/raw" & OTHER=$!
until [ -S "$WORK/nbd" ]; do sleep 0.05; done
measure nbdkit
kill "$OTHER"; wait "$OTHER" || true; rm -f "$WORK/nbd"

qemu-nbd -t -f raw -e 8 -k "$WORK/nbd" "$WORK/raw" & OTHER=$!
until [ -S "$WORK/nbd" ]; do sleep 0.05; done
measure qemu-nbd
kill "$OTHER"; wait "$OTHER" || true; rm -f "$WORK/nbd"

for design in "${DESIGNS[@]}"; do
    for MEDIUM in memory image; do
        start_server "$design" 256MiB
        measure "$design, $MEDIUM"
        stop_server
    done
done
