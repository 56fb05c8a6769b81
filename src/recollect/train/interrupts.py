"""Ctrl-C once: finish the step and save. Twice: stop now, which is as safe as a crash."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

# A terminal that is closed says SIGHUP; Windows has no such thing.
_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


class StoppedAtOnce(KeyboardInterrupt):
    """Somebody asked twice; `signal` is the number of the signal that came second."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.signal = number


class Interrupts:
    """Notices SIGINT, SIGTERM and SIGHUP while it is entered; a second one interrupts at once.

    A signal that the process was told to ignore (nohup, a background job) stays ignored.
    `elsewhere` names the signal that another process of the run was sent, if any.
    """

    def __init__(self, elsewhere: Callable[[], int | None] = lambda: None) -> None:
        self._noticed: int | None = None
        self._elsewhere = elsewhere
        self._before: dict[int, Any] = {}

    @property
    def signal(self) -> int | None:
        """The first signal that came, if any."""
        return self._elsewhere() if self._noticed is None else self._noticed

    def __enter__(self) -> Interrupts:
        # Only the main thread may set handlers; elsewhere the caller has its own.
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                handler = signal.getsignal(number)
                if handler is not signal.SIG_IGN and handler is not None:
                    self._before[number] = signal.signal(number, self._notice)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _notice(self, number: int, frame: FrameType | None) -> None:
        if self._noticed is not None:
            raise StoppedAtOnce(number)
        self._noticed = number
