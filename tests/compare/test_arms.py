from __future__ import annotations

from pathlib import Path

import pytest

from recollect.compare.arms import (
    REPLAY,
    TWIN,
    Arm,
    arm_config,
    check_arms,
    differences,
    divide,
    parse_arm,
)
from recollect.compare.study import run_study
from recollect.compare.tuning import Tuning, parse_axis
from recollect.config import load_config
from recollect.config.without_replay import without_replay
from recollect.errors import BadComparison, BadConfig


def test_an_arm_of_your_own() -> None:
    arm = parse_arm("fast=train.learning_rate=1e-3, train.epochs=4")
    assert arm == Arm("fast", ("train.learning_rate=1e-3", "train.epochs=4"))
    assert parse_arm("plain=") == Arm("plain")


def test_commas_within_brackets_and_quotes_divide_nothing() -> None:
    assert parse_arm("a=replay.modes=[mix,repair],run.name='x,y'").settings == (
        "replay.modes=[mix,repair]",
        "run.name='x,y'",
    )
    assert divide("{a: 1, b: [2, 3]},c") == ["{a: 1, b: [2, 3]}", "c"]


@pytest.mark.parametrize(
    "text", ["fast", "=x=1", "a/b=", "../up=", "tuning=", "Report.html=", "setting=", "fast=epochs"]
)
def test_what_is_no_arm(text: str) -> None:
    with pytest.raises(BadComparison):
        parse_arm(text)


def test_the_configuration_of_a_run() -> None:
    arm = Arm("a", ("train.epochs=2",))
    config = arm_config("demo", ["train.epochs=4", "run.steps=3"], arm, 7)
    assert (config.train.epochs, config.run.steps, config.run.seed) == (2, 3, 7)
    other = arm_config("demo", ["run.steps=3"], Arm("b"), 8)
    assert [change.key for change in differences(config, other)] == ["train.epochs"]


def test_seeds_and_stores_are_the_comparison_s_own(tmp_path: Path) -> None:
    """A file may name them, for runs by themselves; whoever asks for them here is told."""
    file = tmp_path / "mine.yaml"
    file.write_text("preset: demo\nrun: {seed: 7}\nstore: {path: x.db}\n", encoding="utf-8")
    config = arm_config(file, [], REPLAY, 3)
    assert (config.run.seed, config.store.path) == (3, None)
    for flag, hint in (("run.seed=7", "--first-seed"), ("run={seed: 7}", "--first-seed"),
                       ("store.path=x.db", "a store of its own")):  # fmt: skip
        for settings, arm in (([flag], REPLAY), ([], Arm("a", (flag,)))):
            with pytest.raises(BadComparison, match=hint):
                run_study([arm, TWIN], [0], tmp_path, source="demo", settings=settings)
    axes = (parse_axis("run.seed=1,2"),)
    with pytest.raises(BadComparison, match="--first-seed"):
        run_study([REPLAY, TWIN], [0], tmp_path, source="demo", tuning=Tuning((9,), axes))
    assert [path.name for path in tmp_path.iterdir()] == ["mine.yaml"]


def test_the_twin_is_the_configuration_without_replay() -> None:
    settings = ["replay.modes=[buffer]"]
    check_arms("demo", settings, [REPLAY, TWIN])
    one, other = (arm_config("demo", settings, arm, 0) for arm in (REPLAY, TWIN))
    (change,) = differences(one, other)
    assert (change.key, change.before, change.after) == ("replay.modes", "[buffer]", "[]")


def test_what_only_replay_reads_is_off_in_the_twin() -> None:
    adapting = ["adapt.controller=true", "adapt.uses=kl", "adapt.early_rows=10"]
    ways = [
        ["replay.modes=[buffer]", "pool.start_from=other", "pool.max_rows=20", *adapting],
        ["replay.modes=[mix]", "replay.participation=baseline"],
    ]
    for settings in ways:
        twin = arm_config("demo", settings, TWIN, 0)
        assert not twin.replay.on
        plain = without_replay(load_config("demo", [*settings, "run.seed=0"]).config)
        assert twin == plain, "one way to switch it off by settings, one by code"


def test_no_task_of_the_twin_retires() -> None:
    settings = ["replay.modes=[mix]", "replay.retire=true"]
    assert not arm_config("demo", settings, TWIN, 0).replay.retire


def test_a_configuration_that_replays_nothing_is_its_own_twin() -> None:
    with pytest.raises(BadComparison, match=r"its own twin.*replay\.modes"):
        check_arms("demo", ["replay.modes=[]"], [REPLAY, TWIN])


def test_arms_that_cannot_be_compared() -> None:
    with pytest.raises(BadComparison, match="one arm"):
        check_arms("demo", [], [Arm("a")])
    with pytest.raises(BadComparison, match="same name"):
        check_arms("demo", [], [Arm("a"), Arm("A", ("train.epochs=2",))])
    with pytest.raises(BadComparison, match="same settings"):
        check_arms("demo", ["train.epochs=2"], [Arm("a", ("train.epochs=2",)), Arm("b")])
    with pytest.raises(BadComparison, match="never evaluates"):
        check_arms("demo", ["eval.every=0"], [Arm("a", ("train.epochs=2",)), Arm("b")])
    with pytest.raises(BadComparison, match=r"not examined alike: eval\.split"):
        check_arms("demo", [], [Arm("a", ("eval.split=test",)), Arm("b")])
    for other in ("name=desk:retail", "levels=[2]", "domains=[retail]"):
        with pytest.raises(BadComparison, match=r"arms a and b are not examined alike: env"):
            check_arms("demo", [], [Arm("a"), Arm("b", (f"environment.{other}",))])
    with pytest.raises(BadConfig):
        check_arms("demo", [], [Arm("a", ("train.epoch=2",)), Arm("b")])
