"""The verdict must never claim more than the figures do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from recollect.compare.arms import Arm, arm_config
from recollect.compare.comparison import compare, summarise_arm
from recollect.compare.measures import Measures, Span
from recollect.compare.statistics import Estimate
from recollect.compare.study import ArmResult, Study
from recollect.compare.tuning import Trial, Tuned
from recollect.compare.verdict import conclusion, verdict

from .samples import run

Costs = Sequence[float | None]


def study(
    replay: Costs,
    twin: Costs,
    finals: tuple[Sequence[float], Sequence[float]] | None = None,
    tuned: Tuned | None = None,
) -> Study:
    span = Span(0, 100, 100)

    def arm(name: str, costs: Costs, ends: Sequence[float]) -> tuple[Measures, ...]:
        pairs = zip(costs, ends, strict=True)
        return tuple(run(name, seed, cost, end) for seed, (cost, end) in enumerate(pairs))

    same = [0.9] * len(replay)
    first, second = finals or (same, same)
    rows = [arm("replay", replay, first), arm("twin", twin, second)]
    config = arm_config("demo", [], Arm("x"), 0)
    results = tuple(
        ArmResult(Arm(runs[0].arm), config, (), runs, summarise_arm(runs), tuned) for runs in rows
    )
    seeds = tuple(range(len(replay)))
    tuning_seeds = (1000, 1001) if tuned else ()
    found = (compare(rows[0], rows[1], span),)
    return Study(
        Path(), "demo", (), seeds, tuning_seeds, 0.8, 1, "command", span, results, found
    )  # fmt: skip


def test_a_clear_gain() -> None:
    text = verdict(study([10, 12, 11, 10, 13], [20, 25, 22, 21, 26]))
    assert "twin needed 2.00 times the generated rollouts that replay needed" in text
    assert "better in 5 of 5 seeds" in text
    assert "No clear difference in final success" in text
    assert "neither was tuned" in text


def test_a_clear_loss() -> None:
    text = verdict(study([20, 25, 22, 21, 26], [10, 12, 11, 10, 13]))
    assert "replay needed more generated rollouts than twin" in text
    assert "took longer" in text


def test_an_interval_around_1_is_no_difference() -> None:
    text = verdict(study([10, 30, 11, 40, 13], [12, 20, 22, 21, 26]))
    assert "No clear difference in the generated rollouts" in text
    assert "times the generated" not in text


@pytest.mark.parametrize("count", [1, 2, 4])
def test_few_seeds_conclude_nothing_however_large_the_gain(count: int) -> None:
    finals = ([0.9] * count, [0.1] * count)
    text = verdict(study([1] * count, [90] * count, finals))
    where = "in this seed" if count == 1 else f"in these {count} seeds"
    assert text.startswith(f"{count} seed")
    assert "too little to conclude anything; use 5 or more." in text
    assert text.count(where) == 3, "whatever is said of so few is said of them alone"
    assert "No clear difference" not in text


def test_a_baseline_that_never_got_there() -> None:
    text = verdict(study([10, 12, 11, 10, 13], [None] * 5))
    assert "twin needed at least 7.69 times" in text  # 100 / 13: more is not certain
    assert "95% interval 7.69 to ∞" in text


def test_a_baseline_that_was_given_less_time_has_not_lost() -> None:
    costs = [120.0, 125.0, 130.0, 121.0, 128.0]  # of runs that had more than the baseline's 100
    text = verdict(study(costs, [None] * 5))
    assert "No clear difference in the generated rollouts" in text
    assert "better in 0 of 5 seeds, 5 undecided" in text


def test_where_neither_got_there_nothing_is_said_of_rollouts() -> None:
    text = verdict(study([None] * 4 + [10], [None] * 5))
    assert "cannot be said: 1 of 5 seeds of replay and 0 of 5 seeds of twin" in text
    assert "training time" not in text


def test_a_target_below_the_start() -> None:
    assert "choose a higher target" in verdict(study([0] * 5, [0] * 5))


def test_success_at_the_end() -> None:
    high, low = [0.9, 0.92, 0.91, 0.95, 0.9], [0.8, 0.81, 0.85, 0.82, 0.8]
    same = [10.0] * 5
    assert "replay ended with higher success" in verdict(study(same, same, (high, low)))
    assert "replay ended with lower success" in verdict(study(same, same, (low, high)))


def test_arms_with_grids_of_their_own_are_counted_apart() -> None:
    trial = Trial(("train.epochs=4",), (0.5,), 0)
    found = study([10] * 5, [20] * 5, tuned=Tuned("x", (trial, trial), trial, ()))
    first, last = found.arms
    last = replace(last, tuned=Tuned("x", (trial,) * 3, trial, ()))
    text = verdict(replace(found, arms=(first, last)))
    assert "the best of its own settings (2 of replay, 3 of twin), tuned on seeds" in text


def test_tuned_arms_say_how_and_where_the_grid_ended() -> None:
    trial = Trial(("train.epochs=4",), (0.5, 0.6), 0)
    tuned = Tuned("x", (trial, trial), trial, ("train.epochs=4",))
    text = verdict(study([10] * 5, [20] * 5, tuned=tuned))
    assert "the best of 2 settings, tuned on seeds 1000, 1001" in text
    assert ": replay at train.epochs=4; twin at train.epochs=4." in text
    assert "edge of the grid" in text
    assert "neither was tuned" not in text


def test_arms_that_are_examined_more_often_are_named() -> None:
    found = study([10, 12, 11, 10, 13], [20, 25, 22, 21, 26])
    assert "examined" not in verdict(found)
    # Twice the tasks in half the steps: after as many rollouts.
    alike = ("eval.every=2", "rollout.tasks_per_step=8")
    assert "examined" not in verdict(examined(found, *alike))
    text = verdict(examined(found, "eval.every=2"))
    assert "not examined equally often (replay every 64, twin every 128 rollouts)" in text
    assert "before the first step" in verdict(examined(found, "eval.at_start=false"))


def examined(found: Study, *settings: str) -> Study:
    """The same study, its first arm with other settings of its evaluation."""
    first, *others = found.arms
    config = arm_config("demo", [], Arm("x", settings), 0)
    return replace(found, arms=(replace(first, config=config), *others))


def test_conclusions() -> None:
    clear, touching = Estimate(2.0, 1.5, 3.0, 0.0), Estimate(2.0, 1.0, 3.0, 0.0)
    assert conclusion(clear, 1.0) == "more"
    assert conclusion(clear, 4.0) == "less"
    assert conclusion(touching, 1.0) == "unclear"
    assert conclusion(Estimate(None, 0.0, 3.0, 0.5), 1.0) == "undefined"
