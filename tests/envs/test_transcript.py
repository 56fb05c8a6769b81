"""The loop that plays an episode, and what it writes down."""

from __future__ import annotations

import pytest

from recollect.envs.desk.environment import Desk
from recollect.envs.transcript import Script, play
from recollect.types import StopReason

from .guessing import Guessing


def test_an_agent_may_walk_away():
    environment = Guessing()
    played = play(environment, next(environment.tasks("train")), Script([]))
    assert (played.exchanges, played.stop) == ((), StopReason.UNKNOWN)
    assert not played.score.success


def test_the_episode_is_closed_even_if_the_agent_fails():
    environment = Guessing()
    started = []

    class Watched(Guessing):
        def start(self, task, seed):
            started.append(super().start(task, seed))
            return started[-1]

    class Failing(Script):
        def act(self, messages):
            raise RuntimeError("no more ideas")

    with pytest.raises(RuntimeError, match="no more ideas"):
        play(Watched(), next(environment.tasks("train")), Failing([]))
    assert started[0]._over


def test_words_count_the_opening_the_lines_and_the_answers():
    environment = Guessing()
    task = next(t for t in environment.tasks("train") if int(t.query) > 1)
    played = play(environment, task, Script(["1", "no idea"]))
    # Find the number. / What is it? / 1 / Higher. / no idea / A number, please.
    assert played.words() == 3 + 3 + 1 + 1 + 2 + 3


def test_a_script_starts_over_for_each_episode():
    environment = Desk("airline", 1, size=20)
    task = next(environment.tasks("train"))
    script = Script(environment.gold(task))
    assert play(environment, task, script) == play(environment, task, script)
