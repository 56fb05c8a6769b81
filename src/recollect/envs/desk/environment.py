"""The desk environment: which tasks there are, in which split, and how to start one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeVar

from recollect.envs.base import Limits
from recollect.envs.desk.airline import AIRLINE
from recollect.envs.desk.domain import Domain
from recollect.envs.desk.episode import DeskEpisode
from recollect.envs.desk.level import LEVELS
from recollect.envs.desk.retail import RETAIL
from recollect.envs.desk.scenario import VERSION, Scenario, make_scenario
from recollect.envs.desk.telecom import TELECOM
from recollect.envs.desk.toolbox import HANDOVER
from recollect.envs.split import SPLITS, split_of
from recollect.envs.tools import Call
from recollect.errors import BadEnvironment, UnknownTask
from recollect.types import Task

_T = TypeVar("_T", str, int)

DOMAINS: dict[str, Domain] = {"airline": AIRLINE, "retail": RETAIL, "telecom": TELECOM}

# Tasks per domain and level before they are split; more can be had by asking.
SIZE = 1000

# Longest message by far: four lines of records. The checker holds us to it.
_LIMITS = Limits(turns=max(level.turns for level in LEVELS.values()), chars=600)


class Desk:
    """Service-desk tasks of some domains, levels and kinds.

    Narrowing never changes a task: `Desk(["airline"])` has exactly the airline tasks of
    `Desk()`, with equal keys, in the same splits. A larger `size` only adds tasks at the end.
    Tasks whose reward is shaped are others: an attempt at one is worth something else.
    """

    name = "desk"
    splits = SPLITS
    limits = _LIMITS

    def __init__(
        self,
        domains: Sequence[str] | str | None = None,
        levels: Sequence[int] | int | None = None,
        kinds: Sequence[str] | str | None = None,
        without_kinds: Sequence[str] | str = (),
        size: int = SIZE,
        shaped: bool = False,
    ) -> None:
        """Choose from everything there is; None means all of it.

        `kinds` and `without_kinds` name kinds as in `kinds()`, for all domains and levels at
        once or as `airline:cancel` for one domain. `size` counts tasks per domain and level.
        `shaped` gives failed attempts part of the reward (see `scoring.judge`).
        """
        self.domains = _chosen("domain", domains, tuple(DOMAINS))
        self.levels = _chosen("level", levels, tuple(LEVELS))
        self._shaped = shaped
        self.version = f"{VERSION}-shaped" if shaped else VERSION
        self._size = size
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise BadEnvironment("desk", f"size must be a whole number from 1, not {size!r}")
        self._kinds = self._choose_kinds(kinds, without_kinds)
        # Remembers what a pass over one split found out, to make the next one quicker.
        self._known_splits: dict[tuple[str, int, str, int], str] = {}

    def _choose_kinds(
        self, only: Sequence[str] | str | None, without: Sequence[str] | str
    ) -> dict[tuple[str, int], tuple[str, ...]]:
        only = (only,) if isinstance(only, str) else only
        without = (without,) if isinstance(without, str) else without
        known = {f"{d}:{k}" for d in DOMAINS for ks in DOMAINS[d].kinds.values() for k in ks}
        known |= {name.partition(":")[2] for name in known}
        for given in (*(only or ()), *without):
            if given not in known:
                raise UnknownTask(self.name, "kind", str(given), sorted(known))
        chosen = {}
        for d in self.domains:
            for level in self.levels:
                chosen[d, level] = tuple(
                    k
                    for k in DOMAINS[d].kinds[level]
                    if (only is None or k in only or f"{d}:{k}" in only)
                    and k not in without
                    and f"{d}:{k}" not in without
                )
        if not any(chosen.values()):
            raise BadEnvironment("desk", "no kind of task is left by these options")
        return chosen

    def kinds(self, domain: str, level: int) -> tuple[str, ...]:
        """List the kinds of task in play for a domain and level."""
        return self._kinds.get((domain, level), ())

    def kind(self, task: Task) -> str:
        """Name the kind of a task."""
        return self._address(task.id)[2]

    def tasks(self, split: str) -> Iterator[Task]:
        """Yield a split's tasks, domains and levels taking turns, so any prefix is a fair mix."""
        return self.select(split, None, None)

    def select(
        self, split: str, domains: Sequence[str] | None, levels: Sequence[int] | None
    ) -> Iterator[Task]:
        """Yield the tasks of some domains and levels: making all of them takes seconds."""
        if split not in self.splits:
            raise UnknownTask(self.name, "split", split, self.splits)
        places = [
            (domain, level)
            for domain in self.domains
            for level in self.levels
            if (domains is None or domain in domains) and (levels is None or level in levels)
        ]
        return self._enumerate(split, places)

    def _enumerate(self, split: str, places: Sequence[tuple[str, int]]) -> Iterator[Task]:
        seen: set[str] = set()
        for place in range(self._size):
            for domain, level in places:
                all_kinds = DOMAINS[domain].kinds[level]
                number, which = divmod(place, len(all_kinds))
                kind = all_kinds[which]
                if kind not in self._kinds[domain, level]:
                    continue
                address = domain, level, kind, number
                if self._known_splits.get(address, split) != split:
                    continue
                scenario = make_scenario(DOMAINS[domain], level, kind, number)
                found = self._known_splits[address] = split_of(scenario.content)
                if found == split and scenario.content not in seen:
                    seen.add(scenario.content)
                    yield self._task(scenario, number, split)

    def _task(self, scenario: Scenario, number: int, split: str) -> Task:
        domain, level = scenario.domain.name, scenario.level
        id = f"{domain}:{level}:{scenario.kind}:{number}"
        return Task(self.name, id, self.version, scenario.request, domain, split, level)

    def task(self, id: str) -> Task:
        """Make a task again from its id, like `airline:2:seat:17`."""
        _, _, _, number = self._address(id)
        scenario = self.scenario(id)
        return self._task(scenario, number, split_of(scenario.content))

    def scenario(self, id: str) -> Scenario:
        """Make everything about a task from its id: its database, its gold, its facts."""
        return _recent_scenario(*self._address(id))

    def _address(self, id: str) -> tuple[str, int, str, int]:
        domain, level_text, kind, number_text = (*id.split(":", 3), "", "", "")[:4]
        level, number = _number(level_text), _number(number_text)
        if domain not in DOMAINS or kind not in DOMAINS[domain].kinds.get(level or 0, ()):
            raise UnknownTask(self.name, "task", id)
        if level is None or number is None:
            raise UnknownTask(self.name, "task", id)
        return domain, level, kind, number

    def start(self, task: Task, seed: int) -> DeskEpisode:
        """Begin a fresh attempt. The seed decides how the user words its answers."""
        if task.environment != self.name or task.version != self.version:
            raise UnknownTask(self.name, "task", f"{task.environment} {task.version} {task.id}")
        return DeskEpisode(task.id, self.scenario(task.id), seed, self._shaped)

    def content(self, task: Task) -> str:
        """Identify what a task is about, whatever its wording; this decides its split."""
        return self.scenario(task.id).content

    def constants(self, domain: str) -> dict[str, tuple[str, ...]]:
        """Name the agents that always hand over and always refuse."""
        if domain not in DOMAINS:
            raise UnknownTask(self.name, "domain", domain, tuple(DOMAINS))
        return {
            "handover": (Call(HANDOVER, {}).text(), "Done."),
            "refuse": (DOMAINS[domain].constant_refusal,),
        }

    def gold(self, task: Task) -> tuple[str, ...]:
        """Give the ideal agent's side of the conversation; it scores 1.0 with any seed."""
        return self.scenario(task.id).transcript()


# A group of rollouts starts the same task many times over. What is kept here is never changed,
# and making it again would give the same, so nobody can tell but by the clock.
@lru_cache(maxsize=256)
def _recent_scenario(domain: str, level: int, kind: str, number: int) -> Scenario:
    return make_scenario(DOMAINS[domain], level, kind, number)


def _number(text: str) -> int | None:
    """Read a number in its one spelling, so that no task has two ids."""
    if not text.isascii() or not text.isdecimal() or len(text) > 9 or str(int(text)) != text:
        return None
    return int(text)


def _chosen(what: str, given: Sequence[_T] | _T | None, known: tuple[_T, ...]) -> tuple[_T, ...]:
    """Check a choice of some of the known; a single one may be given bare."""
    if given is None:
        return known
    wanted = (given,) if isinstance(given, str | int) else tuple(given)
    for one in wanted:
        if one not in known:
            raise UnknownTask("desk", what, str(one), [str(k) for k in known])
    if not wanted:
        raise BadEnvironment("desk", f"the list of {what}s is empty")
    return tuple(k for k in known if k in wanted)


def make_desk(
    argument: str | None = None,
    domains: Sequence[str] | str | None = None,
    levels: Sequence[int] | int | None = None,
    kinds: Sequence[str] | str | None = None,
    without_kinds: Sequence[str] | str = (),
    size: int = SIZE,
    shaped: bool = False,
) -> Desk:
    """Make the desk for a name: `desk:airline` is one domain, `desk:airline,retail` two."""
    if argument is not None and domains is not None:
        raise BadEnvironment(f"desk:{argument}", "domains are named twice")
    wanted = argument.split(",") if argument is not None else domains
    return Desk(wanted, levels, kinds, without_kinds, size, shaped)
