"""A small environment of our own for the tests: find a number, hear higher or lower."""

from __future__ import annotations

from recollect.envs.base import Limits, Opening, Turn, system, user
from recollect.envs.dialogue import Dialogue, DialogueEnvironment
from recollect.types import Task


class GuessingEpisode(Dialogue):
    def begin(self) -> Opening:
        self.secret = int(self.task.query)
        return Opening((system("Find the number."), user("What is it?")))

    def reply(self, text: str) -> Turn:
        guess = text.strip()
        if not (guess.isascii() and guess.isdecimal() and len(guess) < 10):
            return self.say("A number, please.")
        if int(guess) == self.secret:
            self.reward = 1.0
            return self.end()
        return self.say("Higher." if int(guess) < self.secret else "Lower.")

    def parts(self) -> dict[str, float]:
        return {"secret": float(self.secret)}


class Guessing(DialogueEnvironment):
    name = "guessing"
    episode = GuessingEpisode
    limits = Limits(turns=4, chars=50)

    def queries(self) -> list[str]:
        return [str(number) for number in range(1, 60)]

    def gold(self, task: Task) -> tuple[str, ...]:
        return (task.query,)
