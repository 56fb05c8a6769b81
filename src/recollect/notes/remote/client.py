"""Asking a service of notes: short time-outs, few tries with growing pauses, a circuit breaker."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from recollect.canonical import Json
from recollect.notes.remote.breaker import Breaker
from recollect.wire.address import Address
from recollect.wire.client import RequestFailed, post_json

_FIRST_PAUSE = 0.2  # seconds before the second try; doubled for each further one
_LONGEST_PAUSE = 5.0
OPEN = "the service was given up for a while after it did not answer"


@dataclass(frozen=True, slots=True)
class RemotePatience:
    """How hard a service is tried: seconds and times of a call, failures until it is left alone."""

    seconds: float = 3.0
    tries: int = 2
    failures: int = 3
    rest: float = 30.0


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of a call: the JSON or why there is none, how often it was tried, seconds."""

    answer: Json
    failed: str
    tries: int
    seconds: float


class MemoryClient:
    """Makes calls, one at a time however many threads want to. Never raises for a bad service."""

    def __init__(
        self,
        address: Address,
        token: str,
        patience: RemotePatience,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._address = address
        self._token = token
        self._patience = patience
        self._pause = pause
        self._breaker = Breaker(patience.failures, patience.rest)
        self._lock = threading.Lock()

    def call(self, name: str, document: dict[str, Json]) -> Reply:
        """Make a call; the reply says so where nothing came of it."""
        started = time.monotonic()
        with self._lock:
            if not self._breaker.allows:
                return Reply(None, OPEN, 0, 0.0)
            pause, reason = _FIRST_PAUSE, ""
            for number in range(1, self._patience.tries + 1):
                try:
                    answer = self._ask(name, document)
                except RequestFailed as error:
                    reason = error.reason
                    if not error.retry or number == self._patience.tries:
                        break
                    # Uneven pauses: many runs must not come back all at once. Timing alone.
                    self._pause(pause * random.uniform(0.5, 1.0))  # noqa: S311
                    pause = min(_LONGEST_PAUSE, 2 * pause)
                else:
                    self._breaker.succeeded()
                    return Reply(answer, "", number, time.monotonic() - started)
            self._breaker.failed()
            return Reply(None, reason, number, time.monotonic() - started)

    def _ask(self, name: str, document: dict[str, Json]) -> Json:
        seconds = self._patience.seconds
        return post_json(self._address, name, document, token=self._token, seconds=seconds)
