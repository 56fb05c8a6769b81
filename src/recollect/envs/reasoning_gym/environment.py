"""Reasoning problems without end: which tasks there are, in which split, and how to start one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from recollect.canonical import Json, digest
from recollect.envs.base import Limits
from recollect.envs.reasoning_gym.answer import STYLES, Style
from recollect.envs.reasoning_gym.episode import ReasoningEpisode, opening_of
from recollect.envs.reasoning_gym.source import (
    FAMILY,
    Entry,
    Source,
    dataset_names,
    package_version,
)
from recollect.envs.rotation import in_turn
from recollect.envs.split import SPLITS, split_of
from recollect.errors import BadEnvironment, UnknownTask
from recollect.types import Task

# Raised when our instructions or scoring change; reasoning-gym's version stands before it.
_REVISION = 1
SIZE = 500
# Seeds after which a dataset is thought to have nothing to ask.
_TRIED = 20
# Training questions among which the commonest answer is looked for.
_COUNTED = 200
# Questions are a few hundred characters; the longest that any dataset makes by default is 7,000.
_CHARS = 60_000
_ID = re.compile(r"([\w@]+):([0-9]{1,3}):([0-9]{1,9})")


class ReasoningGym:
    """Questions of one or several datasets, at their own settings or at levels of difficulty.

    A dataset's questions are numbered, each number a seed of its own, and a question's text
    decides its split: no seed and no question is in two splits. A larger `size` only adds tasks,
    and a dataset's tasks are the same alone and in a mixture.
    """

    name = FAMILY
    splits = SPLITS
    limits = Limits(turns=1, chars=_CHARS)

    def __init__(
        self,
        sources: Sequence[Source],
        sizes: Mapping[str, int],
        style: Style = STYLES["tags"],
        system_text: str | None = None,
        partial: bool = True,
    ) -> None:
        """Take made sources, which `make_reasoning_gym` chooses by name.

        `sizes` say how many numbers each dataset (by name) draws questions from, per level.
        """
        self._sources = {(source.label, source.level): source for source in sources}
        self._sizes = dict(sizes)
        self._style = style
        self._system_text = system_text
        self._partial = partial
        self.domains = tuple(dict.fromkeys(source.name for source in sources))
        ways = digest(style.instruction, system_text or "", str(system_text is None), str(partial))
        self.version = f"{package_version()}-{_REVISION}-{ways[:6]}"

    def tasks(self, split: str) -> Iterator[Task]:
        """Yield a split's questions; those of different datasets and levels take turns."""
        if split not in self.splits:
            raise UnknownTask(self.name, "split", split, self.splits)
        yield from in_turn(self._line(source, split) for source in self._sources.values())

    def _line(self, source: Source, split: str) -> Iterator[Task]:
        seen: set[str] = set()
        for number in range(self._sizes[source.name]):
            entry = source.entry(number)
            if entry is None or split_of(entry.question) != split or entry.question in seen:
                continue
            seen.add(entry.question)
            yield self._task(source, number, entry.question)

    def _task(self, source: Source, number: int, question: str) -> Task:
        return Task(
            self.name,
            f"{source.label}:{source.level}:{number}",
            self.version,
            question,
            source.name,
            split_of(question),
            source.level,
        )

    def task(self, id: str) -> Task:
        """Make the task of an id such as `gcd:0:17`."""
        source, number, entry = self._find(id)
        return self._task(source, number, entry.question)

    def start(self, task: Task, seed: int) -> ReasoningEpisode:
        """Begin an attempt; there is nothing left to chance in it."""
        source, number, entry = self._find(task.id)
        if self._task(source, number, entry.question).key != task.key:
            raise UnknownTask(self.name, "task", task.id)
        opening = opening_of(entry.question, self._style, self._system_text)
        return ReasoningEpisode(task, source, number, opening, self._style, self._partial)

    def _find(self, id: str) -> tuple[Source, int, Entry]:
        match = _ID.fullmatch(id)
        source = self._sources.get((match[1], int(match[2]))) if match else None
        entry = source.entry(int(match[3])) if match and source else None
        if match is None or source is None or entry is None:
            raise UnknownTask(self.name, "task", id)
        return source, int(match[3]), entry

    def answer(self, task: Task) -> str | None:
        """Give the dataset's own answer; None where it knows only how to verify one."""
        return self._find(task.id)[2].answer


class ReasoningGymWithGold(ReasoningGym):
    """Datasets that all know the answers to their questions."""

    def gold(self, task: Task) -> tuple[str, ...]:
        """Give the right answer, as it should be written."""
        return (self._style.write(self.answer(task) or ""),)

    def constants(self, domain: str) -> dict[str, tuple[str, ...]]:
        """Name the training questions' commonest answer: numbers without a common divisor abound.

        A policy that finds it out has learnt something, but not to calculate.
        """
        lines = [self._line(source, "train") for source in self._named(domain)]
        tasks = islice(in_turn(lines), _COUNTED)
        answers = Counter(self.answer(task) or "" for task in tasks)
        ((commonest, _),) = answers.most_common(1) or [("", 0)]
        return {"commonest": (self._style.write(commonest),)}

    def _named(self, domain: str) -> list[Source]:
        return [source for source in self._sources.values() if source.name == domain]


def make_reasoning_gym(
    argument: str = "",
    *,
    curriculum: Sequence[int] | int = 0,
    settings: Mapping[str, Json] | None = None,
    weights: Mapping[str, float] | None = None,
    size: int = SIZE,
    seed: int = 0,
    answer: str = "tags",
    system_text: str | None = None,
    partial: bool = True,
) -> ReasoningGym:
    """Make the environment for a name like `reasoning_gym:gcd` or `reasoning_gym:gcd,lcm`.

    `curriculum` names levels of the datasets' curricula, 1 the easiest; 0 is a dataset's own
    default. `settings` are a dataset's own, by dataset (`{"gcd": {"max_value": 50}}`). A dataset
    with weight 2 has twice the tasks. `seed` makes other questions of the same kind. `answer` is
    tags, plain (all of the text) or number (the last one in it); `system_text` replaces our
    instruction.
    """
    names = [name for name in argument.split(",") if name]
    if not names:
        hint = f"Like {FAMILY}:gcd or {FAMILY}:gcd,lcm. Known: {', '.join(dataset_names())}."
        raise BadEnvironment(FAMILY, "needs the name of a dataset after a colon", hint)
    if len(set(names)) != len(names):
        raise BadEnvironment(FAMILY, "a dataset is named twice", "Use weights to have more of it.")
    if answer not in STYLES:
        raise BadEnvironment(FAMILY, f"there is no way to answer {answer!r}", _known(STYLES))
    _check_keys("settings", settings or {}, names)
    _check_keys("weights", weights or {}, names)
    levels = [curriculum] if isinstance(curriculum, int) else list(dict.fromkeys(curriculum))
    sources = [
        Source(name, level, _settings_of(settings or {}, name), seed)
        for name in names
        for level in levels
    ]
    sizes = {name: _size(size, (weights or {}).get(name, 1.0)) for name in names}
    known = all(_knows_answers(source) for source in sources)
    kind = ReasoningGymWithGold if known else ReasoningGym
    return kind(sources, sizes, STYLES[answer], system_text, partial)


def _knows_answers(source: Source) -> bool:
    entries = (source.entry(number) for number in range(_TRIED))
    first = next((entry for entry in entries if entry is not None), None)
    if first is None:
        why = f"makes no question out of {_TRIED} seeds with these settings"
        raise BadEnvironment(f"{FAMILY}:{source.name}", why)
    return first.answer is not None


def _known(names: Mapping[str, object]) -> str:
    return f"Known: {', '.join(names)}."


def _check_keys(option: str, given: Mapping[str, object], names: Sequence[str]) -> None:
    if not isinstance(given, Mapping):
        raise BadEnvironment(FAMILY, f"{option} must map datasets to values")
    for name in given:
        if name not in names:
            why = f"{option} speak of {name!r}, which is not part of the environment"
            raise BadEnvironment(FAMILY, why, f"Its datasets: {', '.join(names)}.")


def _settings_of(settings: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    found = settings.get(name, {})
    if not isinstance(found, dict):
        raise BadEnvironment(f"{FAMILY}:{name}", "its settings must be names with values")
    for own in ("seed", "size"):
        if own in found:
            why = f"{own} is not one of a dataset's settings here"
            raise BadEnvironment(f"{FAMILY}:{name}", why, f"Use the option {own} instead.")
    return found


def _size(size: int, weight: float) -> int:
    if not isinstance(size, int) or size < 1 or not isinstance(weight, int | float) or weight <= 0:
        raise BadEnvironment(FAMILY, "size must be at least 1 and weights above 0")
    return max(1, round(size * weight))
