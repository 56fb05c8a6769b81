"""Environments for the tests of training: quick ones, and ones that misbehave."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from recollect.envs.base import Limits, Opening, Turn, system, user
from recollect.envs.dialogue import Dialogue, DialogueEnvironment
from recollect.types import Task

LEVELS = 2


class LettersEpisode(Dialogue):
    """Say anything, twice. Much is better than little, and best are letters from a to m."""

    def begin(self) -> Opening:
        self.said = ""
        return Opening((system("Write letters."), user(self.task.query)))

    def reply(self, text: str) -> Turn:
        self.said += text
        letters = [c for c in self.said.lower() if "a" <= c <= "z"]
        share = sum(c <= "m" for c in letters) / max(1, len(letters))
        self.reward = min(1.0, 0.6 * share + 0.05 * len(self.said))
        return self.say(f"More, {self.rng.randrange(10)} of them.")


class Letters(DialogueEnvironment):
    """A reward between 0 and 1 that differs within nearly every group."""

    name = "letters"
    episode = LettersEpisode
    limits = Limits(turns=2, chars=80)
    threshold = 0.5

    def queries(self) -> list[str]:
        return [f"Letters for number {number}." for number in range(60)]

    def tasks(self, split: str) -> Iterator[Task]:
        """Yield tasks of levels 1 and 2."""
        for place, task in enumerate(super().tasks(split)):
            level = 1 + place % LEVELS
            yield Task(task.environment, task.id, task.version, task.query, "", split, level)


class SameEpisode(LettersEpisode):
    def reply(self, text: str) -> Turn:
        turn = super().reply(text)
        self.reward = 1.0
        return turn

    def begin(self) -> Opening:
        self.reward = 1.0
        return super().begin()


class Same(Letters):
    """Every attempt is worth the same: no group ever carries signal."""

    episode = SameEpisode


class FlakyEpisode(LettersEpisode):
    """Breaks by its own chance: while it starts, answers or is scored; sometimes it hangs."""

    hang = 0.04
    fail = 0.28

    def begin(self) -> Opening:
        self.fate = self.rng.random()
        self.where = self.rng.choice(["begin", "reply", "score"])
        if self.where == "begin":
            self.trip()
        return super().begin()

    def reply(self, text: str) -> Turn:
        if self.where == "reply":
            self.trip()
        return super().reply(text)

    def parts(self) -> dict[str, float]:
        if self.where != "begin":  # a turn that was cut off never came to a reply
            self.trip()
        return {}

    def trip(self) -> None:
        if self.fate < self.hang:
            threading.Event().wait(600)
        if self.fate < self.hang + self.fail:
            raise RuntimeError(f"the {self.where} went wrong")


class Flaky(Letters):
    """About 30 % of the attempts fail or hang, always the same ones."""

    episode = FlakyEpisode


class BrokenEpisode(LettersEpisode):
    def begin(self) -> Opening:
        raise ValueError("nobody is at the desk")


class Broken(Letters):
    """No attempt ever starts."""

    episode = BrokenEpisode


class TalkativeEpisode(LettersEpisode):
    def begin(self) -> Opening:
        raise ValueError(f"nobody is at desk {self.rng.random()}")


class Talkative(Letters):
    """No attempt ever starts, each for a reason of its own."""

    episode = TalkativeEpisode


class HangingEpisode(LettersEpisode):
    def begin(self) -> Opening:
        threading.Event().wait(600)
        raise AssertionError("never")


class Hanging(Letters):
    """No attempt ever comes back."""

    episode = HangingEpisode


class AbsurdEpisode(LettersEpisode):
    def reply(self, text: str) -> Turn:
        turn = super().reply(text)
        self.reward = 1.7e308 if len(self.said) % 2 else -1.7e308
        return turn


class Absurd(Letters):
    """Rewards that are numbers, but whose differences are not."""

    episode = AbsurdEpisode
