"""A worker process: tasks come line by line on standard input, and what became of them goes back line by line.

It ends when standard input does, in the middle of a run too: no worker outlives who started it, even by SIGKILL.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Mapping
from typing import Any

from . import _native
from ._native import Configuration, WearwellError
from ._trace import Trace


class Runs:
    """Runs tasks; a trace that comes again is not read again."""

    def __init__(self) -> None:
        self._traces: dict[str, Trace] = {}

    def run(self, task: Mapping[str, Any]) -> dict[str, str]:
        """The record of a task, kept in its store, or the sentence that says why there is none."""
        try:
            trace = self._trace(task["trace"])
            configuration = Configuration(task["settings"], task["config"])
            record = trace._input.replay(configuration, task["design"])
            _native.keep(task["store"], task["key"], record)
        except WearwellError as error:
            return {"error": str(error)}
        except BaseException as error:  # A broken invariant of the engine is no Exception.
            return {"error": f"{type(error).__name__}: {error}"}
        return {"record": record}

    def _trace(self, description: dict[str, Any]) -> Trace:
        name = json.dumps(description, sort_keys=True)
        if name not in self._traces:
            self._traces[name] = Trace._of(description)
        return self._traces[name]


_RUNS = Runs()


def run_task(task: Mapping[str, Any]) -> dict[str, str]:
    """The same in a process that others started: a worker of a cluster. It keeps its traces from task to task."""
    return _RUNS.run(task)


def main() -> None:
    """Works until standard input ends."""
    # Ctrl-C is for the process that started this one. What is printed by accident goes to standard error.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    tasks: queue.SimpleQueue[str] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            tasks.put(line)
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    runs = Runs()
    while True:
        answers.write(json.dumps(runs.run(json.loads(tasks.get()))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
