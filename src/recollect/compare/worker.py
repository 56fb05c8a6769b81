"""The process that trains one run of a comparison.

It opens the run where it stands, trains, and ends with 0 (finished), 128 + signal (stopped in
order, saved) or an error's exit code. It stops in order when whoever started it is gone, so that
it never outlives a comparison that was killed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from pathlib import Path

from recollect.canonical import canonical_json
from recollect.errors import RecollectError, TrainingDiverged

DIVERGED = "diverged.json"  # in a run's folder: why training gave up
LOG = "log.txt"  # what the run said


def work(path: Path) -> int:
    """Train the run in a folder to its end; return the exit code."""
    try:
        return _train(path)
    except TrainingDiverged as error:
        (path / DIVERGED).write_text(canonical_json({"what": error.what}), encoding="utf-8")
        _say(error)
        return error.exit_code
    except RecollectError as error:
        _say(error)
        return error.exit_code


def _train(path: Path) -> int:
    from recollect.train.folder import RunFolder
    from recollect.train.running import open_sinks, run_to_end
    from recollect.train.session import open_session

    folder = RunFolder(path)
    with open_session(folder, open_sinks(folder, sys.stdout, progress=False)) as session:
        stopped_by = run_to_end(session)
    return 0 if stopped_by is None else 128 + stopped_by


def _say(error: RecollectError) -> None:
    if error.hint:
        sys.stdout.write(f"{error.hint}\n")
    sys.stdout.write(f"error: {error.what}\n")  # last: this is the line that is quoted
    sys.stdout.flush()


def main(folder: str, threads: int | None = None) -> None:
    """Be the process of a run: `multiprocessing` calls this. Leaves with the exit code."""
    path = Path(folder)
    if sys.platform != "win32":
        os.setpgid(0, 0)
    log = os.open(path / LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for stream in (1, 2):
        os.dup2(log, stream)
    threading.Thread(target=_stop_with_the_parent, daemon=True).start()
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    sys.exit(work(path))


def _stop_with_the_parent() -> None:
    """Wait until whoever started us is gone, then stop in order."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
