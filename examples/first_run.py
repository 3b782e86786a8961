"""A run and a sweep from Python: `pip install . && python examples/first_run.py` in a fresh virtual environment."""

from pathlib import Path

import wearwell as ww

drive = ww.Drive("lab-8g", over_provisioning=0.12, fit=1.0)  # a preset, shrunk to the input; or a geometry
trace = ww.Trace(Path(__file__).parents[1] / "traces/pgbench-ext4.wwt")  # the format is found
design = ww.Design("wearwell", content=["dedup", "recycle"])  # a named design with other content mechanisms
result = ww.replay(trace, drive, design, precondition="steady", timing="event", seed=7)
print(trace, drive, design, result, sep="\n")

sweep = ww.sweep(
    trace=[trace],
    drive=[drive],
    design=["page-map", "geckoftl", "remap", design],
    over_provisioning=[0.07, 0.15, 0.28],
    jobs=2,
)
print("\ndesign, over-provisioning, write amplification, erases")
for run in sweep.results:
    if run is not None:
        print(run.design, f"{run.device.over_provisioning:.2f}", round(run.write_amplification, 3), run.erases, sep=", ")
