"""A circuit breaker: a server that does not answer is left alone for a while."""

from __future__ import annotations

import time
from collections.abc import Callable


class Breaker:
    """Opens after `failures` in a row; from `seconds` later on, one try decides anew.

    While it is open nobody should ask: a step with many tasks must not wait for each of them.
    """

    def __init__(
        self, failures: int, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = failures
        self._seconds = seconds
        self._clock = clock
        self._failures = 0
        self._until = 0.0

    @property
    def allows(self) -> bool:
        """Tell whether to ask."""
        return self._failures < self._limit or self._clock() >= self._until

    def succeeded(self) -> None:
        """Close it: there was an answer."""
        self._failures = 0

    def failed(self) -> None:
        """Count a failure; the last one that is borne opens it."""
        self._failures += 1
        if self._failures >= self._limit:
            self._until = self._clock() + self._seconds
