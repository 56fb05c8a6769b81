"""What a comparison shows, in plain words that claim no more than the intervals do."""

from __future__ import annotations

import math

from recollect.compare.arms import TWIN
from recollect.compare.comparison import Comparison, CostRatio, Gap
from recollect.compare.spelling import ENOUGH, few_seeds, points, seeds, share, times
from recollect.compare.statistics import Estimate, Signs
from recollect.compare.study import ArmResult, Study


def verdict(study: Study) -> str:
    """Say in one paragraph what the study shows about the arm under test."""
    return " ".join(verdict_lines(study))


def verdict_lines(study: Study) -> list[str]:
    """Say the same in at most seven lines."""
    found = study.comparison
    sentences = [
        few_seeds(len(found.seeds)),
        _rollouts(study, found),
        _seconds(found),
        _final(found.final, found),
        _diverged(study),
        _examined(study),
        _fairness(study),
    ]
    return [sentence for sentence in sentences if sentence]


def conclusion(estimate: Estimate, neutral: float) -> str:
    """Sort a figure: `undefined`, `single`, `unclear`, or its side of neutral: `more`, `less`."""
    if estimate.point is None:
        return "undefined"
    if estimate.low is None or estimate.high is None:
        return "single"
    if not estimate.excludes(neutral):
        return "unclear"
    return "more" if estimate.point > neutral else "less"


def _here(found: Comparison) -> str:
    """Where a finding holds, said of those that may hold nowhere else."""
    n = len(found.seeds)
    return "" if n >= ENOUGH else " in this seed" if n == 1 else f" in these {n} seeds"


def _rollouts(study: Study, found: Comparison) -> str:
    arm, base, cost = found.arm, found.baseline, found.rollouts
    goal = f"{share(study.target)} held-out success"
    kind = conclusion(cost.medians, 1.0)
    if kind == "undefined":
        return _never(study, found, goal)
    figures = f"({_figures(cost)})"
    if kind == "more":
        return (
            f"To reach {goal}, {base} needed {_times(cost.medians)} the generated rollouts that "
            f"{arm} needed{_here(found)} {figures}."
        )
    if kind == "less":
        more = f"{arm} needed more generated rollouts than {base} to reach {goal}"
        return f"{more}{_here(found)} {figures}."
    needed = f"the generated rollouts needed to reach {goal}"
    return _undecided(kind, needed, found, figures)


def _never(study: Study, found: Comparison, goal: str) -> str:
    test = next(result for result in study.arms if result.arm.name == found.arm)
    base = study.arms[-1]
    if all(run.rollouts_to_target.value == 0 for run in (*test.runs, *base.runs)):
        return f"Every run had {goal} before it began to train: choose a higher target."
    return (
        f"Which arm reaches {goal} sooner cannot be said: {_reached(test)} and {_reached(base)} "
        f"got there."
    )


def _reached(result: ArmResult) -> str:
    return f"{result.summary.reached} of {result.summary.seeds} seeds of {result.arm.name}"


def _seconds(found: Comparison) -> str:
    cost = found.seconds
    kind = conclusion(cost.medians, 1.0)
    if kind == "undefined":
        return ""
    figures = f"({_figures(cost)})"
    if kind == "more":
        return (
            f"In training time, {found.baseline} took {_times(cost.medians)} as long as "
            f"{found.arm}{_here(found)} {figures}."
        )
    if kind == "less":
        longer = f"In training time, {found.arm} took longer than {found.baseline}"
        return f"{longer}{_here(found)} {figures}."
    return _undecided(kind, "training time to the target", found, figures)


def _final(gap: Gap, found: Comparison) -> str:
    estimate = gap.estimate
    if estimate.point is None:
        return "The difference of final success is undefined."
    bounds = _bounds(estimate, points)
    kind = conclusion(estimate, 0.0)
    mean = "" if kind == "single" else "mean "
    figures = f"({mean}{points(estimate.point)} points{bounds}; {_signs(gap.signs)})"
    if kind == "more":
        return f"{found.arm} ended with higher success{_here(found)} {figures}."
    if kind == "less":
        return f"{found.arm} ended with lower success{_here(found)} {figures}."
    return _undecided(kind, "final success", found, figures)


def _undecided(kind: str, what: str, found: Comparison, figures: str) -> str:
    """Say that an interval leaves a difference open; or, where there is none, just the figures."""
    if kind == "single":
        return f"{what[0].upper()}{what[1:]}{_here(found)} {figures}."
    return f"No clear difference in {what} {figures}."


def _diverged(study: Study) -> str:
    hurt = [result for result in study.arms if result.summary.diverged]
    told = [f"{r.summary.diverged} of {r.summary.seeds} of {r.arm.name}" for r in hurt]
    return f"Diverged and counted as they stood: {', '.join(told)}." if told else ""


def _examined(study: Study) -> str:
    """Name arms that are examined after different numbers of rollouts."""
    spaces = {r.arm.name: r.config.eval.every * r.config.rows_per_step for r in study.arms}
    at_start = {result.config.eval.at_start for result in study.arms}
    if len(set(spaces.values())) == 1 and len(at_start) == 1:
        return ""
    told = ", ".join(f"{arm} every {rows}" for arm, rows in spaces.items())
    first = "" if len(at_start) == 1 else ", not all of them before the first step"
    return (
        f"The arms are not examined equally often ({told} rollouts{first}): whoever is asked more "
        "often is the sooner there, and at its best the better, by that alone."
    )


def _fairness(study: Study) -> str:
    if not study.tuned:
        named = study.arms[-1].arm == TWIN
        twin = f"{TWIN.name} is the same run with replay off. " if named else ""
        return (
            f"{twin}The arms share all other settings and neither was tuned: more epochs or a "
            "higher learning rate may buy the baseline the same. Repeat with --tune before "
            "believing a gain."
        )
    counts = {r.arm.name: len(r.tuned.trials) for r in study.arms if r.tuned is not None}
    sizes = sorted(set(counts.values()))
    several = f"its own settings ({', '.join(f'{n} of {arm}' for arm, n in counts.items())})"
    tried = f"{sizes[0]} settings" if len(sizes) == 1 else several
    text = f"Each arm ran at the best of {tried}, tuned on seeds {seeds(study.tuning_seeds)}: "
    text += "; ".join(
        f"{result.arm.name} at {' '.join(result.tuned.best.settings)}"
        for result in study.arms
        if result.tuned is not None
    )
    text += "."
    edges = [
        f"{result.arm.name} ({', '.join(result.tuned.edges)})"
        for result in study.arms
        if result.tuned is not None and result.tuned.edges
    ]
    if edges:
        text += f" At the edge of the grid, so perhaps not at its best: {'; '.join(edges)}."
    return text


def _times(estimate: Estimate) -> str:
    assert estimate.point is not None
    if math.isinf(estimate.point):
        return f"at least {times(estimate.low or 0.0)} times"
    return f"{times(estimate.point)} times"


def _figures(cost: CostRatio) -> str:
    point = cost.medians.point
    assert point is not None
    bounds = _bounds(cost.medians, times)
    return f"ratio of medians {times(point)}{bounds}; {_signs(cost.signs)}"


def _bounds(estimate: Estimate, spell: object) -> str:
    assert callable(spell)
    if estimate.low is None or estimate.high is None:
        return ", no interval"
    return f", 95% interval {spell(estimate.low)} to {spell(estimate.high)}"


def _signs(found: Signs) -> str:
    total = found.better + found.worse + found.ties
    ties = f", {found.ties} undecided" if found.ties else ""
    return f"better in {found.better} of {total} seeds{ties}"
