"""What the doctor knows of a run: its settings, its metrics, and its store as it lies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from recollect.config.schema.config import Config
from recollect.doctor.finding import Evidence
from recollect.doctor.snapshot import Snapshot, take_snapshot
from recollect.errors import RunMissing
from recollect.store import open_reader, store_exists
from recollect.telemetry.reading import EvaluationLine, StepLine, read_metrics
from recollect.train.folder import RunFolder

_FEWEST = 5  # steps that a judgement of "lately" rests on


@dataclass(frozen=True, slots=True)
class History:
    """A run, finished or under way. `snapshot` is None where it has no store to be read."""

    folder: RunFolder
    config: Config
    steps: tuple[StepLine, ...]
    evaluations: tuple[EvaluationLine, ...]
    snapshot: Snapshot | None

    @property
    def done(self) -> int:
        """The last step that is in the metrics."""
        return self.steps[-1].step if self.steps else 0

    @property
    def recent(self) -> tuple[StepLine, ...]:
        """The last third of the steps, five at least: how the run is now."""
        return self.steps[-max(_FEWEST, math.ceil(len(self.steps) / 3)) :]

    @property
    def early(self) -> tuple[StepLine, ...]:
        """As many steps, from the beginning."""
        return self.steps[: len(self.recent)]


def read_history(folder: RunFolder) -> History:
    """Read a run's folder; its writer may be at work. RunMissing before its first step."""
    config = folder.load()
    if not folder.metrics.is_file():
        raise RunMissing(folder.path, "the run has not finished a step yet")
    metrics = read_metrics(folder.path)
    if not metrics.steps:
        raise RunMissing(folder.path, "the run has not finished a step yet")
    snapshot, store = None, folder.store(config)
    if store_exists(store):
        with open_reader(store) as reader:
            snapshot = take_snapshot(reader, config, folder.run(config))
    return History(folder, config, metrics.steps, metrics.evaluations, snapshot)


def values(lines: Sequence[StepLine], name: str) -> list[float]:
    """Give a metric's finite values over some steps."""
    found = (line.metrics.get(name, math.nan) for line in lines)
    return [value for value in found if math.isfinite(value)]


def middle(lines: Sequence[StepLine], name: str) -> float | None:
    """Median of a metric over some steps; None where it was not logged."""
    found = values(lines, name)
    return median(found) if found else None


def total(lines: Sequence[StepLine], name: str) -> float:
    """Sum of a metric over some steps."""
    return sum(values(lines, name))


def of_steps(what: str, value: float, lines: Sequence[StepLine]) -> Evidence:
    """Make evidence of a figure over some steps."""
    return Evidence(what, value, lines[0].step, lines[-1].step)
