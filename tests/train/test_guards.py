from __future__ import annotations

import math
from pathlib import Path

import pytest

from recollect.errors import BadFile, TrainingDiverged
from recollect.train.batch import ScoredRow
from recollect.train.guards import Guard, read_bad_batch

from .rows import make_row

ROWS = [
    ScoredRow(make_row([1, 2, 3], [False, True, True], f"row-{n}"), value, True)
    for n, value in enumerate([0.5, math.nan, -math.inf])
]


def test_finite_updates_pass_and_leave_nothing(tmp_path: Path) -> None:
    guard = Guard(tmp_path / "bad", 1)
    assert guard.allows(1, 0.5, 1.0, ROWS)
    assert not (tmp_path / "bad").exists()


@pytest.mark.parametrize("loss", [1.0, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("norm", [1.0, math.nan, math.inf])
def test_anything_else_does_not(tmp_path: Path, loss: float, norm: float) -> None:
    guard = Guard(tmp_path / "bad", 3)
    fine = math.isfinite(loss) and math.isfinite(norm)
    assert guard.allows(7, loss, norm, ROWS) == fine
    assert guard.in_a_row == (not fine)


def test_the_batch_is_saved_and_can_be_read(tmp_path: Path) -> None:
    guard = Guard(tmp_path, 3)
    guard.allows(7, math.nan, 1.0, ROWS)
    (saved,) = tmp_path.glob("*.frames")
    rows = read_bad_batch(saved)
    assert [row.trajectory for row in rows] == [row.trajectory for row in ROWS]
    assert [str(row.advantage) for row in rows] == ["0.5", "nan", "-inf"]


def test_several_batches_of_a_step_are_kept_apart(tmp_path: Path) -> None:
    guard = Guard(tmp_path, 9)
    guard.allows(7, math.nan, 1.0, ROWS[:1])
    guard.allows(7, 0.0, 1.0, ROWS)
    guard.allows(7, math.nan, 1.0, ROWS[1:])
    guard.allows(8, math.nan, 1.0, ROWS)
    names = sorted(path.name for path in tmp_path.glob("*.frames"))
    assert names == ["step_000007_1.frames", "step_000007_2.frames", "step_000008_1.frames"]
    assert len(read_bad_batch(tmp_path / names[1])) == 2


def test_too_many_in_a_row_stop_the_run(tmp_path: Path) -> None:
    guard = Guard(tmp_path, 3)
    for step in (1, 2):
        assert not guard.allows(step, math.nan, 1.0, ROWS)
    assert guard.allows(3, 1.0, 1.0, ROWS)  # starts the count again
    for step in (4, 5):
        assert not guard.allows(step, math.inf, 1.0, ROWS)
    with pytest.raises(TrainingDiverged, match="3 updates in a row up to step 6") as stopped:
        guard.allows(6, 1.0, math.nan, ROWS)
    assert "step_000006_1.frames" in stopped.value.hint
    assert len(read_bad_batch(tmp_path / "step_000006_1.frames")) == 3


def test_a_damaged_file_says_so(tmp_path: Path) -> None:
    guard = Guard(tmp_path, 3)
    guard.allows(1, math.nan, 1.0, ROWS)
    (saved,) = tmp_path.glob("*.frames")
    saved.write_bytes(saved.read_bytes()[:-20])
    with pytest.raises(BadFile, match="cannot be read as a saved batch"):
        read_bad_batch(saved)
    with pytest.raises(BadFile):
        read_bad_batch(tmp_path / "none.frames")
