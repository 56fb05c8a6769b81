"""What the helper promises to those who write `begin` and `reply` only."""

from __future__ import annotations

import pytest

from recollect.envs.base import Limits, Turn
from recollect.envs.checker import check_environment
from recollect.envs.transcript import Script, play
from recollect.errors import EpisodeOver, UnknownTask
from recollect.types import StopReason, Task

from .guessing import Guessing, GuessingEpisode


def task_for(number: str) -> Task:
    environment = Guessing()
    return next(t for s in environment.splits for t in environment.tasks(s) if t.query == number)


def test_it_keeps_the_contract():
    report = check_environment(Guessing(), tasks=3)
    assert report.ok, report


def test_every_query_is_in_exactly_one_split():
    environment = Guessing()
    found = [task.query for split in environment.splits for task in environment.tasks(split)]
    assert sorted(found) == sorted(environment.queries())


def test_reward_success_and_parts():
    played = play(Guessing(), task_for("17"), Script(["20", "10", "17"]))
    answers = [m.text for e in played.exchanges for m in e.turn.messages]
    assert answers == ["Lower.", "Higher."]
    assert (played.stop, played.score.reward, played.score.success) == (StopReason.DONE, 1.0, True)
    assert played.score.parts == {"secret": 17.0}


def test_the_limit_ends_it_with_what_was_said():
    played = play(Guessing(), task_for("17"), Script(["x"] * 9))
    assert len(played.exchanges) == Guessing.limits.turns
    assert played.stop is StopReason.TURN_LIMIT
    assert played.exchanges[-1].turn.messages[0].text == "A number, please."
    assert not played.score.success


def test_success_is_a_reward_at_the_threshold():
    class Generous(GuessingEpisode):
        def reply(self, text: str) -> Turn:
            self.reward = 0.5
            return self.end()

    class Half(Guessing):
        episode = Generous
        threshold = 0.5

    class More(Half):
        threshold = 0.6

    assert play(Half(), task_for("3"), Script(["x"])).score.success
    assert not play(More(), task_for("3"), Script(["x"])).score.success


def test_nobody_answers_after_the_end():
    episode = Guessing().start(task_for("17"), 0)
    episode.respond("17")
    with pytest.raises(EpisodeOver, match="is over"):
        episode.respond("17")
    closed = Guessing().start(task_for("17"), 0)
    closed.close()
    with pytest.raises(EpisodeOver):
        closed.respond("1")


def test_chance_follows_the_task_and_the_seed():
    def draws(number: str, seed: int) -> list[float]:
        rng = Guessing().start(task_for(number), seed).rng
        return [rng.random() for _ in range(3)]

    assert draws("17", 1) == draws("17", 1)
    assert draws("17", 1) != draws("17", 2)
    assert draws("17", 1) != draws("18", 1)


def test_foreign_tasks_and_splits_are_refused():
    with pytest.raises(UnknownTask, match="no split 'valid'"):
        next(Guessing().tasks("valid"))
    with pytest.raises(UnknownTask, match="no task"):
        Guessing().start(Task("desk", "1", query="5"), 0)
    with pytest.raises(UnknownTask, match="no task"):
        Guessing().start(Task("guessing", "1", version="2", query="5"), 0)


def test_limits_are_shared_with_the_episode():
    class Short(Guessing):
        limits = Limits(turns=1)

    assert len(play(Short(), task_for("17"), Script(["1", "2"])).exchanges) == 1
