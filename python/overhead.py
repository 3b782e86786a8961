"""CPU time of the same run by the command line and by a call of `replay`: figures of docs/python.md.

python -P python/overhead.py target/release/wearwell [rounds]
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import wearwell as ww

LOAD = "uniform:pages=500000,requests=10000000,write=1.0"


def of_command(command: str) -> float:
    """CPU seconds of the command, its start included."""
    before = os.times()
    subprocess.run([command, "replay", "--workload", LOAD, "--quiet"], check=True)
    after = os.times()
    return (after.children_user - before.children_user) + (after.children_system - before.children_system)


def of_call() -> float:
    """CPU seconds of the call, all threads."""
    began = time.process_time()
    ww.replay(ww.Trace.workload(LOAD))
    return time.process_time() - began


def main(command: str, rounds: int) -> None:
    pairs = [(of_command(command), of_call()) for _ in range(rounds)]
    commands, calls = ([pair[door] for pair in pairs] for door in range(2))
    print(f"CPU s, the least of {rounds}: command {min(commands):.3f}, call {min(calls):.3f}", end="; ")
    print(f"call over command {min(calls) / min(commands) - 1:+.1%}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 12)
