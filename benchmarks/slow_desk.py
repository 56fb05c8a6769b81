"""The desk with tools that take their time, as real ones do: for benchmarks of dear generation.

Only training tasks take theirs: evaluations are not timed, so nothing is gained by waiting there.
"""

from __future__ import annotations

import time

from recollect.envs.base import Opening, Score, Turn
from recollect.envs.desk.environment import Desk
from recollect.envs.desk.episode import DeskEpisode
from recollect.types import Task

SECONDS = 1.0  # of each answer, tool or user; answers are waited for one after the other


class SlowEpisode:
    """A desk episode in which every answer is waited for."""

    def __init__(self, episode: DeskEpisode, seconds: float) -> None:
        self._episode = episode
        self._seconds = seconds

    @property
    def opening(self) -> Opening:
        """What the episode begins with."""
        return self._episode.opening

    def respond(self, text: str) -> Turn:
        """Answer, after a while."""
        time.sleep(self._seconds)
        return self._episode.respond(text)

    def score(self) -> Score:
        """Judge the attempt."""
        return self._episode.score()

    def close(self) -> None:
        """End the episode."""
        self._episode.close()


class SlowDesk(Desk):
    """The desk, its answers slowed down; its tasks are those of the desk."""

    def __init__(self, seconds: float = SECONDS) -> None:
        """Take all domains and levels; the configuration narrows them."""
        super().__init__()
        self._seconds = seconds

    def start(self, task: Task, seed: int) -> SlowEpisode:  # type: ignore[override]
        """Begin a fresh attempt."""
        seconds = self._seconds if task.split == "train" else 0.0
        return SlowEpisode(super().start(task, seed), seconds)
