"""What a model did on every domain, attempt by attempt, and the file that keeps it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from recollect.canonical import canonical_json, strict_json
from recollect.continual.matrix import Measure, Undefined
from recollect.continual.reliability import pass_at_k, pass_hat_k
from recollect.errors import BadFile


@dataclass(frozen=True, slots=True)
class TaskResult:
    """All attempts at one task. Failed episodes are in it as reward 0 and no success.

    `tools` are shares of gold tool calls made, None where the environment does not say.
    """

    task: str
    level: int
    rewards: tuple[float, ...]
    successes: tuple[bool, ...]
    tools: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class DomainResult:
    """A domain's tasks, always the same and in the same order, so that models can be paired.

    `floor` is the success of the best agent without skill. `kl` is the mean over the attempts'
    tokens of KL(model || base), in nats per token; None where it was not measured.
    """

    domain: str
    tasks: tuple[TaskResult, ...]
    floor: float | None = None
    kl: float | None = None

    @property
    def attempts(self) -> int:
        """How many attempts were made."""
        return sum(len(task.rewards) for task in self.tasks)

    @property
    def rewards(self) -> list[float]:
        """All rewards."""
        return [reward for task in self.tasks for reward in task.rewards]

    @property
    def success(self) -> float:
        """Share of attempts that succeeded."""
        won = [won for task in self.tasks for won in task.successes]
        return sum(won) / len(won)

    @property
    def tools(self) -> float | None:
        """Tool accuracy: mean share of gold tool calls made."""
        found = [share for task in self.tasks for share in task.tools or ()]
        return sum(found) / len(found) if len(found) == self.attempts else None

    def by_task(self, score: str) -> list[float]:
        """Mean score of each task, by `reward` or `success`."""
        rows = [task.rewards if score == "reward" else task.successes for task in self.tasks]
        return [sum(row) / len(row) for row in rows]

    def pass_at(self, k: int) -> Measure:
        """pass@k: at least one of k attempts succeeds."""
        return pass_at_k(self._won, self._each, k) if self._each else _UNEVEN

    def pass_hat(self, k: int) -> Measure:
        """pass^k: all of k attempts succeed."""
        return pass_hat_k(self._won, self._each, k) if self._each else _UNEVEN

    @property
    def _won(self) -> list[int]:
        return [sum(task.successes) for task in self.tasks]

    @property
    def _each(self) -> int:
        sizes = {len(task.successes) for task in self.tasks}
        return sizes.pop() if len(sizes) == 1 else 0


_UNEVEN = Undefined("tasks have different numbers of attempts")


@dataclass(frozen=True, slots=True)
class Examination:
    """One model on all domains: `model` is base, 0, 1, ..., joint, or single-DOMAIN."""

    model: str
    split: str
    temperature: float
    domains: tuple[DomainResult, ...]

    def of(self, domain: str) -> DomainResult:
        """Give the result of one domain."""
        return next(result for result in self.domains if result.domain == domain)


def write_examination(path: Path, found: Examination) -> None:
    """Write a file that is there as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}")
    content: Any = asdict(found)
    with draft.open("w", encoding="utf-8") as file:
        file.write(canonical_json(_listed(content)))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def read_examination(path: Path) -> Examination:
    """Read such a file; BadFile where it is not one."""
    try:
        content: Any = strict_json(path.read_bytes())
        domains = tuple(_domain(each) for each in content["domains"])
        split, temperature = str(content["split"]), float(content["temperature"])
        return Examination(str(content["model"]), split, temperature, domains)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadFile(path, f"is no examination ({error})") from error


def _domain(content: Any) -> DomainResult:
    tasks = tuple(
        TaskResult(
            str(task["task"]),
            int(task["level"]),
            tuple(float(reward) for reward in task["rewards"]),
            tuple(bool(won) for won in task["successes"]),
            None if task["tools"] is None else tuple(float(share) for share in task["tools"]),
        )
        for task in content["tasks"]
    )
    return DomainResult(str(content["domain"]), tasks, content["floor"], content["kl"])


def _listed(value: Any) -> Any:
    """Turn tuples into lists, all the way down: JSON knows no others."""
    if isinstance(value, dict):
        return {name: _listed(item) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_listed(item) for item in value]
    return value
