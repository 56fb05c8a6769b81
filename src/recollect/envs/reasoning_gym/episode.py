"""One question, one answer, judged by the dataset's verifier."""

from __future__ import annotations

import math

from recollect.envs.base import Opening, Score, Turn, system, user
from recollect.envs.reasoning_gym.answer import Style
from recollect.envs.reasoning_gym.source import Source
from recollect.errors import EpisodeOver
from recollect.types import StopReason, Task

# Verifiers parse what they are given; none of their answers is nearly as long.
_LONGEST = 20_000


class ReasoningEpisode:
    """One attempt at one question.

    `partial` rewards the share of credit that the verifier gives; otherwise only full credit
    counts. Success is full credit. Parts: `credit` is what the verifier gave, `answered` is 1
    where an answer was found, `refused` is 1 where the verifier could not read it.
    """

    def __init__(
        self, task: Task, source: Source, number: int, opening: Opening, style: Style, partial: bool
    ) -> None:
        self.opening = opening
        self._task = task
        self._source = source
        self._number = number
        self._style = style
        self._partial = partial
        self._text: str | None = None
        self._closed = False

    def respond(self, text: str) -> Turn:
        """Take the answer; it is also the end."""
        if self._closed or self._text is not None:
            raise EpisodeOver(self._task.id)
        self._text = text
        return Turn((), StopReason.DONE)

    def score(self) -> Score:
        """Judge the answer. One that the verifier cannot read is wrong."""
        answer = self._style.find(self._text or "")
        credit, refused = 0.0, False
        if answer is not None and len(answer) <= _LONGEST:
            try:
                credit = self._source.score(answer, self._number)
            except Exception:  # somebody else's parser on the agent's text: the reward boundary
                refused = True
        if not math.isfinite(credit):
            credit, refused = 0.0, True
        success = credit >= 1.0
        parts = {
            "credit": credit,
            "answered": float(answer is not None),
            "refused": float(refused),
        }
        return Score(credit if self._partial else float(success), success, parts)

    def close(self) -> None:
        """Refuse an answer from now on."""
        self._closed = True


def opening_of(question: str, style: Style, system_text: str | None) -> Opening:
    """Write what the agent reads: how to answer, then the question."""
    instruction = style.instruction if system_text is None else system_text
    return Opening(((system(instruction),) if instruction else ()) + (user(question),))
