"""Starting workers as processes.

A library as large as torch takes seconds to load. Where the system can fork, one process loads it
for all runs of a comparison, and every worker is a fork of it that begins at once.
"""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing.context import ForkServerContext, SpawnContext
from pathlib import Path

from recollect.compare.jobs import Launch
from recollect.compare.worker import main

# What a worker needs and what does nothing by being loaded: no thread may run at the fork.
_PRELOAD = ["recollect.train.session", "recollect.train.loop", "recollect.train.summary"]
_THREADS = "OMP_NUM_THREADS"


class ProcessWorker:
    """A worker in a process of its own, which writes what it says to the run's log.

    It hears no Ctrl-C of the terminal's: whoever started it passes that on, once.
    """

    def __init__(
        self, path: Path, threads: int | None, context: ForkServerContext | SpawnContext
    ) -> None:
        self._process = context.Process(target=main, args=(str(path), threads))
        self._process.start()

    def poll(self) -> int | None:
        """Return the exit code, None before the end."""
        return self._process.exitcode

    def stop(self) -> None:
        """Ask for an orderly end."""
        self._process.terminate()

    def kill(self) -> None:
        """End it, and return when it is gone."""
        self._process.kill()
        self._process.join()


def process_launch(parallel: int = 1) -> Launch:
    """Make what starts workers; the machine's cores are divided among those at work.

    OMP_NUM_THREADS stays as it is where somebody set it.
    """
    threads = None
    if parallel > 1 and _THREADS not in os.environ:
        threads = max(1, (os.cpu_count() or 1) // parallel)
    context = _context()
    return lambda path: ProcessWorker(path, threads, context)


def _context() -> ForkServerContext | SpawnContext:
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOAD)
    return context
