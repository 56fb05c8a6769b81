import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from recollect.telemetry.events import Event, StepFinished
from recollect.telemetry.fanout import Fanout
from recollect.telemetry.sinks.queued import Queued

from ..samples import Clock, Recorder, step, whole_run

LONG = 10.0  # seconds; nothing here waits for it unless something is broken


class Blocking(Recorder):
    """Hangs at its first event until released."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Event()
        self.release = threading.Event()

    def emit(self, event: Event) -> None:
        self.entered.set()
        self.release.wait(LONG * 6)
        super().emit(event)


class Broken(Recorder):
    def __init__(self) -> None:
        super().__init__()
        self.raised = threading.Event()

    def emit(self, event: Event) -> None:
        super().emit(event)
        raise ConnectionError("no route to host")

    def close(self) -> None:
        super().close()
        self.raised.set()
        raise ConnectionError("still none")


def until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.001)


def test_everything_arrives_in_order_and_the_sink_is_closed(tmp_path: Path) -> None:
    sink = Recorder()
    queued = Queued(sink, grace=LONG)
    for number in range(1, 501):
        queued.emit(step(number, 500))
    queued.close()
    queued.close()
    assert [event.step for event in sink.events if isinstance(event, StepFinished)] == [
        *range(1, 501)
    ]
    assert (sink.closed, queued.drops) == (1, 0)


def test_motion_never_fills_the_queue(tmp_path: Path) -> None:
    sink = Recorder()
    queued = Queued(sink, grace=LONG)
    for event in whole_run(tmp_path):
        queued.emit(event)
    queued.close()
    assert [type(event).__name__ for event in sink.events] == [
        "RunStarted", "EvaluationFinished", "StepFinished", "StepFinished", "StepFinished",
        "EvaluationFinished", "RunFinished", "RunStopped",
    ]  # fmt: skip


def test_a_sink_that_hangs_costs_nothing_and_its_losses_are_counted() -> None:
    sink, left = Blocking(), Recorder()
    queued = Queued(sink, capacity=10, grace=0.05)
    fanout = Fanout({"wandb": queued, "left": left})
    fanout.emit(step(1))
    assert sink.entered.wait(LONG)
    began = time.monotonic()
    for number in range(2, 5001):
        fanout.emit(step(number))
    fanout.close()
    # A second for 5,000 steps on a busy machine; had one waited for the sink, a minute.
    assert time.monotonic() - began < LONG
    # One event hangs in the sink and ten waited: none of the 5,000 arrived.
    assert fanout.drops == queued.drops == 5000
    steps = [event for event in left.events if isinstance(event, StepFinished)]
    assert steps[-1].metrics["health/sink_drops"] == 5000 - 11 - 1
    assert left.warnings == [
        "wandb was too slow: 5,000 events did not reach it. metrics.jsonl has them all."
    ]
    assert left.closed == 1
    sink.release.set()
    until(lambda: len(sink.events) == 1)
    assert sink.closed == 0


def test_closing_waits_for_a_slow_sink_within_its_grace() -> None:
    sink = Blocking()
    queued = Queued(sink, grace=LONG)
    queued.emit(step(1))
    queued.finish()
    sink.release.set()
    queued.close()
    assert (len(sink.events), sink.closed, queued.drops) == (1, 1, 0)


def test_the_grace_begins_with_finish() -> None:
    clock = Clock()
    sink = Blocking()
    queued = Queued(sink, grace=3600, clock=clock)
    queued.emit(step(1))
    assert sink.entered.wait(LONG)
    queued.finish()
    clock.now += 3600
    queued.close()
    assert queued.drops == 1
    queued.close()
    assert queued.drops == 1
    sink.release.set()


def test_several_hanging_sinks_share_the_wait() -> None:
    sinks = [Blocking() for _ in range(20)]
    fanout = Fanout({str(i): Queued(sink, grace=0.4) for i, sink in enumerate(sinks)})
    fanout.emit(step(1))
    began = time.monotonic()
    fanout.close()
    assert time.monotonic() - began < 20 * 0.4
    for sink in sinks:
        sink.release.set()


def test_a_failure_surfaces_at_the_next_event_and_only_once() -> None:
    sink, left = Broken(), Recorder()
    fanout = Fanout({"wandb": Queued(sink), "left": left})
    fanout.emit(step(1))
    assert sink.raised.wait(LONG)
    for number in (2, 3):
        fanout.emit(step(number))
    fanout.close()
    assert left.warnings == [
        "wandb is switched off for the rest of the run: ConnectionError: no route to host"
    ]
    assert (len(sink.events), sink.closed) == (1, 1)
    assert fanout.drops == 1


def test_a_failure_at_the_end_surfaces_too() -> None:
    sink, left = Broken(), Recorder()
    fanout = Fanout({"wandb": Queued(sink, grace=LONG), "left": left})
    fanout.close()
    assert left.warnings == [
        "wandb is switched off for the rest of the run: ConnectionError: still none"
    ]


def test_a_failure_after_giving_up_troubles_nobody() -> None:
    class Late(Blocking):
        def emit(self, event: Event) -> None:
            super().emit(event)
            raise ConnectionError

    sink = Late()
    queued = Queued(sink, grace=0.0)
    queued.emit(step(1))
    assert sink.entered.wait(LONG)
    queued.close()
    sink.release.set()
    until(lambda: sink.closed == 1)
    queued.close()
    assert queued.drops == 1


def test_after_the_end_events_are_dropped_and_counted() -> None:
    queued = Queued(Recorder(), grace=LONG)
    queued.close()
    queued.emit(step(1))
    assert queued.drops == 1


def test_emit_raises_the_failure_itself() -> None:
    sink = Broken()
    queued = Queued(sink)
    queued.emit(step(1))
    assert sink.raised.wait(LONG)
    with pytest.raises(ConnectionError):
        queued.emit(step(2))
    queued.emit(step(3))
    assert queued.drops == 2
