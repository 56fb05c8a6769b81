"""How long to go on trying to reach a server that went away."""

from __future__ import annotations

import time

_FIRST, _MOST = 0.02, 1.0  # seconds between tries: a failover takes seconds, a reset is instant


class Patience:
    """A budget of seconds, spent in growing pauses."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until: float | None = None
        self._pause = _FIRST

    def wait(self) -> bool:
        """Pause before another try; False once the budget, counted from the first, is spent."""
        now = time.monotonic()
        if self._until is None:
            self._until = now + self._seconds
        left = self._until - now
        if left <= 0:
            return False
        time.sleep(min(self._pause, left))
        self._pause = min(2 * self._pause, _MOST)
        return True
