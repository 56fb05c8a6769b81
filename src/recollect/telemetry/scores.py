"""Evaluation scores: one cell per domain and level, and how cells add up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from recollect.notes.credit import wilson
from recollect.telemetry.names import within


@dataclass(frozen=True, slots=True)
class Score:
    """What was reached on `n` attempts of one domain and level, beside what costs no skill.

    `level` None means all levels of the domain. `floor` is the success rate of the best agent
    without skill on the same tasks. `reward` and `reward_std` are mean and standard deviation
    over the attempts, `tools` is the mean share of gold tool calls that were made. None means
    not known, never 0.
    """

    domain: str
    level: int | None
    n: int
    successes: int
    floor: float | None = None
    reward: float | None = None
    reward_std: float | None = None
    tools: float | None = None

    def __post_init__(self) -> None:
        assert 0 <= self.successes <= self.n, f"{self.successes} successes of {self.n}"

    @property
    def success(self) -> float | None:
        """Share of attempts that succeeded; None without attempts."""
        return self.successes / self.n if self.n else None

    def interval(self) -> tuple[float, float] | None:
        """95 % interval of the success rate (Wilson); None without attempts."""
        return wilson(self.successes, self.n)


def pool(scores: Sequence[Score], domain: str = "all") -> Score:
    """Add cells up to one score in which every attempt counts the same."""
    n = sum(score.n for score in scores)
    return Score(
        domain,
        None,
        n,
        sum(score.successes for score in scores),
        _mean((score.n, score.floor) for score in scores),
        _mean((score.n, score.reward) for score in scores),
        _spread(scores),
        _mean((score.n, score.tools) for score in scores),
    )


def by_domain(scores: Sequence[Score]) -> list[Score]:
    """Add each domain's levels up, in the order in which the domains first appear."""
    cells: dict[str, list[Score]] = {}
    for score in scores:
        cells.setdefault(score.domain, []).append(score)
    return [pool(found, domain) for domain, found in cells.items()]


def score_metrics(scores: Sequence[Score], guided: Sequence[Score] = ()) -> dict[str, float]:
    """Spell scores as documented `eval/` metrics; what is not known is left out.

    `guided` are those of attempts with notes.
    """
    total = pool(scores)
    found: dict[str, float | None] = {
        "eval/success": total.success,
        "eval/reward": total.reward,
        "eval/floor": total.floor,
        "eval/tasks": float(total.n),
    }
    for score in by_domain(scores):
        found[within("eval/success", score.domain)] = score.success
        found[within("eval/reward", score.domain)] = score.reward
    if guided:
        found["eval/guided_success"] = pool(guided).success
        found["eval/guided_tasks"] = float(pool(guided).n)
        for score in by_domain(guided):
            found[within("eval/guided_success", score.domain)] = score.success
    for score in scores:
        if score.level is not None:
            found[within("eval/success", score.domain, score.level)] = score.success
    return {name: value for name, value in found.items() if value is not None}


def _mean(parts: Iterable[tuple[int, float | None]]) -> float | None:
    """Mean over attempts, None as soon as one cell with attempts does not know its own."""
    count, total = 0, 0.0
    for n, value in parts:
        if not n:
            continue
        if value is None:
            return None
        count += n
        total += n * value
    return total / count if count else None


def _spread(scores: Sequence[Score]) -> float | None:
    """Standard deviation over all attempts: within the cells and between them."""
    mean = _mean((score.n, score.reward) for score in scores)
    within_cells = _mean(
        (score.n, None if score.reward_std is None else score.reward_std**2) for score in scores
    )
    if mean is None or within_cells is None:
        return None
    between = _mean(
        (score.n, None if score.reward is None else (score.reward - mean) ** 2) for score in scores
    )
    return None if between is None else math.sqrt(within_cells + between)
