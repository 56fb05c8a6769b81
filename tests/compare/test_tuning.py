from __future__ import annotations

from pathlib import Path

import pytest

from recollect.compare.arms import Arm, arm_config
from recollect.compare.jobs import run_jobs
from recollect.compare.tuning import (
    ArmGrid,
    Axis,
    Trial,
    Tuning,
    _folder_name,
    check_tuning,
    default_axes,
    parse_axis,
)
from recollect.errors import BadComparison

from .samples import SETTINGS, FakeTraining

ARMS = ["replay", "twin"]
SEEDS = (1000, 1001)


def tuned(folder: Path, *axes: Axis, optimum: float = 4e-3):  # type: ignore[no-untyped-def]
    grid = ArmGrid("demo", SETTINGS, Arm("a"), Tuning(SEEDS, axes), folder)
    training = FakeTraining(optimum)
    run_jobs([job for row in grid.jobs for job in row], training, pause=0)
    return grid.choose(), training


def test_the_default_grid_lies_around_the_configuration() -> None:
    config = arm_config("demo", ["train.learning_rate=3e-4"], Arm("a"), 0)
    rates, epochs = default_axes(config)
    assert rates == Axis("train.learning_rate", ("0.00015", "0.0003", "0.0006", "0.0012"))
    assert epochs == Axis("train.epochs", ("1", "2", "4"))


def test_the_largest_mean_area_wins_and_all_is_kept(tmp_path: Path) -> None:
    rates = Axis("train.learning_rate", ("1e-3", "3e-3", "8e-3"))
    found, training = tuned(tmp_path, rates)
    assert found.best.settings == ("train.learning_rate=3e-3",)
    assert [len(trial.areas) for trial in found.trials] == [2, 2, 2]
    assert found.best.score == max(trial.score for trial in found.trials)
    assert found.edges == ()
    assert len(training.started) == 6
    assert all(path.is_relative_to(tmp_path / "tuning" / "a") for path in training.started)


def test_a_best_value_at_the_edge_is_named(tmp_path: Path) -> None:
    found, _ = tuned(tmp_path, Axis("train.learning_rate", ("1e-3", "2e-3")))
    assert found.edges == ("train.learning_rate=2e-3",)


def test_one_epoch_is_no_edge(tmp_path: Path) -> None:
    found, _ = tuned(tmp_path, Axis("train.epochs", ("1", "2")), optimum=1e-3)
    assert found.best.settings == ("train.epochs=1",)
    assert found.edges == ()


def test_words_have_no_edge(tmp_path: Path) -> None:
    found, _ = tuned(tmp_path, Axis("train.schedule", ("constant", "linear")))
    assert found.best.settings == ("train.schedule=constant",)  # equals: the first
    assert found.edges == ()


def test_what_diverges_is_never_chosen(tmp_path: Path) -> None:
    found, _ = tuned(tmp_path, Axis("train.learning_rate", ("1e-4", "1.0")))
    assert found.best.settings == ("train.learning_rate=1e-4",)
    assert found.trials[1].diverged == 2
    assert found.trials[1].score is None


def test_where_all_diverge_there_is_no_best(tmp_path: Path) -> None:
    with pytest.raises(BadComparison, match="arm a"):
        tuned(tmp_path, Axis("train.learning_rate", ("1.0", "2.0")))


def test_half_a_result_is_none() -> None:
    assert Trial((), (0.5, None), 0).score is None
    assert Trial((), (0.5, 0.7), 0).score == pytest.approx(0.6)


def test_settings_are_never_judged_on_the_seeds_that_chose_them() -> None:
    check_tuning(Tuning((1000, 1001)), range(5), ARMS)
    with pytest.raises(BadComparison, match=r"\[3, 4\]"):
        check_tuning(Tuning((3, 4, 5)), range(5), ARMS)
    with pytest.raises(BadComparison, match="needs a seed"):
        check_tuning(Tuning(()), range(5), ARMS)


def test_a_grid_of_nobody_is_refused() -> None:
    axis = Axis("train.epochs", ("1", "2"), "twin")
    check_tuning(Tuning((1000,), (axis,)), range(5), ARMS)
    with pytest.raises(BadComparison, match="no arm 'twin'"):
        check_tuning(Tuning((1000,), (axis,)), range(5), ["replay", "other"])


def test_an_axis_that_would_hide_another_is_refused() -> None:
    axes = [parse_axis(text) for text in ("train.epochs=1,2", "train.epochs=4")]
    with pytest.raises(BadComparison, match=r"arm replay has train\.epochs twice"):
        check_tuning(Tuning((1000,), tuple(axes)), range(5), ARMS)


def test_what_makes_an_arm_what_it_is_is_not_tuned_away(tmp_path: Path) -> None:
    two = Arm("two", ("train.epochs=2",))
    for axes in ((), (parse_axis("train.epochs=1,2"),)):
        with pytest.raises(BadComparison, match=r"arm two sets train\.epochs"):
            ArmGrid("demo", SETTINGS, two, Tuning(SEEDS, axes), tmp_path)
    fast = Arm("fast", ("train.learning_rate=1e-3",))  # the default rates lie around this one
    rates = {point[0] for point in ArmGrid("demo", SETTINGS, fast, Tuning(SEEDS), tmp_path).points}
    assert "train.learning_rate=0.001" in rates
    own = Tuning(SEEDS, (parse_axis("two:train.epochs=2,3"), parse_axis("train.epochs=1")))
    points = ArmGrid("demo", SETTINGS, two, own, tmp_path).points
    assert points == [("train.epochs=2",), ("train.epochs=3",)]


def test_how_often_a_run_is_examined_is_not_tuned() -> None:
    with pytest.raises(BadComparison, match=r"eval\.every: how often a run is examined"):
        check_tuning(Tuning((1000,), (parse_axis("eval.every=1,2"),)), range(5), ARMS)


def test_an_arm_has_its_own_axes_and_the_common_ones(tmp_path: Path) -> None:
    axes = tuple(
        parse_axis(text)
        for text in ("train.learning_rate=1e-4,2e-4", "train.epochs=1,2", "a:train.epochs=8")
    )
    for arm, epochs in (("a", {"8"}), ("b", {"1", "2"})):
        points = ArmGrid("demo", SETTINGS, Arm(arm), Tuning(SEEDS, axes), tmp_path).points
        found = [dict(setting.split("=") for setting in point) for point in points]
        assert {point["train.epochs"] for point in found} == epochs
        assert {point["train.learning_rate"] for point in found} == {"1e-4", "2e-4"}


def test_an_axis() -> None:
    assert parse_axis("twin:train.epochs=1,2") == Axis("train.epochs", ("1", "2"), "twin")
    assert parse_axis("train.epochs=1, 2,2") == Axis("train.epochs", ("1", "2"))
    assert parse_axis("replay.modes=[mix,buffer],[mix]").values == ("[mix,buffer]", "[mix]")
    for text in ("train.epochs", "train.epochs=", "=1,2", ":train.epochs=1", "twin:=1"):
        with pytest.raises(BadComparison):
            parse_axis(text)


def test_long_settings_still_make_a_folder(tmp_path: Path) -> None:
    axes = tuple(Axis(f"environment.options.setting_number_{n}", ("1",)) for n in range(9))
    grid = ArmGrid("demo", [], Arm("a"), Tuning(SEEDS, axes), tmp_path)
    assert len(grid.jobs[0][0].path.parent.name) < 120


def test_points_that_look_alike_have_folders_of_their_own() -> None:
    points = [("a=1e-1",), ("a=1e+1",), ("a=1e1",), ("a=[1,2]",), ("a=[1;2]",), ("a=" + "1" * 200,)]
    names = [_folder_name(point) for point in points]
    assert len(set(names)) == len(names)
    assert names[0] == "a-1e-1"
    assert max(map(len, names)) < 120
