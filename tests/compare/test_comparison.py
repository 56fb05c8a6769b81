from __future__ import annotations

import math

import pytest

from recollect.compare.comparison import compare, summarise_arm
from recollect.compare.measures import Span
from recollect.compare.statistics import Signs

from .samples import run

SPAN = Span(0, 100, 100)


def test_the_baselines_cost_over_the_arms() -> None:
    test = [run("a", seed, cost) for seed, cost in enumerate([10, 20, 30])]
    base = [run("b", seed, cost) for seed, cost in enumerate([20, 40, None])]
    found = compare(test, base, SPAN)
    assert (found.arm, found.baseline, found.seeds) == ("a", "b", (0, 1, 2))
    assert found.rollouts.medians.point == 2.0  # 40 / 20
    # (20 + 40 + 100) / (10 + 20 + 30): never counts as the horizon, and is really more.
    assert found.rollouts.restricted.point == pytest.approx(160 / 60)
    assert found.rollouts.signs == Signs(3, 0, 0)


def test_higher_success_is_better() -> None:
    test = [run("a", seed, 10, final) for seed, final in enumerate([0.9, 0.8])]
    base = [run("b", seed, 10, final) for seed, final in enumerate([0.7, 0.8])]
    found = compare(test, base, SPAN)
    assert found.final.estimate.point == pytest.approx(0.1)
    assert found.final.signs == Signs(1, 0, 1)
    assert found.area.estimate.point == pytest.approx(0.05)


def test_arms_on_other_seeds_are_refused() -> None:
    with pytest.raises(AssertionError, match="seeds"):
        compare([run("a", 0, 1)], [run("b", 1, 1)], SPAN)


def test_a_summary_counts_who_got_there() -> None:
    found = summarise_arm([run("a", 0, 10), run("a", 1, None), run("a", 2, None)])
    assert (found.reached, found.seeds, found.diverged) == (1, 3, 0)
    assert found.rollouts_to_target.point == math.inf
    assert found.rollouts_to_target.low == 10
    assert found.replay_ratio.point is None
    assert found.final.point == 0.9
