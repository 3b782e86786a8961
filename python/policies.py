"""How fast a drive of 1 GB is whose victims are chosen in Python: host writes per second of wall time, steady state.

    python -P python/policies.py
"""

import sys
import time

import numpy
import wearwell as ww

DRIVE = ww.Drive("lab-8g", blocks_per_plane=2048, over_provisioning=0.15)
PAGES, REQUESTS = 225_000, 1_500_000


class WithNumpy:
    """Greedy by `numpy.argmin`."""

    def choose(self, blocks: ww.Blocks) -> int:
        columns = blocks.to_numpy()
        return int(columns["block"][numpy.argmin(columns["valid_pages"])])


class Plain:
    """Greedy by a loop of Python."""

    def choose(self, blocks: ww.Blocks) -> int:
        valid = blocks["valid_pages"].tolist()
        return blocks["block"][valid.index(min(valid))]


def measure(policy: ww.VictimPolicy | None) -> str:
    load = ww.Trace.workload(f"uniform:pages={PAGES},requests={REQUESTS}")
    began = time.perf_counter()
    result = ww.replay(load, DRIVE, precondition="none", victim_policy=policy)
    seconds = time.perf_counter() - began
    name = "in the engine" if policy is None else type(policy).__name__
    return f"{name}: {REQUESTS / seconds:,.0f} host writes per second, write amplification {result.write_amplification:.3f}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(__doc__)
    for each in (None, WithNumpy(), Plain()):
        print(measure(each))
