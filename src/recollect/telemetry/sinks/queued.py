"""A slow sink behind a bounded queue: it may hang for an hour, and the run does not notice."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from recollect.telemetry.events import (
    EvaluationFinished,
    Event,
    RunFinished,
    RunStarted,
    RunStopped,
    Sink,
    StepFinished,
)

# Motion inside a step is for the screen: by the time it reached a tracker it would be stale.
_PASSED_ON = (RunStarted, StepFinished, EvaluationFinished, RunFinished, RunStopped)


class Queued:
    """Hands events to `sink` in a thread of its own, in order.

    Promises: `emit` never waits for the sink. When `capacity` events wait already, the new one
    is dropped and counted. `close` waits at most `grace` seconds for the rest, then gives up
    and counts what is left. A failure of the sink is raised by the next `emit` or by `close`,
    once, so that `Fanout` can switch it off. The thread is a daemon: it cannot keep the
    process alive.
    """

    def __init__(
        self,
        sink: Sink,
        capacity: int = 1000,
        grace: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sink = sink
        self._capacity = capacity
        self._grace = grace
        self._clock = clock
        self._waiting: deque[Event] = deque()
        self._changed = threading.Condition()
        self._busy = False
        self._drops = 0
        self._error: Exception | None = None
        self._deadline: float | None = None  # set when the end has begun
        self._given_up = False
        self._thread = threading.Thread(
            target=self._work, name=f"telemetry-{type(sink).__name__}", daemon=True
        )
        self._thread.start()

    @property
    def drops(self) -> int:
        """Events that the sink will never see."""
        return self._drops

    def emit(self, event: Event) -> None:
        """Queue an event; raise the sink's failure if it had one."""
        if not isinstance(event, _PASSED_ON):
            return
        with self._changed:
            self._raise_failure()
            if self._deadline is not None or len(self._waiting) >= self._capacity:
                self._drops += 1
                return
            self._waiting.append(event)
            self._changed.notify()

    def finish(self) -> None:
        """Let the sink work off what waits and close; the grace period begins now."""
        with self._changed:
            if self._deadline is None:
                self._deadline = self._clock() + self._grace
                self._changed.notify()

    def close(self) -> None:
        """Wait for the sink to end, within the grace period."""
        self.finish()
        assert self._deadline is not None
        self._thread.join(max(0.0, self._deadline - self._clock()))
        with self._changed:
            if self._thread.is_alive() and not self._given_up:
                self._given_up = True
                self._drops += len(self._waiting) + self._busy
                self._waiting.clear()
            self._raise_failure()

    def _raise_failure(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _work(self) -> None:
        try:
            while (event := self._next()) is not None:
                self._sink.emit(event)
            if not self._given_up:
                self._sink.close()
        except Exception as error:
            self._fail(error)
            with suppress(Exception):
                self._sink.close()

    def _fail(self, error: Exception) -> None:
        with self._changed:
            if self._given_up:
                return  # nobody asks any more, and everything is counted
            self._error = error
            self._drops += len(self._waiting) + self._busy
            self._waiting.clear()
            self._deadline = self._clock()

    def _next(self) -> Event | None:
        with self._changed:
            self._busy = False
            while not self._waiting:
                if self._deadline is not None:
                    return None
                self._changed.wait()
            self._busy = True
            return self._waiting.popleft()
