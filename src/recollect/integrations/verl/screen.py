"""What a user sees of a run under verl: the run's own lines. verl and Ray have a file of their own.

The driver is a process on the cluster. It writes its lines into a file of the run's folder, and the
command that waits for it copies them; what a dozen processes of verl and Ray print beside that
goes into a log, where whoever has to find out why will look.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_POLL_SECONDS = 0.2
_STDOUT, _STDERR = 1, 2


@contextmanager
def apart(log: Path, lines: Path) -> Iterator[None]:
    """Send what this process and its children print to `log`; show what is added to `lines`."""
    kept = _redirect(log)
    done = threading.Event()
    follower = threading.Thread(target=_follow, args=(lines, kept[0], done), daemon=True)
    follower.start()
    try:
        yield
    finally:
        done.set()
        follower.join()
        _restore(kept)


def _redirect(log: Path) -> tuple[int, int]:
    """Put a file in the place of stdout and stderr; gives what they were."""
    _flush()
    kept = os.dup(_STDOUT), os.dup(_STDERR)
    # By descriptor: Ray's own processes and its C++ code do not ask for sys.stdout.
    with log.open("ab") as file:
        os.dup2(file.fileno(), _STDOUT)
        os.dup2(file.fileno(), _STDERR)
    return kept


def _restore(kept: tuple[int, int]) -> None:
    _flush()
    for now, before in zip((_STDOUT, _STDERR), kept, strict=True):
        os.dup2(before, now)
        os.close(before)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()


def _follow(lines: Path, screen: int, done: threading.Event) -> None:
    """Copy a file as it grows, until told that nothing more will come."""
    at = 0
    while True:
        last = done.wait(_POLL_SECONDS)
        with suppress(OSError):  # not there yet; or nobody looks at the screen any more
            with lines.open("rb") as file:
                file.seek(at)
                new = file.read()
            at += len(new)
            while new:
                new = new[os.write(screen, new) :]
        if last:
            return
