"""The settings of the manager, under the host's names where it has one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from recollect.errors import InvalidRecord
from recollect.replay.book import Retirement
from recollect.replay.eligibility import Rules
from recollect.replay.eviction import Keeping
from recollect.store.records import Provenance
from recollect.types import Sampling
from recollect.validation import check_count, check_finite

SelectMode: TypeAlias = Literal["argmin", "argmax", "random", "newest"]

_MODES = ("argmin", "argmax", "random", "newest")


@dataclass(frozen=True, slots=True)
class ExperienceSettings:
    """How rows are named, kept and chosen.

    - `environment`, `tokenizer` and the versions are fingerprints: rows with others are never
      replayed. `sampling` says under which temperature log-probs were taken.
    - `success_threshold`: a row succeeds at this reward, unless the host says so itself.
    - `experience_lbound`, `experience_rbound`: successes of a group whose rows are saved, both
      bounds exclusive, None = no bound.
    - `max_trajectories_per_task` rows are kept for a task, best by `exp_select_mode`; a row
      whose entropy is not known counts as the worst under argmin and argmax alike.
    - `max_age` (policy versions) and `max_uses` bound what may be replayed; None = no bound.
    - `retire_rows`: smallest all-success group that retires a task (1 = any, as the original).
      A retired task is due again after `retest_steps`.
    - `missing_log_probs`: what becomes of a success without behaviour log-probs: `drop` (counted)
      or `demo` (stored without any; it then trains with current log-probs, never with 0.0).
    - `deduplicate`: the same tokens sampled again replace the older row.
    """

    environment: str
    tokenizer: str
    environment_version: str = "1"
    reward_version: str = "1"
    sampling: Sampling = field(default_factory=Sampling)
    success_threshold: float = 1.0
    experience_lbound: int | None = 0
    experience_rbound: int | None = 8
    max_trajectories_per_task: int | None = 10
    exp_select_mode: SelectMode = "argmin"
    max_age: int | None = 30
    max_uses: int | None = None
    retire_rows: int = 1
    retest_steps: int = 20
    missing_log_probs: Literal["drop", "demo"] = "drop"
    deduplicate: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.environment or not self.tokenizer:
            name = "tokenizer" if self.environment else "environment"
            raise InvalidRecord(name, "is empty: stored rows mean nothing without it")
        _check_choice("exp_select_mode", self.exp_select_mode, _MODES)
        _check_choice("missing_log_probs", self.missing_log_probs, ("drop", "demo"))
        check_finite("success_threshold", self.success_threshold)
        for name in ("experience_lbound", "experience_rbound", "max_age"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        for name in ("max_trajectories_per_task", "max_uses", "retire_rows", "retest_steps"):
            value = getattr(self, name)
            if value is not None:
                check_count(name, value)
            if value == 0:
                raise InvalidRecord(name, "must be at least 1")
        low, high = self.experience_lbound, self.experience_rbound
        if low is not None and high is not None and high - low < 2:
            problem = f"no number of successes is above {low} and below {high}"
            raise InvalidRecord("experience_rbound", problem)

    @property
    def fingerprints(self) -> Provenance:
        """What a stored row must match exactly to be replayed."""
        return Provenance(self.tokenizer, self.environment_version, self.reward_version)

    @property
    def rules(self) -> Rules:
        """Which rows may be replayed."""
        needs = self.missing_log_probs == "drop"
        return Rules(self.fingerprints, self.max_age, self.max_uses, needs_logprobs=needs)

    @property
    def keeping(self) -> Keeping:
        """Which groups give rows to save."""
        low, high = self.experience_lbound, self.experience_rbound
        return Keeping(low, high, as_rate=False, inclusive=False, successes_only=True)

    @property
    def retirement(self) -> Retirement:
        """When tasks retire, and when they are tried again."""
        return Retirement(True, self.retire_rows, self.retest_steps)


def _check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InvalidRecord(name, f"{value!r} is not one of {', '.join(known)}")
