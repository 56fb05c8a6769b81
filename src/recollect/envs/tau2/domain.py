"""One domain of tau2: its tasks, its splits, and the state that each task begins in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any

from recollect.envs.tau2.package import Package, check_data
from recollect.envs.tau2.world import World
from recollect.errors import BadEnvironment, UnknownTask

# Initial states that are kept, so that the rows of a group do not make theirs again.
_KEPT = 512
BASE = "base"
EXTRA = "extra"
_PERSONA = re.compile(r"\[PERSONA:[^\]]*\]\Z")

# Tasks that nobody can win, and why. Found by trying; `recollect env check` would show new ones.
UNWINNABLE: Mapping[str, Mapping[str, str]] = {
    "mock": {
        "update_task_with_user_tools": "it wants a notification read and, by its gold, unread"
    },
}


class Domain:
    """A domain with or without a user on the phone (`solo`). Promise: what it gives is not changed.

    Splits are tau2's: train, test, and base, which is both together. Telecom has one more of ours,
    `extra`: its released tasks outside of base, without those that are a test task's problem for
    another persona.
    """

    def __init__(self, package: Package, name: str, solo: bool) -> None:
        check_data(package, name)
        self.package = package
        self.name = name
        self.solo = solo
        self.world = lru_cache(maxsize=_KEPT)(self._world)
        self.task = lru_cache(maxsize=4 * _KEPT)(self._task)

    @cached_property
    def _raw(self) -> dict[str, Any]:
        found = self._read("tasks.json")
        tasks = found["tasks"] if isinstance(found, dict) else found
        return {str(task["id"]): task for task in tasks}

    @cached_property
    def splits(self) -> dict[str, tuple[str, ...]]:
        """Ids of the tasks of each split, in the order of tau2's list of tasks."""
        given = self._read("split_tasks.json")
        found = {}
        for split in ("train", "test", BASE):
            if split in given:
                wanted = set(given[split])
                found[split] = tuple(id for id in self._raw if id in wanted)
                if len(found[split]) < len(wanted):
                    raise BadEnvironment(
                        f"tau2:{self.name}",
                        f"its list of tasks lacks {len(wanted) - len(found[split])} of the "
                        f"{len(wanted)} tasks of split {split}",
                        "Get its data again: git checkout data",
                    )
        if "full" in given:
            taken = {problem_of(id) for id in given.get("test", ())}
            wanted = set(given["full"]) - set(given[BASE])
            found[EXTRA] = tuple(
                id for id in self._raw if id in wanted and problem_of(id) not in taken
            )
        return found

    def _read(self, name: str) -> Any:
        path = self.package.folder(self.name) / name
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            why = f"{path} is not JSON ({error})"
            raise BadEnvironment(f"tau2:{self.name}", why, "Get its data again.") from error

    def _task(self, id: str) -> Any:
        """Give tau2's own task object."""
        raw = self._raw.get(id)
        if raw is None:
            raise UnknownTask("tau2", "task", f"{self.name}:{id}")
        return self.package.tasks.Task.model_validate(raw)

    @cached_property
    def fresh(self) -> World:
        """The domain's state as it is loaded, which every task's is a fork of."""
        return self.load()

    def load(self) -> World:
        """Load the domain's state from its files."""
        return World(self.package.domains[self.name].get_environment(solo_mode=self.solo))

    def _world(self, id: str) -> World:
        """The state that a task begins in. Fork it; never write to it."""
        begin = self.task(id).initial_state
        if begin is None:
            return self.fresh
        world = self.fresh.fork(whole=begin.initialization_data is not None)
        world.prepare(
            begin.initialization_data,
            begin.initialization_actions,
            list(begin.message_history or ()),
        )
        return world

    @cached_property
    def policy(self) -> str:
        """The policy that the agent is to follow."""
        return str(self.fresh.environment.get_policy())

    @cached_property
    def agent_tools(self) -> tuple[Any, ...]:
        """tau2's descriptions of the agent's tools; without a user, the user's are the agent's."""
        environment = self.fresh.environment
        kits = [environment.tools, *([environment.user_tools] if self.solo else [])]
        return tuple(t for kit in kits if kit is not None for t in kit.get_tools().values())

    @cached_property
    def user_tools(self) -> tuple[Any, ...]:
        """tau2's descriptions of the user's tools."""
        kit = self.fresh.environment.user_tools
        return () if kit is None else tuple(kit.get_tools().values())

    @cached_property
    def common_tools(self) -> frozenset[str]:
        """Names of the tools that gold of training tasks uses, for prompts that must be short."""
        names = set()
        for id in self.splits.get("train", self.splits[BASE]):
            criteria = self._raw[id].get("evaluation_criteria") or {}
            names |= {action["name"] for action in criteria.get("actions") or ()}
        return frozenset(names)


def problem_of(id: str) -> str:
    """Name the problem of a task, whoever has it: telecom has one for several personas."""
    return _PERSONA.sub("", id)
