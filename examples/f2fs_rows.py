"""The table of f2fs_replay.sh: f2fs_rows.py RECORD..., the first without remaps, the second Remap-SSD."""

import json
import sys


def record(name):
    with open(name) as file:
        return json.load(file)["runs"][0]


def phases(run):
    ends = [0] + [point["device_s"] for point in run["phases"]]
    return [end - start for start, end in zip(ends, ends[1:])]


def gain(reference, ours):
    return f"{100 * (reference / ours - 1):+.1f} %"


def main(names):
    runs = {name: record(name) for name in names}
    times = {name: phases(run) for name, run in runs.items()}
    print("| | load, s | cleaning, s | load, s | host pages written | remapped | programs | write amplification | erases |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name, run in runs.items():
        figures = [f"{seconds:.2f}" for seconds in times[name]]
        figures += [f"{run[key]:,}" for key in ("host_page_writes", "host_page_remaps", "programs")]
        figures += [f"{run['write_amplification']:.3f}", f"{run['erases']:,}"]
        print(f"| {name} | {' | '.join(figures)} |")
    without, ours = times[names[0]], times[names[1]]
    print()
    print(f"RM-39, cleaning faster with remaps: {gain(without[1], ours[1])}")
    print(f"RM-40, the load after it faster:    {gain(without[2], ours[2])}")
    for row, phase in (("RM-41, first load ", 0), ("RM-42, second load", 2)):
        over = ", ".join(f"{log} {gain(times[log][phase], ours[phase])}" for log in ("FLog", "NLog"))
        print(f"{row} of Remap-SSD over: {over}")


main(sys.argv[1:])
