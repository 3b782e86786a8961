"""How fast a drive is that Python drives step by step: host writes per second, and the time of a view.

    python -P python/steps.py [designs]
"""

import random
import sys
import time

import wearwell as ww

WRITES = 200_000


def measure(design: str) -> str:
    device = ww.Device(design, ww.Drive("lab-8g", blocks_per_plane=256))
    page, choice = device.page_of("A"), random.Random(1)
    lpns = [choice.randrange(device.logical_pages) for _ in range(WRITES)]
    began = time.perf_counter()
    for lpn in lpns:
        device.write(lpn, page)
    written = time.perf_counter()
    rows = device.view().pages.rows
    viewed = time.perf_counter()
    return (
        f"{design}: {WRITES / (written - began):,.0f} host writes per second, "
        f"a view of {rows:,} pages {1000 * (viewed - written):.1f} ms"
    )


if __name__ == "__main__":
    for name in sys.argv[1:] or ["page-map"]:
        print(measure(name))
