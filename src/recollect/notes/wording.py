"""How an attempt is written down as a lesson: a worked example that can be copied from.

A small model learns to use a note by copying, so the example has the agent's own turns word for
word, in the form in which they are to be written, and what went wrong stands before them: what
stands last is what is copied.
"""

from __future__ import annotations

from collections.abc import Sequence

_MOST_TURNS = 12
# Of a turn, and of a request: the longest example must fit into a note (`note.MOST_CHARS`).
_MOST_CHARS = 560


def example(request: str, turns: Sequence[str], instead_of: str = "") -> str:
    """Write a worked example: the request, what not to answer, and the turns that solved it."""
    lines = [f"Request: {_short(request)}"]
    if instead_of:
        lines.append(f"Not: {_short(instead_of)}")
    return "\n".join([*lines, *_numbered(turns)])


def warning(request: str, turns: Sequence[str]) -> str:
    """Write down what did not solve a task that nobody has solved yet."""
    return "\n".join([f"Request: {_short(request)}", "This failed:", *_numbered(turns)])


def first_difference(worst: Sequence[str], best: Sequence[str]) -> str:
    """Give the first turn in which a bad attempt parts from a good one; empty if it just ended."""
    for bad, good in zip(worst, best, strict=False):  # the shorter one decides
        if bad.strip() != good.strip():
            return bad.strip()
    return ""


def _numbered(turns: Sequence[str]) -> list[str]:
    return [f"{number}: {_short(turn)}" for number, turn in enumerate(turns[:_MOST_TURNS], 1)]


def _short(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _MOST_CHARS else text[:_MOST_CHARS] + "..."
