"""A worker process: reads tasks from standard input, one per line, and writes the outcome of each to standard output.

The worker ends when its standard input ends, even during a run. So no worker outlives the process that started it, even
if that process is killed by SIGKILL.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from . import _native
from ._executors import Task
from ._native import Configuration, WearwellError
from ._trace import Trace

Progress = Callable[[str, int, int], object]


class TaskRunner:
    """Runs tasks. Extent and checksum of a trace are kept for later tasks, so that it is scanned only once."""

    def __init__(self) -> None:
        self._traces: dict[str, Trace] = {}

    def run(self, task: Mapping[str, Any], progress: Progress | None = None) -> dict[str, str]:
        """Runs a task and stores its record. Returns the record, or an error message if the run failed.

        Ctrl-C ends the run and raises `KeyboardInterrupt`, as does a `KeyboardInterrupt` of `progress`.
        """
        try:
            trace = self._trace(task["trace"])
            configuration = Configuration(task["settings"], task["config"])
            record = trace._input.replay(configuration, task["design"], progress)
            _native.store_run(task["store"], task["key"], record)
        except KeyboardInterrupt:
            raise
        except WearwellError as error:
            return {"error": str(error)}
        except BaseException as error:  # A panic of the engine is not an Exception.
            return {"error": f"{type(error).__name__}: {error}"}
        if json.loads(record).get("partial_reason") == "interrupted":
            raise KeyboardInterrupt  # The engine has taken it for the end of this run, and it is that of the sweep.
        return {"record": record}

    def _trace(self, description: dict[str, Any]) -> Trace:
        """Returns the trace of this description, which is opened only once."""
        name = json.dumps(description, sort_keys=True)
        if name not in self._traces:
            self._traces[name] = Trace._of_description(description)
        return self._traces[name]


_RUNS = TaskRunner()


def run_task(task: Task, progress: Progress | None = None) -> dict[str, str]:
    """Runs a task of a sweep in this process, for the workers of executors of one's own.

    A complete record is stored in the folder of the sweep. Returns the record or an error message; `Outcome.of` makes the
    outcome of it. What is known of a trace is kept for later tasks. Ctrl-C ends the run and raises `KeyboardInterrupt`;
    so does `progress`, which is called as that of `replay`, if it raises one.
    """
    return _RUNS.run(task, progress)


def main() -> None:
    """Runs tasks until standard input ends."""
    # Ctrl-C is handled by the process that started this one. Output printed by accident is sent to standard error.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    tasks: queue.SimpleQueue[str] = queue.SimpleQueue()

    def queue_tasks() -> None:
        status = 1
        try:
            for line in sys.stdin:
                tasks.put(line)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            # Whatever ends this thread ends the process: without it no task arrives, and the sweep waits for an answer.
            os._exit(status)

    threading.Thread(target=queue_tasks, daemon=True).start()
    runs = TaskRunner()
    while True:
        answers.write(json.dumps(runs.run(json.loads(tasks.get()))) + "\n")
        answers.flush()
