"""Calling somebody else's code with a time limit, without letting it take the run down.

Environment steps and rewards are two of the four places where any exception is caught: their
code is not ours, and one bad episode must not end a run. Calls run one after another in a helper
thread. One that hangs is asked to stop, which ends Python code but nothing that blocks outside
of Python, and is left behind; a new thread takes over. A bound on threads left behind keeps a
broken environment from eating the machine.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from recollect.errors import EnvironmentHung

T = TypeVar("T")
_MAX_STUCK = 256
_MAX_REASON = 200  # characters


class CallFailed(Exception):
    """A guarded call raised or took too long; `reason` says which, in one line."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _LeftBehind(BaseException):
    """Raised in a thread that took too long; no `except Exception` of the environment stops it."""


def describe(error: BaseException) -> str:
    """Say in one printable line what an exception from outside is about."""
    try:
        text = str(error)
    except Exception:  # its own __str__ is broken: then the name has to do
        text = ""
    line = next(iter(text.strip().splitlines()), "")[:_MAX_REASON]
    # A lone surrogate could not be stored, a control character should not reach a terminal.
    clean = "".join(c if c.isprintable() else "?" for c in line)
    return f"{type(error).__name__}: {clean}" if clean else type(error).__name__


class Pending(Generic[T]):
    """A call that was handed over. Results are to be fetched in the order of the calls."""

    def __init__(self, owner: GuardedCalls, action: Callable[[], T]) -> None:
        self._owner = owner
        self._action = action
        self._value: T | None = None
        self._problem = ""
        self._interrupt: KeyboardInterrupt | None = None
        self.ready = threading.Event()

    def result(self, seconds: float | None = None) -> T:
        """Return what the action returns; raise CallFailed if it raises or takes too long.

        `seconds` is for a call that deserves less patience than others.
        """
        limit = self._owner.seconds if seconds is None else seconds
        try:
            is_late = not self.ready.wait(limit) and self._owner.give_up(self)
        except KeyboardInterrupt:  # the next call must not have to wait for this one
            self._owner.give_up(self)
            raise
        if is_late:
            raise CallFailed(f"no answer within {limit:g} s")
        if self._interrupt is not None:
            raise self._interrupt
        if self._problem:
            raise CallFailed(self._problem)
        return self._value  # type: ignore[return-value]

    def call(self) -> None:
        """Make the call and keep what comes of it; in the helper thread."""
        try:
            self._value = self._action()
        except KeyboardInterrupt as error:
            self._interrupt = error
        except BaseException as error:  # SystemExit too: an environment cannot end the run
            self._problem = describe(error)


class GuardedCalls:
    """Runs calls one after another in a helper thread, each for at most `seconds`."""

    def __init__(self, seconds: float, max_stuck: int = _MAX_STUCK) -> None:
        self.seconds = seconds
        self._max_stuck = max_stuck
        self._worker: _Worker | None = None
        self._stuck: list[_Worker] = []

    def __call__(self, action: Callable[[], T]) -> T:
        """Return what the action returns; raise CallFailed if it raises or takes too long."""
        return self.submit(action).result()

    def submit(self, action: Callable[[], T]) -> Pending[T]:
        """Hand over a call. Several may wait, so that threads change places less often."""
        pending = Pending(self, action)
        self._working().jobs.put(pending)
        return pending

    def close(self) -> None:
        """Let the helper thread end. Another call starts a new one."""
        if self._worker is not None:
            self._worker.jobs.put(None)
            self._worker.join(timeout=1.0)
            self._worker = None

    def give_up(self, pending: Pending[T]) -> bool:
        """Leave the thread of a late call behind; False if the answer came at the last moment.

        Calls that wait behind the late one go to a new thread.
        """
        worker = self._worker
        if worker is None or not worker.leave(pending):
            return False
        self._worker = None
        self._stuck = [each for each in (*self._stuck, worker) if each.is_alive()]
        if len(self._stuck) > self._max_stuck:
            raise EnvironmentHung(len(self._stuck), self.seconds)
        for waiting in worker.drain():
            if waiting is not pending:
                self._working().jobs.put(waiting)
        return True

    def _working(self) -> _Worker:
        if self._worker is None:
            self._worker = _Worker()
            self._worker.start()
        return self._worker


class _Worker(threading.Thread):
    """Makes calls from its queue until it finds None, or is left behind in the middle of one."""

    def __init__(self) -> None:
        super().__init__(name="recollect-environment", daemon=True)
        self.jobs: SimpleQueue[Pending[Any] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._is_left = False

    def run(self) -> None:
        try:
            while (job := self.jobs.get()) is not None:
                job.call()
                with self._lock:
                    if self._is_left:
                        time.sleep(0)  # a place for _LeftBehind to arrive, if it has not yet
                        return
                    job.ready.set()
        except _LeftBehind:
            return

    def leave(self, job: Pending[Any]) -> bool:
        """Stop listening to this thread and interrupt what it does, unless the job is done.

        Both under its lock: an answer is either given before, or never.
        """
        with self._lock:
            if job.ready.is_set():
                return False
            self._is_left = True
            if self.ident is not None:
                target, error = ctypes.c_ulong(self.ident), ctypes.py_object(_LeftBehind)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(target, error)
        return True

    def drain(self) -> list[Pending[Any]]:
        """Take back the calls that wait, and let the thread end should it ever look for more."""
        waiting: list[Pending[Any]] = []
        with suppress(Empty):
            while True:
                job = self.jobs.get_nowait()
                if job is not None:
                    waiting.append(job)
        self.jobs.put(None)
        return waiting
