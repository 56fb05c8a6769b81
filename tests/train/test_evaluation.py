from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.envs.base import Episode
from recollect.errors import BadEnvironment
from recollect.ledger import Note
from recollect.models.loading import Policy
from recollect.notes.inject import Guidance, NoteTemplate
from recollect.train.evaluation import Evaluator, Guiding
from recollect.train.parts import make_collector
from recollect.types import NoteId, Task

from .small import WORLDS, evaluator_of, make_config
from .worlds import Broken, Letters


def evaluator(policy: Policy, model: Path, environment: Letters, **options: object) -> Evaluator:
    config = make_config(model)
    given = {"split": "train", "tasks": 6, "rows": 1, "temperature": 0.0} | options
    collector = make_collector(config, environment, policy)
    return Evaluator(environment, collector, **given)  # type: ignore[arg-type]


class Uneven(Letters):
    """Two domains of two levels; one of the cells holds a single task."""

    def tasks(self, split: str) -> Iterator[Task]:
        for number in range(40):
            domain, level = f"d{number % 2}", 1 + number // 2 % 2
            if (domain, level) == ("d1", 2) and number > 3:
                continue
            yield Task("letters", str(number), query=f"q{number}", domain=domain, level=level)


def sizes(found: Evaluator) -> dict[tuple[str, int | None], int]:
    return {(score.domain, score.level): score.n for score in found.evaluate().scores}


def test_cells_are_as_even_as_they_can_be(policy: Policy, model: Path) -> None:
    assert sizes(evaluator(policy, model, Uneven(), tasks=10)) == {
        ("d0", 1): 3,
        ("d0", 2): 3,
        ("d1", 1): 3,
        ("d1", 2): 1,  # has no more
    }
    assert sum(sizes(evaluator(policy, model, Uneven(), tasks=2)).values()) == 2


def test_levels_and_rows(policy: Policy, model: Path) -> None:
    options = {"levels": [2], "rows": 3, "temperature": 1.0, "tasks": 4}
    found = evaluator(policy, model, Uneven(), **options)
    assert found.size == 12
    assert sizes(found) == {("d0", 2): 9, ("d1", 2): 3}


def test_no_tasks_to_evaluate_on(policy: Policy, model: Path) -> None:
    with pytest.raises(BadEnvironment, match=r"no tasks of levels \[7\] to evaluate on") as caught:
        evaluator(policy, model, Uneven(), levels=[7])
    assert "recollect env ls" in caught.value.hint


def test_a_task_that_comes_twice_is_played_once(policy: Policy, model: Path) -> None:
    class Stuttering(Letters):
        def tasks(self, split: str) -> Iterator[Task]:
            return (task for task in super().tasks(split) for _ in range(2))

    found = evaluator(policy, model, Stuttering(), tasks=4)
    assert [task.key for task in found.tasks] == [
        task.key for task in evaluator(policy, model, Letters(), tasks=4).tasks
    ]
    assert sum(sizes(found).values()) == 4


def test_the_same_attempts_every_time_and_for_every_run(model: Path, policy: Policy) -> None:
    """Scores of two policies can be paired: tasks, users and chance are the same."""
    options = {"rows": 2, "temperature": 1.0}
    one = evaluator(policy, model, Letters(), **options)
    first = one.evaluate()
    assert one.evaluate() == first
    other = make_config(model, "run.seed=99", "eval.temperature=1.0", "eval.rows=2", "eval.tasks=6",
                        "eval.split=train")  # fmt: skip
    assert evaluator_of(policy, other).evaluate() == first


def test_scores_are_those_of_the_policy(model: Path, policy: Policy) -> None:
    (score, *_) = evaluator(policy, model, Letters(), tasks=2).evaluate().scores
    assert score.reward is not None
    assert 0 <= score.reward <= 1
    # Saying "Done." is worth half: d and e are letters of the first half, o and n are not.
    assert score.floor == 1.0


class HalfBroken(Letters):
    """Tasks of level 2 cannot be started."""

    def start(self, task: Task, seed: int) -> Episode:
        if task.level == 2:
            raise RuntimeError("closed on Mondays")
        return super().start(task, seed)


def test_failures_count_as_lost_and_are_told(model: Path, policy: Policy) -> None:
    found = evaluator(policy, model, HalfBroken(), tasks=4).evaluate()
    by_level = {score.level: score for score in found.scores}
    assert [by_level[level].n for level in (1, 2)] == [2, 2]
    assert by_level[2].successes == 0
    assert by_level[2].reward == 0
    assert Counter(failure.where for failure in found.failures) == {"start": 2}
    assert "closed on Mondays" in found.failures[0].reason
    assert found.attempts == 4


def test_attempts_that_are_made_twice_are_counted_twice(model: Path, policy: Policy) -> None:
    """Or more would fail than were made."""
    note = Note(NoteId("n"), "abc", "always")
    notes = Guidance(NoteTemplate.parse(" {}").wrap([note]))
    found = evaluator(policy, model, Broken(), tasks=2).evaluate(
        guiding=Guiding("both", 1.0, lambda task: notes)
    )
    assert len(found.failures) == found.attempts == 4


def test_attempts_whose_notes_leave_no_room_are_not_guided(model: Path, policy: Policy) -> None:
    """They go without notes, so their score is none of attempts with notes."""
    one = evaluator(policy, model, Letters(), tasks=4)
    short, long = (
        Guidance(NoteTemplate.parse(" {}").wrap([Note(NoteId("n"), text, "always")]))
        for text in ("abc", "abc" * 200)
    )
    unlucky = one.tasks[0].key
    found = one.evaluate(
        guiding=Guiding("all", 1.0, lambda task: long if task.key == unlucky else short)
    )
    assert sum(score.n for score in found.scores) == 4
    assert sum(score.n for score in found.guided) == 3
    again = one.evaluate(guiding=Guiding("both", 1.0, lambda task: long))
    assert again.guided == again.scores, "what all tasks score with the notes there are: none"


def test_floors_of_an_environment_that_fails_are_unknown(model: Path, policy: Policy) -> None:
    """And it does not take the run down, nor is 0 claimed."""
    found = evaluator(policy, model, Broken(), tasks=2).evaluate()
    assert [score.floor for score in found.scores] == [None, None]
    assert len(found.failures) == 2


def test_floors_of_an_environment_that_hangs_are_given_up(model: Path, policy: Policy) -> None:
    config = make_config(
        model, "rollout.call_seconds=0.1", "rollout.episode_seconds=0.3", "eval.tasks=2",
        world=f"{WORLDS}:Hanging",
    )  # fmt: skip
    found = evaluator_of(policy, config).evaluate()
    assert [score.floor for score in found.scores] == [None, None]
    assert all("no answer within" in failure.reason for failure in found.failures)


def test_floors_are_played_on_the_same_tasks(model: Path, policy: Policy) -> None:
    started: list[str] = []

    class Watched(Letters):
        def start(self, task: Task, seed: int) -> Episode:
            started.append(task.key)
            return super().start(task, seed)

    found = evaluator(policy, model, Watched(), tasks=3, levels=[1])
    on_floors = set(started)
    started.clear()
    found.evaluate()
    assert set(started) == on_floors
    assert len(on_floors) == 3
