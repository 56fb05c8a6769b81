"""What the agent told the user: facts found in its statements, questions left aside."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_SENTENCE = re.compile(r"[^.!?\n]+[.!?\n]?")


@dataclass(frozen=True, slots=True)
class Fact:
    """Something the user must hear, like (day, mon). Values are lower case."""

    kind: str
    value: str


def one_of(*words: str) -> re.Pattern[str]:
    """Find any of the words, as whole words in any case."""
    return re.compile(rf"\b({'|'.join(words)})\b", re.IGNORECASE)


MONEY = re.compile(r"\$\s?(\d{1,9})\b|\b(\d{1,9})\s?(?:dollars?|usd)\b", re.IGNORECASE)


def statements(text: str) -> str:
    """Keep the sentences that state something: to ask about a fact is not to tell it."""
    return "\n".join(s for s in _SENTENCE.findall(text) if not s.endswith("?"))


def share_told(
    required: Iterable[Fact], stated: str, patterns: Mapping[str, re.Pattern[str]]
) -> float:
    """Give the share of the required facts that was told, 1.0 if none is required.

    A kind counts only if exactly its required values were told: an agent that recites every
    day of the week has not said which one it is.
    """
    wanted: dict[str, set[str]] = {}
    for fact in required:
        wanted.setdefault(fact.kind, set()).add(fact.value)
    if not wanted:
        return 1.0
    told = sum(_values(patterns[kind], stated) == values for kind, values in wanted.items())
    return told / len(wanted)


def _values(pattern: re.Pattern[str], stated: str) -> set[str]:
    return {
        next(group for group in match.groups() if group).lower()
        for match in pattern.finditer(stated)
    }
