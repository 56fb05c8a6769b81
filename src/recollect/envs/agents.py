"""Agents without skill. What they score is the floor under every score worth reporting."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from recollect.canonical import Json
from recollect.envs.base import Message, Opening, Parameter, ToolSpec
from recollect.envs.tools import Call

# What looks like a value worth passing on: ids, names and numbers, without punctuation.
_VALUE = re.compile(r"[A-Za-z0-9]+")


class RandomTool:
    """An agent that calls random tools with values it has read, and stops at random.

    Seeded: equal seeds and equal episodes give equal calls. `stop` is the chance to end at
    each turn, so that the length of its episodes resembles a real agent's.
    """

    def __init__(self, seed: int, stop: float = 0.3) -> None:
        self._seed = seed
        self._stop = stop
        self._rng = random.Random(seed)  # noqa: S311 - chance, not secrecy
        self._tools: tuple[ToolSpec, ...] = ()
        self._values: list[str] = []
        self._acted = False

    def begin(self, opening: Opening) -> None:
        """Start over with the seed and the new opening."""
        self._rng = random.Random(self._seed)  # noqa: S311
        self._tools = opening.tools
        self._values = []
        self._acted = False

    def act(self, messages: Sequence[Message]) -> str | None:
        """Call a random tool, or end with the last thing that a tool said."""
        said = messages[-1].text if messages else ""
        self._values += _VALUE.findall(said)
        if not self._tools or (self._acted and self._rng.random() < self._stop):
            return f"Done. {said.replace('?', '.')}"
        self._acted = True
        spec = self._rng.choice(self._tools)
        return Call(spec.name, {p.name: self._value(p) for p in spec.parameters}).text()

    def _value(self, parameter: Parameter) -> Json:
        if parameter.type == "boolean":
            return self._rng.random() < 0.5
        if parameter.type in ("integer", "number"):
            numbers = [v for v in self._values if v.isascii() and v.isdecimal() and len(v) < 7]
            return int(self._rng.choice(numbers or ["1"]))
        # An id is a word with a digit in it; prefer those, as anybody would.
        ids = [v for v in self._values if any(c.isdecimal() for c in v) and not v.isdecimal()]
        return self._rng.choice(parameter.choices or ids or self._values or ["x"])
