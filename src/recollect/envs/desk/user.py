"""The scripted user: tells what is asked for, repeats itself, and leaves once it was answered."""

from __future__ import annotations

import re

from recollect.envs.desk.chance import Chance
from recollect.envs.desk.goal import Slot

_WORD = re.compile(r"[a-z]+")
_ANSWERS = ("{}.", "It is {}.", "Sure: {}.")

# Real questions are short; reading more would let a runaway sample cost time.
_MOST_READ = 2000


class ScriptedUser:
    """A user who knows the slots of a scenario and cannot see the database.

    Because the user judges nothing, its answers give nothing away: a wrong "done" or a wrong
    refusal ends the conversation exactly like a right one.
    """

    __slots__ = ("_request", "_seed", "_slots")

    def __init__(self, request: str, slots: tuple[Slot, ...], seed: int) -> None:
        self._request = request
        self._slots = slots
        self._seed = seed

    def answer(self, text: str, turn: int) -> str | None:
        """Answer a message, or leave (None) when it asks nothing.

        Known facts that the question names are told; to any other question, and to silence,
        the user repeats the request.
        """
        if not text.strip():
            return self._request
        if "?" not in text:
            return None
        words = set(_WORD.findall(text[:_MOST_READ].lower()))
        known = [s.answer for s in self._slots if not words.isdisjoint(s.words)]
        if not known:
            return self._request
        rng = Chance(self._seed * 1_000_003 + turn)
        return rng.pick(_ANSWERS).format(", ".join(known))
