"""Noticing that another process of the run is gone, or stands still.

A process that waits for another in a collective operation cannot be woken. So every process has a
thread that beats in the launcher's key-value store and looks whether the others do: rank 0 looks at
all of them, the others at rank 0. Who finds one silent, or reads that the run has failed, says so
and ends its own process at once, which is as safe as a crash.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Protocol

_FAILED = "recollect/failed"
EXIT_CODE = 2


class Notices(Protocol):
    """What we need of the launcher's key-value store; RuntimeError where it is gone."""

    def set(self, name: str, value: str, /) -> None:
        """Write a notice."""

    def get(self, name: str, /) -> bytes:
        """Read a notice that is there."""

    def check(self, names: list[str], /) -> bool:
        """Tell whether all of some notices are there."""


def end_process(message: str) -> None:
    """Say why, and end without unwinding: the main thread may be stuck for good."""
    sys.stderr.write(f"error: {message}\n")
    sys.stderr.flush()
    os._exit(EXIT_CODE)


class Watch:
    """Beats once per `interval` seconds; `lost` hears of a rank that was silent for `patience`."""

    def __init__(
        self,
        store: Notices,
        rank: int,
        others: tuple[int, ...],
        *,
        patience: float,
        interval: float = 1.0,
        lost: Callable[[str], None] = end_process,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._rank = rank
        self._heard = {other: (b"", timer()) for other in others}
        self._patience = patience
        self._interval = interval
        self._lost = lost
        self._timer = timer
        self._beats = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="recollect-watch", daemon=True)

    def start(self) -> None:
        """Begin to beat and to look."""
        self._thread.start()

    def stop(self) -> None:
        """End; whatever happens to the others is no longer our business."""
        self._ended.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout=5 * self._interval)

    def tell_failure(self, why: str) -> None:
        """Let everybody know that the run has failed, also those who cannot listen now."""
        try:
            self._store.set(_FAILED, why)
        except RuntimeError:  # the store was with the process that is gone
            return

    def failure(self) -> str | None:
        """Read why the run has failed, if somebody said so."""
        try:
            return self._store.get(_FAILED).decode() if self._store.check([_FAILED]) else None
        except RuntimeError:
            return None

    def look(self) -> str | None:
        """Beat, and say what is wrong with the others, if anything is."""
        try:
            self._beats += 1
            self._store.set(f"recollect/beat/{self._rank}", str(self._beats))
            if self._store.check([_FAILED]):
                return self._store.get(_FAILED).decode()
            for other, (beat, when) in self._heard.items():
                name, now = f"recollect/beat/{other}", self._timer()
                found = self._store.get(name) if self._store.check([name]) else b""
                if found != beat:
                    self._heard[other] = (found, now)
                elif now - when > self._patience:
                    return f"Rank {other} has been silent for {now - when:.0f} s."
        except RuntimeError:
            return "The launcher's key-value store is gone, and with it the process that held it."
        return None

    def _run(self) -> None:
        while not self._ended.wait(self._interval):
            wrong = self.look()
            if wrong is not None and not self._ended.is_set():
                self._lost(f"Rank {self._rank} stops. {wrong}")
                return
