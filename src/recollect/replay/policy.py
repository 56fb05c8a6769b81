"""The rules of a replayer: who may be drawn, how likely, how much, and what is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from recollect.replay.eligibility import Rules
from recollect.replay.eviction import Keeping
from recollect.replay.weights import Weighing

WeightScale: TypeAlias = Literal["draw", "pool", "off"]


@dataclass(frozen=True, slots=True)
class Amounts:
    """How much is replayed; see the settings of the same names."""

    mix_ratio: float = 0.0
    mix_rows: int = 1
    trains: bool = True  # False: mixed tasks are visited again, their rows stay out
    repair_rows: int = 0
    buffer_updates: int = 0
    buffer_rows: int = 0
    buffer_share: float | None = None  # of `step_rows`; then it decides, not `buffer_rows`
    step_rows: int = 0
    max_per_task: int | None = None
    max_domain_share: float | None = None
    domains_alike: bool = False  # each gives the same to the buffer, whatever its rows weigh
    beta: float = 0.0
    beta_growth: float = 0.0
    weight_scale: WeightScale = "draw"
    needs_advantage: bool = True  # False: whoever trains a row finds its advantage out anew


@dataclass(frozen=True, slots=True)
class Budget:
    """How much is kept; None = everything."""

    rows_per_task: int | None = None
    max_rows: int | None = None
    max_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """All the rules of a replayer, fixed for its run."""

    rules: Rules
    weighing: Weighing
    amounts: Amounts
    keeping: Keeping
    budget: Budget
