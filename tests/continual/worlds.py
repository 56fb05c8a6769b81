"""Two domains that want opposite things: letters from the first half, or from the second."""

from __future__ import annotations

from collections.abc import Iterator

from recollect.envs.base import Limits, Opening, Turn, system, user
from recollect.envs.dialogue import Dialogue, DialogueEnvironment
from recollect.types import Task

DOMAINS = ("early", "late")


class HalfEpisode(Dialogue):
    """Say anything, twice."""

    def begin(self) -> Opening:
        self.said = ""
        return Opening((system("Write letters."), user(self.task.query)))

    def reply(self, text: str) -> Turn:
        self.said += text
        letters = [c for c in self.said.lower() if "a" <= c <= "z"]
        early = sum(c <= "m" for c in letters) / max(1, len(letters))
        share = early if self.task.domain == "early" else 1 - early
        self.reward = min(1.0, 0.7 * share + 0.04 * len(self.said))
        return self.say("More.")

    def parts(self) -> dict[str, float]:
        return {"tools": min(1.0, len(self.said) / 10)}


class Halves(DialogueEnvironment):
    """Rewards between 0 and 1 that differ within nearly every group; knows gold answers."""

    name = "halves"
    episode = HalfEpisode
    limits = Limits(turns=2, chars=80)
    threshold = 0.5
    domains = DOMAINS

    def queries(self) -> list[str]:
        return [f"Letters of the {d} half, number {n}." for n in range(40) for d in DOMAINS]

    def tasks(self, split: str) -> Iterator[Task]:
        for task in super().tasks(split):
            domain = "early" if "early" in task.query else "late"
            yield Task(task.environment, task.id, task.version, task.query, domain, split, 1)

    def gold(self, task: Task) -> tuple[str, ...]:
        letter = "a" if task.domain == "early" else "z"
        return (letter * 5, letter * 5)
