from __future__ import annotations

from pathlib import Path

from recollect.compare.study import Study, run_study
from recollect.compare.tables import arm_table, run_table, tuning_table
from recollect.compare.tuning import Axis, Tuning

from .samples import SETTINGS, FakeTraining
from .test_study import FAST, PLAIN, boost


def study(folder: Path, target: float = 0.8, tuning: Tuning | None = None) -> Study:
    return run_study(
        [FAST, PLAIN], range(3), folder, source="demo", settings=SETTINGS, target=target,
        launch=FakeTraining(boost=boost), tuning=tuning,
    )  # fmt: skip


def test_a_row_per_measure(tmp_path: Path) -> None:
    table = arm_table(study(tmp_path))
    assert table.titles[1:] == ("fast", "plain", "fast against plain")
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["seeds that reached 80%"][:2] == ("3 of 3", "0 of 3")
    assert rows["rollouts to 80%"][1] == "never [never, never]"
    assert rows["rollouts to 80%"][2].startswith("plain / fast = ∞ [1")
    assert rows["rollouts to 80%"][2].endswith(", ∞]")
    assert rows["final success"][2].startswith("mean +")
    assert " points [" in rows["final success"][2]
    assert "replay ratio" not in rows
    assert "diverged runs" not in rows


def test_a_row_per_run(tmp_path: Path) -> None:
    table = run_table(study(tmp_path))
    assert [row[0] for row in table.rows[:2]] == ["fast, seed 0", "plain, seed 0"]
    assert table.rows[1][1] == "> 640"
    assert all(len(row) == len(table.titles) for row in table.rows)


def test_a_row_per_setting(tmp_path: Path) -> None:
    axis = Axis("train.learning_rate", ("1e-3", "1.0"))
    found = study(tmp_path, tuning=Tuning((1000,), (axis,)))
    table = tuning_table(found.arms[0])
    assert [row[-1] for row in table.rows] == ["chosen", "diverged"]
    assert table.rows[1][1] == "-"


def test_without_tuning_there_is_nothing_to_show(tmp_path: Path) -> None:
    assert tuning_table(study(tmp_path).arms[0]).rows == ()
