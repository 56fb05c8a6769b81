"""How an agent is asked to answer, and where in its text the answer is."""

from __future__ import annotations

from dataclasses import dataclass

_OPEN, _CLOSE = "<answer>", "</answer>"


@dataclass(frozen=True, slots=True)
class Style:
    """A way to answer: what the agent is told, and whether the answer stands in tags."""

    instruction: str
    in_tags: bool

    def find(self, text: str) -> str | None:
        """Find the answer in a text: the last one in tags, or all of it; None if there is none."""
        if not self.in_tags:
            return text.strip() or None
        before, opened, behind = text.rpartition(_OPEN)
        answer, closed, _ = behind.partition(_CLOSE)
        if not opened or not closed:
            # The last one may be left open, behind one that is whole.
            return self.find(before) if opened else None
        return answer.strip() or None

    def write(self, answer: str) -> str:
        """Write an answer as an ideal agent would."""
        return f"{_OPEN}{answer}{_CLOSE}" if self.in_tags else answer


STYLES = {
    "tags": Style(
        "Solve the problem. You may think first. Then write the final answer, and nothing else, "
        f"between {_OPEN} and {_CLOSE}.",
        in_tags=True,
    ),
    "plain": Style("Answer with the result only, without any other words.", in_tags=False),
}
