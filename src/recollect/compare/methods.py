"""Continual methods beside each other: the measures of their runs, over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recollect.canonical import Json
from recollect.compare.arms import differences
from recollect.compare.spelling import estimate, few_seeds
from recollect.compare.statistics import Estimate, difference
from recollect.config.schema.config import Config
from recollect.config.showing import Change
from recollect.continual.journey import Journey
from recollect.continual.matrix import ScoreMatrix, Undefined
from recollect.continual.runner import open_journey
from recollect.continual.transfer import MEASURES
from recollect.errors import BadComparison

BASELINE, IMITATION = "sequential", "sft"
# These change no score.
_SCORELESS = ("continual.references", "checkpoint.", "telemetry.")
# In what runs of one method may differ: its name says the first two.
_FREE = ("continual.method", "continual.imitate", *_SCORELESS)


def baseline_of(name: str) -> str:
    """What a method is compared with: the same learning without any protection."""
    return IMITATION if name.startswith(f"{IMITATION}+") else BASELINE


@dataclass(frozen=True, slots=True)
class MethodRuns:
    """The runs of one method, by seed. `measures` hold one value for each run, None = undefined.

    `config` is that of one of them: they differ in nothing that changes a score.
    """

    name: str
    config: Config
    seeds: tuple[int, ...]
    matrices: tuple[ScoreMatrix, ...]
    measures: dict[str, tuple[float | None, ...]]
    divergence: tuple[float | None, ...]  # KL to the base after the last stage, mean over domains

    def estimate(self, name: str) -> Estimate | None:
        """Mean of a measure over the seeds, with its interval; None where a run lacks it."""
        return _estimate(self.measures[name], f"{self.name} {name}")

    def mean_matrix(self) -> ScoreMatrix:
        """The mean of the runs' matrices."""
        first = self.matrices[0]

        def mean(rows: Sequence[Sequence[float | None] | None]) -> tuple[float | None, ...] | None:
            if any(row is None or None in row for row in rows):
                return None
            return tuple(map(float, np.mean(np.array(rows, dtype=float), axis=0)))

        stages = [mean([m.stages[t] for m in self.matrices]) for t in range(len(first.stages))]
        return ScoreMatrix(
            first.domains,
            tuple(row or (None,) * len(first.domains) for row in stages),
            mean([m.base for m in self.matrices]),
            mean([m.single for m in self.matrices]),
            mean([m.joint for m in self.matrices]),
        )


@dataclass(frozen=True, slots=True)
class MethodComparison:
    """Several methods on the same order of domains, the baseline first where there is one."""

    domains: tuple[str, ...]
    methods: tuple[MethodRuns, ...]

    def baseline(self, method: MethodRuns) -> MethodRuns | None:
        """The runs that a method is compared with; None where there are none, or it is they."""
        name = baseline_of(method.name)
        found = next((each for each in self.methods if each.name == name), None)
        return None if found is method else found

    def differences(self) -> list[tuple[MethodRuns, MethodRuns, list[Change]]]:
        """List what else differs between each method and its baseline, or else the first method.

        The methods' own settings are left out, and those that change no score.
        """
        own, found = ("continual.", *_SCORELESS), []
        for method in self.methods:
            other = self.baseline(method) or self.methods[0]
            changes = differences(other.config, method.config)
            told = [change for change in changes if not change.key.startswith(own)]
            if told:
                found.append((method, other, told))
        return found

    @property
    def warning(self) -> str:
        """Warn where the intervals are of too few seeds; nothing where they are not."""
        numbers = [len(method.seeds) for method in self.methods]
        for method in self.methods:
            base = self.baseline(method)
            shared = set(method.seeds) & set(base.seeds) if base is not None else set[int]()
            numbers += [len(shared)] if shared else []
        return few_seeds(min(numbers))

    def remarks(self) -> list[str]:
        """Say what to know before believing the figures: few seeds, settings that differ."""
        said = [self.warning] if self.warning else []
        for method, other, changes in self.differences():
            told = ", ".join(f"{c.key} ({c.after or '-'}, not {c.before or '-'})" for c in changes)
            said.append(f"{method.name} differs from {other.name} in {told}.")
        return said

    def against(self, method: MethodRuns, name: str) -> Estimate | None:
        """A measure of a method minus its baseline's, over the seeds that both have."""
        base = self.baseline(method)
        if base is None:
            return None
        mine = dict(zip(method.seeds, method.measures[name], strict=True))
        theirs = dict(zip(base.seeds, base.measures[name], strict=True))
        pairs = [(mine[s], theirs[s]) for s in mine if s in theirs]
        if not pairs or any(None in pair for pair in pairs):
            return None
        first, second = ([float(p[side] or 0.0) for p in pairs] for side in (0, 1))
        return difference(first, second, f"{method.name} {name} against {base.name}")

    def lines(self) -> list[str]:
        """Write one row for each method, its measures as mean [interval]."""
        titles = ["method", "seeds", *MEASURES, "KL to base"]
        rows = [titles]
        for method in self.methods:
            known = [figure(method.estimate(name)) for name in MEASURES]
            drift = figure(_estimate(method.divergence, f"{method.name} kl"))
            rows.append([method.name, str(len(method.seeds)), *known, drift])
        widths = [max(len(row[place]) for row in rows) for place in range(len(titles))]
        return [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]


def compare_methods(paths: Sequence[Path]) -> MethodComparison:
    """Read finished continual runs; BadComparison where they cannot stand beside each other."""
    journeys = [open_journey(path) for path in paths]
    for journey in journeys:
        if not journey.finished:
            raise BadComparison(
                f"{journey.path} is not finished",
                f"Go on with it first: recollect resume {journey.path}",
            )
        if (journey.order, _examined_on(journey)) != (journeys[0].order, _examined_on(journeys[0])):
            raise BadComparison(
                f"{journey.path} and {journeys[0].path} differ in their domains or tasks",
                "Compare runs with the same continual.task_order, continual.score, environment and "
                "eval settings.",
            )
    groups: dict[str, list[Journey]] = {}
    for journey in journeys:
        groups.setdefault(journey.title, []).append(journey)
    for name, found in groups.items():
        _check_alike(name, found)
    names = sorted(groups, key=lambda name: name != BASELINE)
    return MethodComparison(journeys[0].order, tuple(_runs(name, groups[name]) for name in names))


def _check_alike(name: str, found: Sequence[Journey]) -> None:
    """Refuse runs of one method whose mean would say nothing."""
    seeds = [journey.config.run.seed for journey in found]
    if len(set(seeds)) < len(seeds):
        raise BadComparison(
            f"two runs of {name} have the same seed", "Give one run for each method and seed."
        )
    for journey in found[1:]:
        changes = differences(found[0].config, journey.config)
        odd = [change.key for change in changes if not change.key.startswith(_FREE)]
        if odd:
            raise BadComparison(
                f"{found[0].path} and {journey.path} are both {name} and differ in {odd[0]}",
                "Runs of one method are averaged over seeds: give those with the same settings.",
            )


def comparison_document(found: MethodComparison) -> dict[str, Json]:
    """Spell a comparison as JSON."""
    methods: dict[str, Json] = {}
    for method in found.methods:
        measures: dict[str, Json] = {}
        for name, values in method.measures.items():
            measures[name] = {
                "by_seed": list(values),
                **_plain(method.estimate(name)),
                f"minus_{baseline_of(method.name)}": _plain(found.against(method, name)),
            }
        mean = method.mean_matrix()
        matrix: dict[str, Json] = {"stages": [list(row) for row in mean.stages]}
        for row in ("base", "single", "joint"):
            values_of = getattr(mean, row)
            matrix[row] = None if values_of is None else list(values_of)
        methods[method.name] = {
            "seeds": list(method.seeds),
            "matrix": matrix,
            "measures": measures,
            "kl_to_base": list(method.divergence),
        }
    return {
        "domains": list(found.domains),
        "methods": methods,
        "differences": [
            {"setting": change.key, method.name: change.after, other.name: change.before}
            for method, other, changes in found.differences()
            for change in changes
        ],
    }


def _runs(name: str, journeys: Sequence[Journey]) -> MethodRuns:
    ordered = sorted(journeys, key=lambda journey: journey.config.run.seed)
    matrices = tuple(journey.matrix() for journey in ordered)
    measures: dict[str, tuple[float | None, ...]] = {}
    for measure, function in MEASURES.items():
        values = [function(matrix) for matrix in matrices]
        measures[measure] = tuple(None if isinstance(v, Undefined) else v for v in values)
    seeds = tuple(journey.config.run.seed for journey in ordered)
    drifts = tuple(map(_drift, ordered))
    return MethodRuns(name, ordered[0].config, seeds, matrices, measures, drifts)


def _drift(journey: Journey) -> float | None:
    last = journey.examined(str(len(journey.order) - 1))
    known = [each.kl for each in last.domains if each.kl is not None] if last else []
    return sum(known) / len(known) if known else None


def _examined_on(journey: Journey) -> tuple[object, ...]:
    wanted, world = journey.config.eval, journey.config.environment
    tasks = (world.name, world.options, world.levels, wanted.split, wanted.tasks)
    return *tasks, wanted.rows, wanted.temperature, journey.config.continual.score


def _estimate(values: Sequence[float | None], name: str) -> Estimate | None:
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return difference(known, [0.0] * len(known), name)


def figure(found: Estimate | None, sign: str = "") -> str:
    """Spell a measure with its interval, n/a where a run lacks it; `sign` as in format()."""
    if found is None or found.point is None:
        return "n/a"
    return estimate(found, lambda value: f"{value:{sign}.3f}")


def _plain(found: Estimate | None) -> dict[str, Json]:
    if found is None:
        return {"mean": None, "low": None, "high": None}
    return {"mean": found.point, "low": found.low, "high": found.high}
