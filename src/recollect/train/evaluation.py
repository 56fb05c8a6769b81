"""Evaluating a policy on held-out tasks, by domain and level, beside what costs no skill."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, zip_longest
from typing import Literal

from recollect.envs.base import Environment, Episode, Limits, OffersConstants
from recollect.envs.floors import floors
from recollect.envs.selection import select_tasks
from recollect.envs.survey import sort_tasks
from recollect.errors import BadEnvironment
from recollect.notes.allocation import RolloutMode, guided_rows
from recollect.notes.inject import Guidance
from recollect.notes.strip import has_notes
from recollect.rollout.calls import CallFailed, GuardedCalls
from recollect.rollout.collector import Collected, Generator
from recollect.rollout.episode import Request
from recollect.rollout.round import Failure
from recollect.telemetry.scores import Score
from recollect.train.metrics import deviation, mean
from recollect.trajectory import Trajectory
from recollect.types import RunId, Sampling, Task, TaskKey

_RUN = RunId("evaluation")
_SEED = 0  # tasks and users are the same at every evaluation, of every run: scores can be paired

TOOLS = "tools"  # the part of a reward that counts gold tool calls, where there is one

_Cells = dict[tuple[str, int], list[Task]]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One score per domain and level, the attempts, and those that failed: they count as lost.

    `guided` are the scores of attempts with notes, where some were made. `attempts` counts all that
    were made; of those made a second time with notes, `trajectories` has the first alone.
    """

    scores: tuple[Score, ...]
    failures: tuple[Failure, ...]
    attempts: int
    trajectories: tuple[Trajectory, ...] = field(default=(), compare=False)  # times differ
    guided: tuple[Score, ...] = ()


@dataclass(frozen=True, slots=True)
class Guiding:
    """Which attempts of an evaluation get notes, and which notes a task gets."""

    mode: Literal["mixed", "all", "both"]
    share: float
    notes: Callable[[Task], Guidance]


class Evaluator:
    """Plays the same held-out tasks whenever it is asked. Its rows are never stored or trained."""

    def __init__(
        self,
        environment: Environment,
        collector: Generator,
        *,
        split: str,
        tasks: int,
        rows: int,
        temperature: float,
        levels: Sequence[int] | None = None,
        domains: Sequence[str] | None = None,
        floor_seconds: float = 120.0,
    ) -> None:
        self.split = split
        self._collector = collector
        self._sampling = Sampling(temperature=temperature)
        self._cells = _choose(environment, split, tasks, levels, domains)
        self._floors = _best_floors(_Chosen(environment, self._cells), split, floor_seconds)
        self._rows = rows
        self._requests = [
            _request(task, row)
            for tasks_here in self._cells.values()
            for task in tasks_here
            for row in range(rows)
        ]

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks that are played, always in this order."""
        return tuple(task for tasks in self._cells.values() for task in tasks)

    @property
    def size(self) -> int:
        """How many attempts an evaluation makes, not counting second ones with notes."""
        return len(self._requests)

    def evaluate(
        self,
        progress: Callable[[int, int], None] = lambda done, failed: None,
        guiding: Guiding | None = None,
    ) -> Evaluation:
        """Score the policy as it is now; with `guiding`, some or all attempts get notes.

        In the mode "both" every attempt is made without notes, which is the score, and those that
        have notes are made again with them; `guided` then is what all tasks would score with the
        notes there are. In the other modes it is the score of the attempts that had some, not of
        those whose notes left no room for an answer.
        """
        if guiding is None:
            collected = self._collector.collect(self._requests, self._sampling, progress)
            scores, rows = self._scores(collected), collected.trajectories
            return Evaluation(scores, collected.failures, self.size, rows)
        requests = self._guided(guiding)
        with_notes = {request.id for request in requests if request.guidance.notes}
        if guiding.mode != "both":
            collected = self._collector.collect(requests, self._sampling, progress)
            without = {row.id for row in collected.trajectories if not has_notes(row)}
            guided = self._scores(_only(collected, with_notes - without))
            scores, rows = self._scores(collected), collected.trajectories
            return Evaluation(scores, collected.failures, self.size, rows, guided)
        bare = self._collector.collect(self._requests, self._sampling, progress)
        again = [request for request in requests if request.id in with_notes]
        more = self._collector.collect(again, self._sampling)
        ids = {request.id for request in self._requests}
        guided = self._scores(_joined(_only(bare, ids - with_notes), more))
        return Evaluation(
            self._scores(bare),
            (*bare.failures, *more.failures),
            self.size + len(again),
            bare.trajectories,
            guided,
        )

    def _guided(self, guiding: Guiding) -> list[Request]:
        """Put notes into the attempts that are to have some."""
        mode: RolloutMode = "mixed" if guiding.mode == "mixed" else "all"
        notes: dict[TaskKey, Guidance] = {}
        found = []
        for request in self._requests:
            task = request.task
            chosen = guided_rows(self._rows, mode, guiding.share, _SEED, 0, task.key)
            if request.row in chosen:
                if task.key not in notes:
                    notes[task.key] = guiding.notes(task)
                request = replace(request, guidance=notes[task.key])  # noqa: PLW2901
            found.append(request)
        return found

    def _scores(self, collected: Collected) -> tuple[Score, ...]:
        """Score every cell that was tried."""
        found = [self._score(cell, tasks, collected) for cell, tasks in self._cells.items()]
        return tuple(score for score in found if score.n)

    def _score(self, cell: tuple[str, int], tasks: list[Task], collected: Collected) -> Score:
        keys = {task.key for task in tasks}
        rows = [t for t in collected.trajectories if t.task in keys]
        failed = sum(f.request.task.key in keys for f in collected.failures)
        rewards = [t.reward.value for t in rows] + [0.0] * failed
        return Score(
            cell[0],
            cell[1],
            len(rewards),
            sum(t.success for t in rows),
            self._floors.get(cell),
            mean(rewards),
            deviation(rewards),
            _tools(rows, failed),
        )


def _tools(rows: Sequence[Trajectory], failed: int) -> float | None:
    """Mean share of gold tool calls made; None where the environment does not say."""
    found = [row.reward.parts.get(TOOLS) for row in rows]
    known = [share for share in found if share is not None]
    if len(known) < len(found) or not found:
        return None
    return sum(known) / (len(known) + failed)


def _only(collected: Collected, ids: Collection[str]) -> Collected:
    return Collected(
        tuple(t for t in collected.trajectories if t.id in ids),
        tuple(f for f in collected.failures if f.request.id in ids),
        collected.turns,
    )


def _joined(one: Collected, other: Collected) -> Collected:
    return Collected(
        (*one.trajectories, *other.trajectories),
        (*one.failures, *other.failures),
        one.turns + other.turns,
    )


class _Chosen:
    """An environment that has the chosen tasks and no others, to play its floors on."""

    def __init__(self, environment: Environment, cells: _Cells) -> None:
        self._environment = environment
        self._tasks = [task for tasks in cells.values() for task in tasks]
        self.name: str = environment.name
        self.version: str = environment.version
        self.domains: tuple[str, ...] = tuple({domain: None for domain, _ in cells})
        self.splits: tuple[str, ...] = environment.splits
        self.limits: Limits = environment.limits

    def tasks(self, split: str) -> Iterator[Task]:
        return iter(self._tasks)

    def start(self, task: Task, seed: int) -> Episode:
        return self._environment.start(task, seed)

    def constants(self, domain: str) -> Mapping[str, tuple[str, ...]]:
        inner = self._environment
        return inner.constants(domain) if isinstance(inner, OffersConstants) else {}


def _each_once(tasks: Iterable[Task]) -> Iterator[Task]:
    """Pass over repeated tasks, as training does: a broken promise is no reason to stop."""
    seen = set[TaskKey]()
    for task in tasks:
        if task.key not in seen:
            seen.add(task.key)
            yield task


def _choose(
    environment: Environment,
    split: str,
    wanted: int,
    levels: Sequence[int] | None,
    domains: Sequence[str] | None = None,
) -> _Cells:
    """Spread the wanted number of tasks as evenly over domains and levels as they allow."""
    found = sort_tasks(_each_once(select_tasks(environment, split, domains, levels)), wanted)
    cells: _Cells = {}
    in_turn = (task for turn in zip_longest(*found.values()) for task in turn if task is not None)
    for task in islice(in_turn, wanted):
        cells.setdefault((task.domain, task.level), []).append(task)
    if not cells:
        only = "" if domains is None else f" of domains {list(domains)}"
        only += "" if levels is None else f" of levels {list(levels)}"
        raise BadEnvironment(
            environment.name,
            f"split {split} has no tasks{only} to evaluate on",
            "See what there is with: recollect env ls. A run without evaluations has eval.every=0.",
        )
    return cells


def _best_floors(
    environment: Environment, split: str, seconds: float
) -> dict[tuple[str, int], float]:
    """Play agents without skill. An environment that fails at it has no known floors."""
    best: dict[tuple[str, int], float] = {}
    call = GuardedCalls(seconds)
    try:
        # All tasks there are: the environment was narrowed down to them.
        for floor in call(lambda: floors(environment, split, most=1_000_000_000)):
            cell = (floor.domain, floor.level)
            best[cell] = max(best.get(cell, 0.0), floor.success)
    except CallFailed:
        return {}
    finally:
        call.close()
    return best


def _request(task: Task, row: int) -> Request:
    return Request.of(task, _RUN, 0, row, policy_version=0, seed=_SEED)
