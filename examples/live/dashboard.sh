#!/usr/bin/env bash
# What clients of the dashboard cost the device: 4-KiB writes at random at queue depth 32, with and without CLIENTS that receive
# snapshots, in pairs of rounds whose order alternates. Prints the medians over the pairs: requests per second and CPU time of
# the server per request, with clients over without.
# Needs the packages of install.sh and a release build: WEARWELL=target/release/wearwell examples/live/dashboard.sh
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
require fio nbdinfo python3 "$WEARWELL"
CLIENTS=${CLIENTS:-200} PAIRS=${PAIRS:-10} SECONDS_EACH=${SECONDS_EACH:-5} DESIGN=${DESIGN:-page-map} ADDRESS=${ADDRESS:-127.0.0.1:9111}

cpu_ticks() { awk '{ print $14 + $15 }' "/proc/$SERVER/stat"; }

# Prints requests per second, and CPU time of the server per request in microseconds.
round() { # clients
    local watchers= before requests
    if [ "$1" -gt 0 ]; then
        coproc WATCHERS { exec python3 "$(dirname "${BASH_SOURCE[0]}")/dashboard_clients.py" "$ADDRESS" "$1"; }
        watchers=$WATCHERS_PID
        read -r <&"${WATCHERS[0]}" # All receive snapshots.
    fi
    before=$(cpu_ticks)
    requests=$(fio --name=r --ioengine=nbd --uri="$URI" --thread --rw=randwrite --bs=4k --size=256m --iodepth=32 --time_based \
        --runtime="$SECONDS_EACH" --randrepeat=0 --norandommap --output-format=json 2>/dev/null | sed '/^{/,$!d' |
        python3 -c 'import json,sys; w=json.load(sys.stdin)["jobs"][0]["write"]; print(w["iops"], w["total_ios"])')
    awk -v ticks="$(($(cpu_ticks) - before))" -v hz="$(getconf CLK_TCK)" -v r="$requests" \
        'BEGIN { split(r, of, " "); printf "%.0f %.4f\n", of[1], 1e6 * ticks / hz / of[2] }'
    if [ -n "$watchers" ]; then kill -TERM "$watchers"; wait "$watchers" || { echo "clients missed snapshots" >&2; exit 1; }; fi
}

start_server "$DESIGN" 256MiB --dashboard "$ADDRESS" --max-connections 1024
fio --name=w --ioengine=nbd --uri="$URI" --thread --rw=write --bs=256k --size=256m --iodepth=8 >/dev/null 2>&1
round 0 >/dev/null
for pair in $(seq "$PAIRS"); do
    if [ $((pair % 2)) -eq 0 ]; then
        without=$(round 0) with=$(round "$CLIENTS")
    else
        with=$(round "$CLIENTS") without=$(round 0)
    fi
    echo "$with $without" | tee -a "$WORK/pairs"
done
python3 - "$WORK/pairs" "$CLIENTS" <<'PYTHON'
import statistics, sys
pairs = [[float(word) for word in line.split()] for line in open(sys.argv[1])]
for name, column in [("requests per second", 0), ("CPU time of the server per request", 1)]:
    ratios = sorted(pair[column] / pair[column + 2] for pair in pairs)
    print(f"{name}, with {sys.argv[2]} clients over without: median {statistics.median(ratios):.4f} of {len(ratios)} pairs, "
          f"{ratios[0]:.4f} to {ratios[-1]:.4f}")
PYTHON
stop_server
