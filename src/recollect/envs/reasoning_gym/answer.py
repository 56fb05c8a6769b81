"""How an agent is asked to answer, and where in its text the answer is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

_OPEN, _CLOSE = "<answer>", "</answer>"
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Style:
    """A way to answer: what the agent is told, and where its answer stands."""

    instruction: str
    where: Literal["tags", "all", "number"]

    def find(self, text: str) -> str | None:
        """Find the answer: the last in tags, the last number, or all of the text; None if none."""
        if self.where == "all":
            return text.strip() or None
        if self.where == "number":
            return next(reversed(_NUMBER.findall(text)), None)
        # The last one may be left open, behind one that is whole.
        inside, closed, _ = text.rpartition(_CLOSE)
        _, opened, behind = inside.rpartition(_OPEN)
        # Of several ends behind one beginning the first counts.
        answer = behind.partition(_CLOSE)[0] if opened and closed else ""
        return answer.strip() or None

    def write(self, answer: str) -> str:
        """Write an answer as an ideal agent would."""
        return f"{_OPEN}{answer}{_CLOSE}" if self.where == "tags" else answer


STYLES = {
    "tags": Style(
        "Solve the problem. You may think first. Then write the final answer, and nothing else, "
        f"between {_OPEN} and {_CLOSE}.",
        where="tags",
    ),
    "plain": Style("Answer with the result only, without any other words.", where="all"),
    "number": Style("Answer in one short sentence that ends with the number.", where="number"),
}
