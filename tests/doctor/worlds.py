"""Worlds for runs that are to go well, or wrong in a known way."""

from __future__ import annotations

from recollect.envs.base import Opening, Turn
from train.worlds import Absurd, Letters, LettersEpisode, Same

__all__ = ["Absurd", "EarlyLetters", "Failing", "Half", "Hopeless", "Jackpot", "Letters", "Narrow"]
__all__ += ["Same"]


def share(text: str, good: str) -> float:
    """The share of good letters among the letters of a text."""
    letters = [c for c in text.lower() if "a" <= c <= "z"]
    return sum(c in good for c in letters) / max(1, len(letters))


class EarlyLettersEpisode(LettersEpisode):
    """The share of letters from a to m in one answer: soon learnt."""

    def reply(self, text: str) -> Turn:
        self.reward = share(text, "abcdefghijklm")
        return self.end()


class EarlyLetters(Letters):
    """A reward that grows within a few steps."""

    episode = EarlyLettersEpisode
    threshold = 0.75


class Half(EarlyLetters):
    """Half of it is a success, which many attempts reach."""

    threshold = 0.4


class HopelessEpisode(LettersEpisode):
    def reply(self, text: str) -> Turn:
        self.reward = 0.0
        return self.end()


class Hopeless(Letters):
    """Nothing is ever worth anything."""

    episode = HopelessEpisode


class NarrowEpisode(LettersEpisode):
    def reply(self, text: str) -> Turn:
        self.reward = share(text, "abc")
        return self.end()


class Narrow(Letters):
    """A few letters count, and nothing is ever enough."""

    episode = NarrowEpisode
    threshold = 2.0


class JackpotEpisode(EarlyLettersEpisode):
    def reply(self, text: str) -> Turn:
        turn = super().reply(text)
        self.reward *= 1000.0 if self.task.query.endswith("number 9.") else 1.0
        return turn


class Jackpot(EarlyLetters):
    """One of the tasks is worth a thousand others."""

    episode = JackpotEpisode


class FailingEpisode(EarlyLettersEpisode):
    def begin(self) -> Opening:
        if self.rng.random() < 0.2:
            raise RuntimeError("nobody is at the desk")
        return super().begin()


class Failing(EarlyLetters):
    """Every fifth attempt never starts."""

    episode = FailingEpisode
