"""The score matrix: how well each domain is done after each stage, before all, and by others.

R[i][j] is the score on domain j after training on domains 0 to i. Below it stand the scores of the
untouched base b[j], of a model trained on j alone S[j], and of one trained on all at once J[j].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Undefined:
    """A figure that cannot be had, and why. It is never shown as 0."""

    why: str

    def __str__(self) -> str:
        return f"n/a ({self.why})"


Measure: TypeAlias = float | Undefined
Scores: TypeAlias = tuple[float | None, ...]  # by domain; None = not measured


@dataclass(frozen=True, slots=True)
class ScoreMatrix:
    """R by stage and domain, with the rows that are compared with it where they were measured.

    `stages` holds one row for each stage that is done, at most as many as there are domains.
    """

    domains: tuple[str, ...]
    stages: tuple[Scores, ...]
    base: Scores | None = None
    single: Scores | None = None
    joint: Scores | None = None

    def __post_init__(self) -> None:
        assert len(self.stages) <= len(self.domains), "more stages than domains"
        for row in (*self.stages, self.base, self.single, self.joint):
            assert row is None or len(row) == len(self.domains), "a row misses a domain"

    def score(self, stage: int, domain: int) -> Measure:
        """Give R[stage][domain]."""
        if not 0 <= stage < len(self.stages):
            return Undefined(f"stage {stage} is not done")
        found = self.stages[stage][domain]
        return Undefined(f"R[{stage}][{domain}] was not measured") if found is None else found

    def other(self, name: str, domain: int) -> Measure:
        """Give the score of `base`, `single` or `joint` on a domain."""
        row: Scores | None = getattr(self, name)
        if row is None or row[domain] is None:
            return Undefined(f"{_NAMES[name]} was not measured on {self.domains[domain]}")
        found = row[domain]
        assert found is not None
        return found


_NAMES = {
    "base": "the base model",
    "single": "a model trained on one domain alone",
    "joint": "the jointly trained model",
}


def mean_of(values: Sequence[Measure], of_none: str) -> Measure:
    """Mean; undefined if any value is, or for the reason `of_none` if there is no value."""
    if not values:
        return Undefined(of_none)
    total = 0.0
    for value in values:
        if isinstance(value, Undefined):
            return value
        total += value
    return total / len(values)


def minus(first: Measure, second: Measure) -> Measure:
    """Subtract; undefined if either side is."""
    if isinstance(first, Undefined):
        return first
    return second if isinstance(second, Undefined) else first - second
