"""Users without a model, in tiers: what they say first, and how they answer.

Neither can see the databases, so neither gives anything away: a message that asks for nothing ends
the conversation, whether the problem is solved or not. What such users prove is that an agent can
act; a conversation with one is no conversation with a person.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from recollect.envs.tau2.phone import find_calls
from recollect.envs.tau2.world import Answer
from recollect.envs.tools import Call

# Runs a tool of the user's and gives its answer.
Phone = Callable[[Call], Answer]

_MOST_READ = 4000
_MOST_CALLS = 5  # that a user makes of one message
_WORD = re.compile(r"[a-z0-9]+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_CONFIRM = re.compile(r"\b(confirm|proceed|go ahead|yes|agree|continue|correct|okay)\b")
# Words that questions and facts share without being about the same.
_EMPTY = frozenset(
    _WORD.findall(
        "a an and are as at be by can could do does for from have help how i in is it me my of on "
        "or please provide tell that the there this to us was we what when where which who will "
        "with would you your"
    )
)
_OK = "Yes, that is right. Please go ahead."
_NO_IDEA = "I do not know that. That is all I can tell you."


class User(Protocol):
    """Whoever the agent talks to. Promise: the same texts get the same answers."""

    def begin(self, phone: Phone) -> str:
        """Say the first thing."""
        ...

    def answer(self, text: str, phone: Phone) -> str | None:
        """Answer a message of the agent's, using the phone if told to; None to leave."""
        ...


@dataclass(frozen=True, slots=True)
class Scenario:
    """What a user knows, as the task tells it."""

    reason: str
    known: str
    unknown: str
    instructions: str
    tools: tuple[str, ...]  # that the user may use

    @classmethod
    def of(cls, task: Any, tools: Sequence[str]) -> Scenario:
        """Take it out of tau2's task."""
        given = task.user_scenario.instructions
        allowed = tuple(n for n in tools if task.user_tools is None or n in task.user_tools)
        if isinstance(given, str):
            return cls(given, "", "", "", allowed)
        return cls(
            given.reason_for_call,
            given.known_info or "",
            given.unknown_info or "",
            given.task_instructions,
            allowed,
        )


class ScriptUser:
    """Tells everything at once, agrees to everything, does on the phone whatever is named."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario

    def begin(self, phone: Phone) -> str:
        """Tell all there is, in the words of the task."""
        told = self._scenario
        parts = (told.reason, told.known, told.unknown, told.instructions)
        return "\n".join(part.strip() for part in parts if part.strip())

    def answer(self, text: str, phone: Phone) -> str | None:
        """Do what is named and report it; else agree to a question, and leave at anything else."""
        calls = find_calls(text, self._scenario.tools, _MOST_CALLS)
        if calls:
            return "\n".join(f"{call.name}: {phone(call).text}" for call in calls)
        if not text.strip():
            return self.begin(phone)
        return _OK if "?" in text else None


class SlotUser:
    """Tells why it calls, then only what it is asked for and knows; one phone action at a time."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        told = (scenario.known, scenario.reason, scenario.instructions)
        self._facts = tuple(line for text in told for line in _sentences(text))
        self._unknown = _sentences(scenario.unknown)

    def begin(self, phone: Phone) -> str:
        """Tell the reason for the call."""
        return self._scenario.reason.strip()

    def answer(self, text: str, phone: Phone) -> str | None:
        """Do the first thing named; else look for what a question asks; leave at anything else."""
        calls = find_calls(text, self._scenario.tools, 2)
        if calls:
            said = f"{calls[0].name}: {phone(calls[0]).text}"
            return said if len(calls) == 1 else f"{said}\nOne step at a time, please."
        if not text.strip():
            return self.begin(phone)
        if "?" not in text:
            return None
        asked = _words(text[:_MOST_READ])
        if any(asked & _words(line) for line in self._unknown):
            return " ".join(self._unknown)
        known = [line for line in self._facts if asked & _words(line)]
        if known:
            best = max(len(asked & _words(line)) for line in known)
            return " ".join(line for line in known if len(asked & _words(line)) == best)
        return _OK if _CONFIRM.search(text.lower()) else _NO_IDEA


def _sentences(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in _SENTENCE.split(text) if line.strip())


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower())) - _EMPTY


SCRIPTED: dict[str, Callable[[Scenario], User]] = {"script": ScriptUser, "slots": SlotUser}
