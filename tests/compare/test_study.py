"""Whole studies: written ones for the arithmetic, trained ones for the real loop."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from recollect.compare.arms import REPLAY, TWIN, Arm
from recollect.compare.study import Study, run_study, write_study
from recollect.compare.tuning import Axis, Tuning
from recollect.compare.worker import work
from recollect.config.schema.config import Config
from recollect.errors import BadComparison, ComparisonFailed
from recollect.telemetry.events import Event, StepFinished
from recollect.telemetry.reading import read_metrics
from train.small import make_model, settings

from .samples import SETTINGS, FakeTraining, Finished

FAST, PLAIN = Arm("fast", ("rollout.top_k=7",)), Arm("plain")


def boost(config: Config) -> float:
    return 2.0 if config.rollout.top_k == 7 else 1.0


def written(folder: Path, training: FakeTraining, **other: object) -> Study:
    return run_study(
        [FAST, PLAIN], range(5), folder, source="demo", settings=SETTINGS, launch=training,
        target=0.6, **other,  # type: ignore[arg-type]
    )  # fmt: skip


def test_arms_take_turns_on_the_same_seeds(tmp_path: Path) -> None:
    training = FakeTraining(boost=boost)
    study = written(tmp_path, training)
    order = [f"{path.parent.name}/{path.name}" for path in training.started]
    assert order[:4] == ["fast/seed-0", "plain/seed-0", "fast/seed-1", "plain/seed-1"]
    assert [[run.seed for run in result.runs] for result in study.arms] == [[0, 1, 2, 3, 4]] * 2
    assert study.comparison.arm == "fast"
    assert study.comparison.baseline == "plain"
    point = study.comparison.rollouts.medians.point
    assert point is not None
    assert 1.5 < point < 2.5
    assert study.comparison.rollouts.signs.better == 5
    assert not study.tuned


def test_another_target_needs_no_training(tmp_path: Path) -> None:
    training = FakeTraining(boost=boost)
    first = written(tmp_path, training)
    again = run_study(
        [FAST, PLAIN], range(5), tmp_path, source="demo", settings=SETTINGS, launch=training,
        target=0.3,
    )  # fmt: skip
    assert len(training.started) == 10
    assert again.arms[0].runs[0].rollouts_to_target != first.arms[0].runs[0].rollouts_to_target


def test_each_arm_is_tuned_with_the_same_budget_on_other_seeds(tmp_path: Path) -> None:
    training = FakeTraining(boost=boost)
    tuning = Tuning((1000, 1001), (Axis("train.learning_rate", ("1e-3", "4e-3", "8e-3")),))
    study = written(tmp_path, training, tuning=tuning)
    assert study.tuned
    assert not set(study.tuning_seeds) & set(study.seeds)
    tried = [path for path in training.started if "tuning" in path.parts]
    seeds = {int(path.name.removeprefix("seed-")) for path in tried}
    assert seeds == {1000, 1001}
    assert [sum(arm in path.parts for path in tried) for arm in ("fast", "plain")] == [6, 6]
    for result in study.arms:
        assert result.arm.settings[-1] == "train.learning_rate=4e-3"
        assert result.config.train.learning_rate == 4e-3
        assert result.tuned is not None
        assert len(result.tuned.trials) == 3


def test_tuning_on_the_judging_seeds_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadComparison, match="judge"):
        written(tmp_path, FakeTraining(), tuning=Tuning((4, 5)))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("axis", [Axis("eval.tasks", ("10", "20")), Axis("eval.every", ("0",))])
def test_what_tunes_an_arm_cannot_change_its_exam(tmp_path: Path, axis: Axis) -> None:
    with pytest.raises(BadComparison, match=r"eval\."):
        written(tmp_path, FakeTraining(), tuning=Tuning((1000,), (axis,)))
    assert not list(tmp_path.iterdir())


def test_several_arms_stand_beside_one_baseline(tmp_path: Path) -> None:
    third = Arm("more", ("train.epochs=2",))
    study = run_study(
        [FAST, third, PLAIN], range(2), tmp_path, source="demo", settings=SETTINGS,
        launch=FakeTraining(boost=boost),
    )  # fmt: skip
    pairs = [(found.arm, found.baseline) for found in study.comparisons]
    assert pairs == [("fast", "plain"), ("more", "plain")]


@pytest.mark.parametrize(
    ("seeds", "target", "words"), [((), 0.8, "seed"), ((1, 1), 0.8, "seed"), ((0,), 1.5, "target")]
)
def test_what_is_refused_before_anything_is_trained(
    tmp_path: Path, seeds: tuple[int, ...], target: float, words: str
) -> None:
    with pytest.raises(BadComparison, match=words):
        run_study([FAST, PLAIN], seeds, tmp_path, source="demo", target=target)
    assert not list(tmp_path.iterdir())


# -- the real loop -----------------------------------------------------------------------------


class Real:
    """Trains in this process; counts which folders were opened."""

    def __init__(self) -> None:
        self.started: list[str] = []

    def __call__(self, path: Path) -> Finished:
        self.started.append(f"{path.parent.name}/{path.name}")
        return Finished(work(path))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model") / "small")


HIGH, LOW = Arm("high", ("train.learning_rate=0.05",)), Arm("low")


def trained(folder: Path, model: Path, launch: Real) -> Study:
    flags = settings(model, "run.steps=4", "eval.every=1", "checkpoint.every=1")
    return run_study([HIGH, LOW], range(2), folder, settings=flags, target=0.5, launch=launch)


def curves(study: Study) -> list[list[tuple[float, float]]]:
    return [
        [(point.rollouts, point.success) for point in curve.points]
        for result in study.arms
        for curve in result.curves
    ]


def test_an_interrupted_study_goes_on_as_if_nothing_had_happened(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = trained(tmp_path / "whole", model, Real())
    assert [len(curve) for curve in curves(whole)] == [5, 5, 5, 5]

    class Killer:
        """A sink that dies in the second step of the third run."""

        def emit(self, event: Event) -> None:
            if (
                isinstance(event, StepFinished)
                and event.step == 2
                and "seed-1" in launch.started[-1]
            ):
                raise KeyboardInterrupt

        def close(self) -> None:
            pass

    launch = Real()
    with monkeypatch.context() as patch:
        patch.setattr("recollect.train.running.open_sinks", lambda *_, **__: {"kill": Killer()})
        with pytest.raises(KeyboardInterrupt):
            trained(tmp_path / "broken", model, launch)
    assert launch.started == ["high/seed-0", "low/seed-0", "high/seed-1"]
    launch = Real()
    study = trained(tmp_path / "broken", model, launch)
    assert launch.started == ["high/seed-1", "low/seed-1"]  # the first resumed, finished ones left
    assert curves(study) == curves(whole)
    losses = [
        [line.metrics["train/loss"] for line in read_metrics(folder / "high/seed-1").steps]
        for folder in (tmp_path / "whole", tmp_path / "broken")
    ]
    assert losses[0] == losses[1]


def test_a_run_that_cannot_be_trained_is_told(tmp_path: Path, model: Path) -> None:
    flags = settings(model, "environment.name=nowhere")
    with pytest.raises(ComparisonFailed, match="high/seed-0"):
        run_study([HIGH, LOW], range(1), tmp_path, settings=flags, launch=Real())


def test_replay_and_its_twin(tmp_path: Path, model: Path) -> None:
    """The default arms, through the real loop: the twin replays nothing."""
    flags = settings(model, "run.steps=3", "eval.every=1", "replay.modes=[buffer]")
    study = run_study([REPLAY, TWIN], range(1), tmp_path, settings=flags, launch=Real())
    assert [result.config.replay.modes for result in study.arms] == [("buffer",), ()]
    assert study.arms[1].summary.replay_ratio.point is None
    files = write_study(study)
    assert [file.name for file in files] == ["compare.json", "report.html", "compare.png"]
    assert all(file.is_file() for file in files)


def test_without_matplotlib_there_is_no_picture(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = run_study([HIGH, LOW], range(1), tmp_path, settings=settings(model), launch=Real())
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert [file.name for file in write_study(study)] == ["compare.json", "report.html"]
