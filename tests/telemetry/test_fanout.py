import logging
from pathlib import Path

import pytest

from recollect.errors import TrackerNotReady
from recollect.telemetry.events import Event, StepFinished, Warned
from recollect.telemetry.fanout import Fanout

from .samples import Recorder, step, whole_run


class Failing(Recorder):
    """Raises at the nth event, and on closing if asked."""

    def __init__(self, at: int = 1, on_close: bool = False) -> None:
        super().__init__()
        self.at = at
        self.on_close = on_close

    def emit(self, event: Event) -> None:
        super().emit(event)
        if len(self.events) >= self.at:
            raise OSError(f"disk of\n{self.at} is full, token=hunter22")

    def close(self) -> None:
        super().close()
        if self.on_close:
            raise RuntimeError("cannot close")


def test_everyone_hears_everything_in_order(tmp_path: Path) -> None:
    first, second = Recorder(), Recorder()
    fanout = Fanout({"first": first, "second": second})
    events = whole_run(tmp_path)
    for event in events:
        fanout.emit(event)
    assert first.events == second.events
    assert [type(event) for event in first.events] == [type(event) for event in events]


def test_a_failing_sink_is_switched_off_with_one_warning() -> None:
    before, bad, after = Recorder(), Failing(at=2), Recorder()
    fanout = Fanout({"before": before, "bad": bad, "after": after})
    for number in range(1, 5):
        fanout.emit(step(number))
    assert len(bad.events) == 2
    assert bad.closed == 1
    assert before.warnings == after.warnings
    (warning,) = after.warnings
    assert warning.startswith("bad is switched off for the rest of the run: OSError: disk of 2")
    assert "hunter22" not in warning
    assert fanout.failures == ("bad",)
    steps = [event for event in after.events if isinstance(event, StepFinished)]
    assert [event.metrics["health/sink_failures"] for event in steps] == [0, 0, 1, 1]


def test_two_sinks_may_fail_at_the_same_event() -> None:
    left = Recorder()
    fanout = Fanout({"one": Failing(), "two": Failing(), "left": left})
    fanout.emit(step(1))
    assert fanout.failures == ("one", "two")
    assert len(left.warnings) == 2
    assert [event.step for event in left.events if isinstance(event, StepFinished)] == [1]


def test_the_last_sink_to_fail_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    fanout = Fanout({"only": Failing(on_close=True)})
    with caplog.at_level(logging.WARNING):
        fanout.emit(step(1))
        fanout.emit(step(2))
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_our_own_errors_are_quoted_without_their_class() -> None:
    class Refusing(Recorder):
        def emit(self, event: Event) -> None:
            raise TrackerNotReady("wandb", "there is no key", "Run: wandb login.")

    left = Recorder()
    Fanout({"wandb": Refusing(), "left": left}).emit(step(1))
    assert "run: wandb cannot be used: there is no key. Run: wandb login." in left.warnings[0]


def test_closing_closes_everyone_and_never_raises() -> None:
    bad, good = Failing(at=99, on_close=True), Recorder()
    fanout = Fanout({"bad": bad, "good": good})
    fanout.close()
    fanout.close()
    assert good.closed == 1
    assert fanout.failures == ("bad",)
    fanout.emit(step(1))
    assert good.warnings == ["bad is switched off for the rest of the run: RuntimeError: "
                             "cannot close"]  # fmt: skip


def test_undocumented_metrics_are_kept_and_warned_of_once() -> None:
    sink = Recorder()
    fanout = Fanout({"sink": sink})
    for number in (1, 2):
        fanout.emit(step(number, train__lost=1.0))
    assert sink.warnings == ["Undocumented metrics are logged: train/lost."]
    assert isinstance(sink.events[-1], StepFinished)
    assert sink.events[-1].metrics["train/lost"] == 1.0


def test_interrupts_pass_through() -> None:
    class Interrupted(Recorder):
        def emit(self, event: Event) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Fanout({"sink": Interrupted()}).emit(Warned("x"))
