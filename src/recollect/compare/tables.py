"""The tables of a study as text: the command line prints them, the report shows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from recollect.compare.comparison import Comparison, CostRatio, Gap
from recollect.compare.spelling import (
    Spell,
    count,
    duration,
    estimate,
    interval,
    optional,
    points,
    reach,
    share,
    times,
)
from recollect.compare.study import ArmResult, Study


@dataclass(frozen=True, slots=True)
class TextTable:
    """Titles and rows, every row as long as the titles. The first column is words."""

    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def arm_table(study: Study) -> TextTable:
    """One row per measure: the median and interval of each arm, and what sets them apart."""
    goal = f"{100 * study.target:g}%"
    base = study.arms[-1].arm.name
    rows = [
        _row(study, f"rollouts to {goal}", _cost("rollouts_to_target", count),
             _medians("rollouts")),
        _row(study, "  as restricted means", lambda arm: "", _restricted("rollouts")),
        _row(study, f"training time to {goal}", _cost("seconds_to_target", duration),
             _medians("seconds")),
        _row(study, "  as restricted means", lambda arm: "", _restricted("seconds")),
        _row(study, f"seeds that reached {goal}", _reached, lambda found: _signs(found.rollouts)),
        _row(study, "final success", _cost("final", share), lambda found: _gap(found.final)),
        _row(study, "best success", _cost("best", share), lambda found: _gap(found.best)),
        _row(study, "mean success while learning", _cost("area", share),
             lambda found: _gap(found.area)),
    ]  # fmt: skip
    if any(result.summary.replay_ratio.point is not None for result in study.arms):
        rows.append(_row(study, "replay ratio", _replay_ratio, lambda found: ""))
    if any(result.summary.diverged for result in study.arms):
        rows.append(_row(study, "diverged runs", _diverged, lambda found: ""))
    names = [result.arm.name for result in study.arms]
    effects = [f"{found.arm} against {base}" for found in study.comparisons]
    return TextTable(("median over seeds [95% interval]", *names, *effects), tuple(rows))


def run_table(study: Study) -> TextTable:
    """One row per run."""
    titles = ("run", f"rollouts to {100 * study.target:g}%", "training time to it", "final", "best",
              "mean while learning", "rollouts", "training time", "")  # fmt: skip
    rows = []
    for seed in range(len(study.seeds)):
        for result in study.arms:
            run = result.runs[seed]
            rows.append(
                (
                    f"{run.arm}, seed {run.seed}",
                    reach(run.rollouts_to_target, count),
                    reach(run.seconds_to_target, duration),
                    optional(run.final, share),
                    optional(run.best, share),
                    optional(run.area, share),
                    count(run.rollouts),
                    duration(run.seconds),
                    "diverged" if run.diverged else "",
                )
            )
    return TextTable(titles, tuple(rows))


def tuning_table(result: ArmResult) -> TextTable:
    """One row per setting that an arm tried, in the order of the grid; empty without tuning."""
    tuned = result.tuned
    if tuned is None:
        return TextTable(("setting",), ())
    rows = []
    for trial in tuned.trials:
        score = trial.score
        state = "diverged" if trial.diverged else "chosen" if trial is tuned.best else ""
        each = ", ".join(optional(value, share) for value in trial.areas)
        rows.append((" ".join(trial.settings), optional(score, share), each, state))
    return TextTable(("setting", "mean success while learning", "by tuning seed", ""), tuple(rows))


def _row(
    study: Study,
    title: str,
    cell: Callable[[ArmResult], str],
    effect: Callable[[Comparison], str],
) -> tuple[str, ...]:
    cells = [cell(result) for result in study.arms]
    return (title, *cells, *(effect(found) for found in study.comparisons))


def _cost(name: str, spell: Spell) -> Callable[[ArmResult], str]:
    return lambda result: estimate(getattr(result.summary, name), spell)


def _medians(name: str) -> Callable[[Comparison], str]:
    def spell(found: Comparison) -> str:
        ratio: CostRatio = getattr(found, name)
        return f"{found.baseline} / {found.arm} = {estimate(ratio.medians, times)}"

    return spell


def _restricted(name: str) -> Callable[[Comparison], str]:
    def spell(found: Comparison) -> str:
        ratio: CostRatio = getattr(found, name)
        return f"{found.baseline} / {found.arm} = {estimate(ratio.restricted, times)}"

    return spell


def _gap(gap: Gap) -> str:
    """The mean of the seeds' differences, which is not the difference of the medians beside it."""
    found = gap.estimate
    if found.point is None:
        return estimate(found, points)
    bounds = interval(found, points)
    figure = f"{points(found.point)} points"
    return f"mean {figure} {bounds}" if bounds else figure  # one seed has neither


def _signs(cost: CostRatio) -> str:
    found = cost.signs
    total = found.better + found.worse + found.ties
    return f"sooner in {found.better} of {total}, later in {found.worse}"


def _reached(result: ArmResult) -> str:
    return f"{result.summary.reached} of {result.summary.seeds}"


def _replay_ratio(result: ArmResult) -> str:
    found = result.summary.replay_ratio
    return "-" if found.point is None else estimate(found, times)


def _diverged(result: ArmResult) -> str:
    return f"{result.summary.diverged} of {result.summary.seeds}"
