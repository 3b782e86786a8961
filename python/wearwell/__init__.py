"""Wearwell: replay block traces through flash translation layers, and see what each does to a drive.

    import wearwell as ww

    result = ww.replay("traces/pgbench-ext4.wwt", ww.Drive("tlc-1t", over_provisioning=0.12), "wearwell")
    print(result)

docs/python.md explains the package, docs/configuration.md lists all settings, and docs/figures.md explains the figures.
"""

from ._ablation import AblationResult, ablate
from ._columns import Columns
from ._design import Design
from ._device import Device, Operation, View
from ._drive import Drive
from ._clusters import DaskExecutor, SlurmExecutor
from ._executors import Executor, LocalExecutor, Outcome, Task
from ._life import LifeResult, life
from ._native import PowerLoss, WearwellError, __version__
from ._policy import Blocks, VictimPolicy
from ._profile import ProfileResult, profile
from ._result import PartialResultWarning, Result
from ._run import replay
from ._sweep import Sweep, sweep
from ._trace import Trace
from ._worker import run_task

__all__ = [
    "AblationResult",
    "Blocks",
    "Columns",
    "Design",
    "Device",
    "Drive",
    "DaskExecutor",
    "Executor",
    "LifeResult",
    "LocalExecutor",
    "Operation",
    "Outcome",
    "PartialResultWarning",
    "PowerLoss",
    "ProfileResult",
    "Result",
    "SlurmExecutor",
    "Sweep",
    "Task",
    "Trace",
    "VictimPolicy",
    "View",
    "WearwellError",
    "__version__",
    "ablate",
    "life",
    "profile",
    "replay",
    "run_task",
    "sweep",
]
