"""The checker accepts environments that keep the contract and names what others break."""

from __future__ import annotations

import itertools

import pytest

from recollect.envs.base import Message, Opening, Proof, Score, ToolSpec, Turn
from recollect.envs.checker import check_environment
from recollect.envs.desk.environment import Desk
from recollect.types import SegmentKind, Task

from .guessing import Guessing, GuessingEpisode

clock = itertools.count()


def broken(episode: type[GuessingEpisode] = GuessingEpisode, **changes: object) -> Guessing:
    return type("Broken", (Guessing,), {"episode": episode, **changes})()


def found(environment: object) -> dict[str, str]:
    report = check_environment(environment, tasks=3)
    return {c.name: c.findings[0].problem for c in report.checks if c.findings}


def test_the_desk_keeps_the_contract():
    report = check_environment(Desk(size=60), tasks=6)
    assert report.ok, [c for c in report.checks if c.findings]
    assert all(check.tried and check.promise for check in report.checks)
    assert [c.name for c in report.checks] == [
        *("description", "tasks", "splits", "opening"),
        *("determinism", "isolation", "limits", "garbage", "gold"),
    ]


def test_without_gold_there_is_no_gold_check():
    report = check_environment(broken(gold=None), tasks=2)
    assert report.ok
    assert "gold" not in [c.name for c in report.checks]


class Forgetful(GuessingEpisode):
    def reply(self, text: str) -> Turn:
        return self.say(str(next(clock)))


class Raising(GuessingEpisode):
    def reply(self, text: str) -> Turn:
        int(text)
        return self.end()


class Endless(GuessingEpisode):
    def respond(self, text: str) -> Turn:
        return self.reply(text)

    def reply(self, text: str) -> Turn:
        return self.say("Go on.")


class Talkative(GuessingEpisode):
    def reply(self, text: str) -> Turn:
        return self.say("word " * 20)


class NotFinite(GuessingEpisode):
    def begin(self) -> Opening:
        opening = super().begin()
        self.reward = float("nan")
        return opening


class Unscored(GuessingEpisode):
    def score(self) -> Score:
        return 1.0  # type: ignore[return-value]


class Wavering(GuessingEpisode):
    def score(self) -> Score:
        return Score(float(next(clock)), False)


class Tuple(GuessingEpisode):
    def respond(self, text: str) -> Turn:
        return "higher", False  # type: ignore[return-value]


class Clinging(GuessingEpisode):
    def close(self) -> None:
        if self._over:
            raise OSError("already closed")
        super().close()


class Mute(GuessingEpisode):
    def begin(self) -> Opening:
        super().begin()
        return Opening(())


class Twins(GuessingEpisode):
    def begin(self) -> Opening:
        return Opening(super().begin().messages, (ToolSpec("a"), ToolSpec("a")))


class Stillborn(GuessingEpisode):
    def begin(self) -> Opening:
        raise ConnectionError("no server")


class Surrogate(GuessingEpisode):
    def reply(self, text: str) -> Turn:
        return Turn((Message(SegmentKind.USER, "\ud800"),))


class Unlucky(GuessingEpisode):
    def reply(self, text: str) -> Turn:
        return super().reply(text + "0")


@pytest.mark.parametrize(
    ("episode", "check", "problem"),
    [
        (Forgetful, "determinism", "turn 1 differs"),
        (Raising, "garbage", "ValueError"),
        (Endless, "limits", "still going after 4 turns"),
        (Talkative, "limits", "100 characters, declared are 50"),
        (NotFinite, "opening", "not finite"),
        (Unscored, "opening", "score returned float"),
        (Wavering, "opening", "another answer the second time"),
        (Tuple, "determinism", "respond returned tuple"),
        (Clinging, "opening", "close raised OSError"),
        (Mute, "opening", "no messages"),
        (Twins, "opening", "same name"),
        (Stillborn, "opening", "start raised ConnectionError: no server"),
        (Surrogate, "garbage", "lone surrogate"),
        (Unlucky, "gold", "no success"),
    ],
)
def test_a_broken_episode_is_found(episode, check, problem):
    assert problem in found(broken(episode))[check]


def test_state_shared_between_episodes_is_found():
    said: list[str] = []

    class Shared(GuessingEpisode):
        def begin(self) -> Opening:
            said.clear()
            return super().begin()

        def reply(self, text: str) -> Turn:
            said.append(text)
            return self.say(f"That makes {len(said)}.")

    problems = found(broken(Shared))
    assert "determinism" not in problems
    assert "differs" in problems["isolation"]


def test_a_score_that_another_episode_changes_is_found():
    won: list[str] = []

    class Ranked(GuessingEpisode):
        def begin(self) -> Opening:
            won.clear()
            return super().begin()

        def reply(self, text: str) -> Turn:
            won.append(text)
            return self.say("Noted.")

        def parts(self) -> dict[str, float]:
            return {"noted": float(len(won))}

    assert "isolation" in found(broken(Ranked))


class Shuffled(Guessing):
    def queries(self) -> list[str]:
        return [str(next(clock)) for _ in range(50)]


class Repeating(Guessing):
    def tasks(self, split: str):
        tasks = list(super().tasks(split))
        yield from tasks + tasks[:1]


class Misfiled(Guessing):
    def tasks(self, split: str):
        for task in super().tasks(split):
            yield Task("other", task.id, "9", task.query, domain="far", split="train")


class Leaking(Guessing):
    def tasks(self, split: str):
        for n in range(5):
            yield Task(self.name, f"{split}{n}", self.version, str(n), split=split)


class Empty(Guessing):
    def queries(self) -> list[str]:
        return []


@pytest.mark.parametrize(
    ("environment", "check", "problem"),
    [
        (Shuffled(), "tasks", "other tasks the second time"),
        (Repeating(), "tasks", "lists a task twice"),
        (Misfiled(), "tasks", "its environment is 'other'"),
        (Leaking(), "splits", "also in train, as train0"),
        (Empty(), "tasks", "no tasks in any split"),
        (broken(version=""), "description", "version is ''"),
        (broken(splits=()), "description", "splits is ()"),
        (broken(splits=("train", "train")), "description", "different names"),
        (broken(limits={"turns": 4}), "description", "limits is not a Limits"),
    ],
)
def test_a_broken_environment_is_found(environment, check, problem):
    assert problem in found(environment)[check]


def test_content_decides_whether_two_splits_overlap():
    class Hidden(Leaking):
        def content(self, task: Task) -> str:
            return task.id

    assert "splits" not in found(Hidden())


def test_what_the_environment_raises_is_a_finding():
    class Failing(Guessing):
        def tasks(self, split: str):
            raise ConnectionError("no server")

    class BadGold(Guessing):
        def gold(self, task: Task) -> tuple[str, ...]:
            raise KeyError(task.id)

    assert found(Failing())["tasks"] == "ConnectionError: no server"
    assert found(BadGold())["gold"].startswith("KeyError")
    assert "name is None" in found(object())["description"]


class Proving(Guessing):
    """Has promises of its own: one kept, one broken, one that cannot even be tried."""

    def proofs(self):
        def explode():
            raise RuntimeError("no proof")

        return (
            Proof("kept", "It holds.", lambda: (3, [])),
            Proof("broken", "It does not.", lambda: (2, [("7", "is wrong")])),
            Proof("untried", "Nobody knows.", explode),
        )


def test_promises_of_the_environments_own_are_tried():
    checks = {c.name: c for c in check_environment(Proving(), tasks=1).checks}
    assert (checks["kept"].tried, checks["kept"].findings) == (3, ())
    (finding,) = checks["broken"].findings
    assert (finding.task, finding.problem) == ("7", "is wrong")
    assert "no proof" in checks["untried"].findings[0].problem
