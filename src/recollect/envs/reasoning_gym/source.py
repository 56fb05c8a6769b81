"""One dataset of reasoning-gym at one level: questions by number, judged by its own verifier."""

from __future__ import annotations

import copy
import difflib
import random
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from typing import Any

from recollect.canonical import Json, canonical_json, digest
from recollect.errors import BadEnvironment, MissingExtra
from recollect.randomness import stream_seed

FAMILY = "reasoning_gym"
# It mixes other datasets; our own mixtures keep them apart as domains.
_LEFT_OUT = {"composite"}
# Entries kept in memory, so that the rows of a group do not generate their question again.
_KEPT = 512
_BLOCKS = 16
# Some datasets prepare all their entries when they are made: they are made in blocks of this many.
BLOCK = 250


@dataclass(frozen=True, slots=True)
class Entry:
    """One problem: its text, its answer (None where many are right), and all that came with it."""

    question: str
    answer: str | None
    whole: Any


class Source:
    """Questions of one dataset, with its own settings or at one level of its curriculum.

    Level 0 is the dataset as `settings` make it; level n is the n-th level of its curriculum, to
    which `settings` are added. Promises: entry n is the same in any process and in any order; its
    chance is its own, and nobody's else changes.
    """

    def __init__(self, name: str, level: int, settings: Mapping[str, Json], seed: int) -> None:
        self.name = name
        self.level = level
        self.label = name if not settings and not seed else f"{name}@{_mark(settings, seed)}"
        self._seed = seed
        self._settings = dict(settings)
        self._block = lru_cache(maxsize=_BLOCKS)(self._make_block)
        self.entry = lru_cache(maxsize=_KEPT)(self._entry)
        self._block(0)  # bad settings are told at once

    def _make_block(self, block: int) -> Any:
        """Make the dataset that has entries from block * BLOCK on, with a seed of its own."""
        seed = stream_seed(self._seed, FAMILY, self.name, self.level, block) % 2**31
        return _make(self.name, self.level, {**self._settings, "seed": seed, "size": BLOCK})

    def _entry(self, number: int) -> Entry | None:
        """Generate an entry; None where the dataset finds none for this number."""
        block, place = divmod(number, BLOCK)
        with _own_chance(stream_seed(self._seed, FAMILY, self.name, self.level, block, place)):
            try:
                made = self._block(block)[place]
            except (IndexError, RuntimeError, ValueError):
                # Some give up on a seed, and think less of later ones afterwards: made anew.
                self._block.cache_clear()
                return None
        question, answer = made.get("question"), made.get("answer")
        if not isinstance(question, str) or not question:
            return None
        return Entry(question, None if answer is None else str(answer), made)

    def score(self, answer: str, number: int) -> float:
        """Let the dataset's verifier judge an answer: 0 to 1. Raises whatever it raises."""
        entry = self.entry(number)
        assert entry is not None
        with _own_chance(0):
            dataset = self._block(number // BLOCK)
            return float(dataset.score_answer(answer, copy.deepcopy(entry.whole)))


def dataset_names() -> tuple[str, ...]:
    """List the datasets that reasoning-gym ships."""
    return tuple(sorted(set(_registry().DATASETS) - _LEFT_OUT))


def level_count(name: str) -> int:
    """How many levels a dataset's curriculum has; 0 where it has none."""
    registry = _registry()
    if not registry.has_curriculum(name):
        return 0
    curriculum = registry.create_curriculum(name)
    return max((len(attribute.levels) for attribute in curriculum.attributes.values()), default=0)


def package_version() -> str:
    """The version of reasoning-gym, which is part of every task's key."""
    return version("reasoning-gym")


def _registry() -> Any:
    try:
        # The package fills its table of datasets as it is imported as a whole. What the compiler
        # says of one that it needs (cellpylib) is nobody's business here.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            import reasoning_gym
            from reasoning_gym import factory
    except ImportError as error:
        raise MissingExtra("The environment reasoning_gym", "reasoning") from error
    assert reasoning_gym is not None
    return factory


def _make(name: str, level: int, settings: dict[str, Any]) -> Any:
    registry = _registry()
    known = dataset_names()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        guess = f"Did you mean {near[0]!r}? " if near else ""
        raise BadEnvironment(
            FAMILY, f"has no dataset {name!r}", f"{guess}Known: {', '.join(known)}."
        )
    _refuse_unsteady(name)
    where = f"{FAMILY}:{name}"
    fields = registry.DATASETS[name][1].__dataclass_fields__
    for setting in settings:
        if setting not in fields:
            near = difflib.get_close_matches(setting, fields, n=1)
            guess = f"Did you mean {near[0]!r}? " if near else ""
            listed = ", ".join(field for field in fields if field not in ("seed", "size"))
            raise BadEnvironment(where, f"has no setting {setting!r}", f"{guess}Known: {listed}.")
    try:
        with _own_chance(0):
            if level:
                settings = {**_level_settings(registry, name, level), **settings}
            return registry.create_dataset(name, **settings)
    except BadEnvironment:
        raise
    except Exception as error:  # its own checks are assertions, type errors and worse
        why = f"refuses its settings ({type(error).__name__}: {error})"
        raise BadEnvironment(where, why.rstrip(".")) from error


def _level_settings(registry: Any, name: str, level: int) -> dict[str, Any]:
    most = level_count(name)
    if not 1 <= level <= most:
        why = f"has no level {level}"
        hint = f"Its curriculum has levels 1 to {most}." if most else "It has no curriculum."
        raise BadEnvironment(f"{FAMILY}:{name}", why, hint)
    curriculum = registry.create_curriculum(name)
    curriculum.set_global_level(level - 1)
    made = curriculum.generate_configuration()
    return {field: getattr(made, field) for field in made.__dataclass_fields__}


# Datasets that go through Python's sets of texts: their questions differ from process to process
# unless the hashing of texts is the same in all.
UNSTEADY = frozenset(
    {
        "isomorphic_strings",
        "polynomial_multiplication",
        "ransom_note",
        "word_ladder",
    }
)


# It makes another question when it is asked again, in the same process too.
_UNREPEATABLE = {"knight_swap"}


def _refuse_unsteady(name: str) -> None:
    if name in _UNREPEATABLE:
        why = "makes another question when the same one is asked for again"
        raise BadEnvironment(f"{FAMILY}:{name}", why, "It cannot be trained on reproducibly.")
    if name in UNSTEADY and sys.flags.hash_randomization:
        raise BadEnvironment(
            f"{FAMILY}:{name}",
            "makes other questions in every process, because it goes through sets of texts",
            "Start Python with PYTHONHASHSEED=0 in its environment, now and whenever you resume.",
        )


def _mark(settings: Mapping[str, Json], seed: int) -> str:
    return digest(canonical_json(dict(settings)), seed)[:6]


@contextmanager
def _own_chance(seed: int) -> Iterator[None]:
    """Let datasets that draw from global generators draw from their own, and leave no trace."""
    import numpy as np

    before, before_numpy = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed % 2**32)
    try:
        yield
    finally:
        random.setstate(before)
        np.random.set_state(before_numpy)
