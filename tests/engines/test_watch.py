"""The watch: who is silent for too long, or has failed, is noticed; who beats is left alone."""

from __future__ import annotations

import time
from typing import Any

from recollect.engines.watch import Watch


class Store:
    """A key-value store that can go away."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.gone = False

    def set(self, name: str, value: str) -> None:
        self._check()
        self.content[name] = value.encode()

    def get(self, name: str) -> bytes:
        self._check()
        return self.content[name]

    def check(self, names: list[str]) -> bool:
        self._check()
        return all(name in self.content for name in names)

    def _check(self) -> None:
        if self.gone:
            raise RuntimeError("connection reset")


def watches(store: Any, now: list[float]) -> tuple[Watch, Watch]:
    leader = Watch(store, 0, (1,), patience=10, timer=lambda: now[0])
    return leader, Watch(store, 1, (0,), patience=10, timer=lambda: now[0])


def test_who_beats_is_left_alone_and_who_is_silent_is_noticed() -> None:
    store, now = Store(), [0.0]
    leader, helper = watches(store, now)
    for _ in range(5):
        now[0] += 9
        assert helper.look() is None
        assert leader.look() is None
    now[0] += 9
    assert leader.look() is None
    now[0] += 2
    assert "Rank 1 has been silent for 11 s" in str(leader.look())


def test_a_failure_reaches_everybody() -> None:
    store, now = Store(), [0.0]
    leader, helper = watches(store, now)
    leader.tell_failure("The run has ended on rank 0: no space.")
    assert helper.look() == "The run has ended on rank 0: no space." == helper.failure()


def test_a_store_that_is_gone_is_a_loss() -> None:
    store, now = Store(), [0.0]
    _, helper = watches(store, now)
    store.gone = True
    assert "store is gone" in str(helper.look())
    helper.tell_failure("nobody hears this")
    assert helper.failure() is None


def test_the_thread_tells_once_and_stops() -> None:
    store, told = Store(), list[str]()
    watch = Watch(store, 1, (0,), patience=0.05, interval=0.01, lost=told.append)
    watch.start()
    deadline = time.monotonic() + 10
    while not told and time.monotonic() < deadline:
        time.sleep(0.01)
    watch.stop()
    assert len(told) == 1
    assert told[0].startswith("Rank 1 stops. Rank 0 has been silent")
