"""Starting workers as processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from recollect.compare.jobs import Launch
from recollect.compare.worker import LOG

_MODULE = "recollect.compare.worker"
_THREADS = "OMP_NUM_THREADS"


class ProcessWorker:
    """A worker in a process of its own, which writes what it says to the run's log.

    It hears no Ctrl-C of the terminal's: whoever started it passes that on, once.
    """

    def __init__(self, path: Path, environment: dict[str, str]) -> None:
        with (path / LOG).open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own module, no shell
                [sys.executable, "-m", _MODULE, str(path)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environment,
            )

    def poll(self) -> int | None:
        """Return the exit code, None before the end."""
        code = self._process.poll()
        if code is not None and self._process.stdin is not None:
            self._process.stdin.close()
        return code

    def stop(self) -> None:
        """Ask for an orderly end."""
        self._process.terminate()

    def kill(self) -> None:
        """End it, and return when it is gone."""
        self._process.kill()
        self._process.wait()
        self.poll()


def process_launch(parallel: int = 1) -> Launch:
    """Make what starts workers; the machine's cores are divided among those at work.

    OMP_NUM_THREADS stays as it is where somebody set it.
    """
    environment = dict(os.environ)
    if parallel > 1:
        environment.setdefault(_THREADS, str(max(1, (os.cpu_count() or 1) // parallel)))
    return lambda path: ProcessWorker(path, environment)
