"""One arm beside the baseline, seed by seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from recollect.compare.measures import Measures, Reach, Span
from recollect.compare.statistics import (
    Costs,
    Estimate,
    Signs,
    cheaper_signs,
    difference,
    higher_signs,
    median,
    ratio,
    restricted_mean,
    summary,
)

_NAN = float("nan")


@dataclass(frozen=True, slots=True)
class ArmSummary:
    """An arm's measures over its seeds: medians, never reached counting as infinite.

    `reached` counts the seeds that reached the target.
    """

    rollouts_to_target: Estimate
    seconds_to_target: Estimate
    final: Estimate
    best: Estimate
    area: Estimate
    replay_ratio: Estimate
    reached: int
    seeds: int
    diverged: int


@dataclass(frozen=True, slots=True)
class CostRatio:
    """How many times the baseline's cost of reaching the target is the arm's: above 1 is a gain.

    `medians` is the ratio of medians, never reached counting as infinite: the headline. Its
    interval takes never for anything beyond what the run used up.
    `restricted` is the ratio of means cut at `horizon`, which has a value even then; where a run
    never reached the target, `horizon` stands for a larger number that nobody knows.
    """

    medians: Estimate
    restricted: Estimate
    horizon: float
    signs: Signs


@dataclass(frozen=True, slots=True)
class Gap:
    """The arm minus the baseline, mean over the seeds: above 0 is a gain."""

    estimate: Estimate
    signs: Signs


@dataclass(frozen=True, slots=True)
class Comparison:
    """An arm under test beside the baseline."""

    arm: str
    baseline: str
    seeds: tuple[int, ...]
    rollouts: CostRatio
    seconds: CostRatio
    final: Gap
    best: Gap
    area: Gap


def summarise_arm(runs: Sequence[Measures]) -> ArmSummary:
    """Take the medians over an arm's seeds."""

    def middle(name: str, values: Sequence[float]) -> Estimate:
        return summary(values, median, f"median {name}")

    known = [run.replay_ratio for run in runs if run.replay_ratio is not None]
    return ArmSummary(
        rollouts_to_target=middle("rollouts", [run.rollouts_to_target.number for run in runs]),
        seconds_to_target=middle("seconds", [run.seconds_to_target.number for run in runs]),
        final=middle("final", _shares(runs, lambda run: run.final)),
        best=middle("best", _shares(runs, lambda run: run.best)),
        area=middle("area", _shares(runs, lambda run: run.area)),
        replay_ratio=middle("replay ratio", known),
        reached=sum(run.rollouts_to_target.value is not None for run in runs),
        seeds=len(runs),
        diverged=sum(run.diverged for run in runs),
    )


def compare(test: Sequence[Measures], baseline: Sequence[Measures], span: Span) -> Comparison:
    """Compare two arms whose runs are in the same order of seeds."""
    seeds = tuple(run.seed for run in test)
    assert seeds == tuple(run.seed for run in baseline), "the arms' seeds are not the same"
    return Comparison(
        arm=test[0].arm,
        baseline=baseline[0].arm,
        seeds=seeds,
        rollouts=_cost_ratio(
            "rollouts",
            _costs([run.rollouts_to_target for run in baseline]),
            _costs([run.rollouts_to_target for run in test]),
            span.last,
        ),
        seconds=_cost_ratio(
            "seconds",
            _costs([run.seconds_to_target for run in baseline]),
            _costs([run.seconds_to_target for run in test]),
            span.seconds,
        ),
        final=_gap("final", test, baseline, lambda run: run.final),
        best=_gap("best", test, baseline, lambda run: run.best),
        area=_gap("area", test, baseline, lambda run: run.area),
    )


def _costs(reached: Sequence[Reach]) -> Costs:
    return Costs(tuple(one.number for one in reached), tuple(one.least for one in reached))


def _cost_ratio(name: str, baseline: Costs, test: Costs, horizon: float) -> CostRatio:
    return CostRatio(
        ratio(baseline, test, median, f"medians of {name}"),
        ratio(
            baseline,
            test,
            restricted_mean(horizon),
            f"restricted means of {name}",
            of_means=True,
        ),
        horizon,
        cheaper_signs(test, baseline),
    )


def _gap(
    name: str,
    test: Sequence[Measures],
    baseline: Sequence[Measures],
    of: Callable[[Measures], float | None],
) -> Gap:
    first, second = _shares(test, of), _shares(baseline, of)
    return Gap(
        difference(first, second, f"difference of {name}"),
        higher_signs(first, second),
    )


def _shares(runs: Sequence[Measures], of: Callable[[Measures], float | None]) -> list[float]:
    values = [of(run) for run in runs]
    return [_NAN if value is None or not math.isfinite(value) else value for value in values]
