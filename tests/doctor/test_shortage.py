"""How much a configuration asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect.config.loading import load_config
from recollect.doctor.history import History
from recollect.doctor.shortage import asked_of, replay_findings
from recollect.telemetry.reading import StepLine
from recollect.train.folder import RunFolder

BASE = ("rollout.tasks_per_step=8", "rollout.rows_per_task=8")


def asked(*flags: str) -> tuple[float, float, float, float]:
    found = asked_of(load_config(None, [*BASE, *flags]).config)
    return found.generated, found.mixed, found.buffered, found.ratio


def test_by_hand() -> None:
    assert asked() == (64, 0, 0, 1)
    # Two updates of as many rows as the update on fresh ones has.
    assert asked("replay.modes=[buffer]") == (64, 0, 128, 3)
    assert asked("replay.modes=[buffer]", "train.minibatches=4") == (64, 0, 32, 1.5)
    assert asked("replay.modes=[buffer]", "replay.buffer_rows=5") == (64, 0, 10, 74 / 64)
    # A share of a half: one stored row for every two that are generated.
    assert asked("replay.modes=[buffer]", "replay.buffer_share=0.5") == (64, 0, 32, 1.5)
    # Half of the tasks have one stored row, which stands in for a fresh one.
    assert asked("replay.modes=[mix]") == pytest.approx((60, 4, 0, 64 / 60))
    assert asked("replay.modes=[mix]", "replay.participation=baseline") == (64, 0, 0, 1)
    assert asked("replay.modes=[repair]") == (64, 0, 0, 1)


@pytest.mark.parametrize(("level", "names"), [(1.0, ["pool_runs_dry"]), (0.25, [])])
def test_what_a_controller_holds_back_is_no_shortage(level: float, names: list[str]) -> None:
    """A quarter of the rows were drawn: of a full pool that is too little, at that level all."""
    config = load_config(None, [*BASE, "replay.modes=[buffer]", "adapt.controller=true"]).config
    figures = {"replay/draws": 32.0, "replay/uses": 32.0, "replay/level": level}
    lines = tuple(
        StepLine(step, 12, 0.0, {**figures, "rollout/rows": 64.0}) for step in range(1, 13)
    )
    history = History(RunFolder(Path("r")), config, lines, (), None)
    assert [finding.name for finding in replay_findings(history)] == names


@pytest.mark.parametrize(("flags", "names"), [([], []), (["replay.start_rows=99"], [])])
def test_the_first_step_shows_nothing(flags: list[str], names: list[str]) -> None:
    """In it the pool is empty, whatever was set."""
    assert [each.name for each in replay_findings(history_of(1, *flags))] == names


def test_a_trigger_is_named_from_the_second_step_on() -> None:
    (found,) = replay_findings(history_of(2, "replay.start_rows=99"))
    assert found.name == "replay_never_began"
    assert [change.setting for change in found.changes] == ["replay.start_rows"]
    # Nothing was waited for that did not come: only a third empty step is a pattern.
    assert list(replay_findings(history_of(2))) == []


def history_of(steps: int, *flags: str) -> History:
    config = load_config(None, [*BASE, "replay.modes=[buffer]", "run.steps=40", *flags]).config
    lines = tuple(
        StepLine(step, steps, 0.0, {"replay/pool_rows": 0.0, "rollout/rows": 64.0})
        for step in range(1, steps + 1)
    )
    return History(RunFolder(Path("r")), config, lines, (), None)
