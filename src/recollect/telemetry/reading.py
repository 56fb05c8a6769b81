"""Reading metrics.jsonl back, for plots, listings and reports.

Strict, with one exception: a kill may cut the last line short, and a line without its end is
left out. Anything else that is not as we write it raises BadFile with the line's number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from recollect.canonical import Json, strict_json
from recollect.errors import BadFile
from recollect.telemetry.scores import Score
from recollect.telemetry.sinks.jsonl import FILE_NAME

Floats: TypeAlias = npt.NDArray[np.float64]

_NAN = float("nan")


@dataclass(frozen=True, slots=True)
class StepLine:
    """One step's metrics; NaN where a number was not finite. `time` is Unix time in seconds."""

    step: int
    steps: int
    time: float
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class EvaluationLine:
    """One evaluation: its metrics, the scores they were made from, how long it took if known."""

    step: int
    split: str
    time: float
    metrics: Mapping[str, float]
    scores: tuple[Score, ...]
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """One metric over a run; all arrays have the same length.

    `rollouts` counts what was generated up to the point and `seconds` the time since the
    run's first line, as written: breaks between a kill and a resume are in it.
    """

    name: str
    steps: Floats
    values: Floats
    rollouts: Floats
    seconds: Floats


@dataclass(frozen=True, slots=True)
class RunMetrics:
    """Everything in one metrics.jsonl, in the order it was written."""

    path: Path
    steps: tuple[StepLine, ...]
    evaluations: tuple[EvaluationLine, ...]
    torn: bool  # a last line without its end was left out

    @property
    def last(self) -> StepLine | None:
        """The newest step, None before the first."""
        return self.steps[-1] if self.steps else None

    def names(self) -> list[str]:
        """Every metric that occurs, sorted."""
        return sorted({name for line in self._lines() for name in line.metrics})

    def series(self, name: str, split: str | None = None) -> Series:
        """One metric's points; empty if it was never logged.

        Evaluations count if they are of `split`, by default the split evaluated first.
        """
        rollouts = self._rollouts()
        found = [
            (line.step, line.metrics[name], rollouts.get(line.step, _NAN), line.time)
            for line in self._lines(split)
            if name in line.metrics
        ]
        columns = np.array(found, dtype=np.float64).reshape(-1, 4).T
        return Series(name, columns[0], columns[1], columns[2], columns[3] - self._began())

    def _lines(self, split: str | None = None) -> Iterator[StepLine | EvaluationLine]:
        wanted = self.evaluations[0].split if split is None and self.evaluations else split
        yield from self.steps
        yield from (line for line in self.evaluations if line.split == wanted)

    def _began(self) -> float:
        firsts: list[StepLine | EvaluationLine] = [*self.steps[:1], *self.evaluations[:1]]
        return min((line.time for line in firsts), default=0.0)

    def _rollouts(self) -> dict[int, float]:
        total, found = 0.0, {0: 0.0}
        for line in self.steps:
            total += line.metrics.get("rollout/rows", 0.0)
            total = line.metrics.get("rollout/rows_total", total)
            found[line.step] = total
        return found


def read_metrics(path: Path | str) -> RunMetrics:
    """Read a run's folder or its metrics.jsonl; BadFile if it is missing or damaged."""
    path = Path(path)
    file = path / FILE_NAME if path.is_dir() else path
    try:
        data = file.read_bytes()
    except OSError as error:
        hint = "Name a run's folder; list runs with: recollect runs ls"
        raise BadFile(file, f"cannot be read ({error.strerror})", hint) from None
    whole, _, tail = data.rpartition(b"\n")
    steps: list[StepLine] = []
    evaluations: list[EvaluationLine] = []
    newest = -1
    for number, text in enumerate(whole.split(b"\n") if whole else [], start=1):
        line = _parse(file, number, text)
        if line.step < newest:
            raise BadFile(file, f"line {number}: step {line.step} follows step {newest}")
        newest = line.step
        if isinstance(line, StepLine):
            steps.append(line)
        else:
            evaluations.append(line)
    return RunMetrics(file, tuple(steps), tuple(evaluations), torn=bool(tail))


def _parse(file: Path, number: int, text: bytes) -> StepLine | EvaluationLine:
    try:
        return _line(strict_json(text))
    except (ValueError, KeyError, TypeError, AssertionError, OverflowError) as error:
        why = f"{type(error).__name__}: {error}"
        raise BadFile(file, f"line {number} is not a line of metrics ({why})") from None


def _line(line: Json) -> StepLine | EvaluationLine:
    if not isinstance(line, dict):
        raise TypeError("not an object")
    step, when, metrics = _integer(line["step"]), _number(line["time"]), _metrics(line["metrics"])
    if line["kind"] == "step":
        return StepLine(step, _integer(line["steps"]), when, metrics)
    if line["kind"] != "evaluation":
        raise ValueError(f"unknown kind {line['kind']!r}")
    scores = line["scores"]
    if not isinstance(scores, list):
        raise TypeError("scores is not a list")
    cells = tuple(_score(score) for score in scores)
    seconds = _optional(line.get("seconds"))
    return EvaluationLine(step, str(line["split"]), when, metrics, cells, seconds)


def _metrics(value: Json) -> dict[str, float]:
    if not isinstance(value, dict):
        raise TypeError("metrics is not an object")
    return {name: _number(number) for name, number in value.items()}


def _score(value: Json) -> Score:
    if not isinstance(value, dict):
        raise TypeError("a score is not an object")
    level = value["level"]
    return Score(
        str(value["domain"]),
        None if level is None else _integer(level),
        _integer(value["n"]),
        _integer(value["successes"]),
        _optional(value["floor"]),
        _optional(value["reward"]),
        _optional(value["reward_std"]),
        _optional(value.get("tools")),
    )


def _integer(value: Json) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not a whole number")
    return value


def _number(value: Json) -> float:
    return _NAN if value is None else float(_real(value))


def _optional(value: Json) -> float | None:
    return None if value is None else float(_real(value))


def _real(value: Json) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return value
