from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from recollect.ledger import TaskState
from recollect.replay.book import Result, Retirement, TaskBook
from recollect.replay.buckets import bucket_name
from recollect.types import RunId, TaskKey

RUN = RunId("run")
A, B, C = (TaskKey(name) for name in "abc")


def book(on: bool = True, rows: int = 8, retest: int = 5, *states: TaskState) -> TaskBook:
    return TaskBook(RUN, Retirement(on, rows, retest), states)


def test_eight_of_eight_retires() -> None:
    tasks = book()
    (state,) = tasks.update(3, [Result(A, 8, 8)])
    assert state == TaskState(RUN, A, 3, 8, 8, True, 8)
    assert tasks.is_retired(A)
    assert tasks.retired == 1
    assert tasks.buckets == {}, "retired tasks have left their bucket"
    assert tasks.rate(A) == 1.0


def test_seven_of_eight_does_not() -> None:
    tasks = book()
    tasks.update(1, [Result(A, 7, 8)])
    assert not tasks.is_retired(A)
    assert tasks.buckets == {"0.8-0.9": 1}


@pytest.mark.parametrize(("rows", "retires"), [(8, False), (7, True), (1, True)])
def test_seven_of_seven_in_a_mixed_group(rows: int, retires: bool) -> None:
    tasks = book(rows=rows)
    tasks.update(1, [Result(A, 7, 7)])
    assert tasks.is_retired(A) is retires
    # A task that has not retired is in a bucket all the same.
    assert tasks.buckets == ({} if retires else {"1": 1})


def test_a_failure_brings_it_back_into_a_bucket_in_the_same_update() -> None:
    tasks = book()
    tasks.update(1, [Result(A, 8, 8)])
    (state,) = tasks.update(6, [Result(A, 5, 8)])
    assert not state.retired
    assert state.retest_step is None
    assert not tasks.is_retired(A)
    assert tasks.buckets == {"0.6-0.7": 1}
    assert tasks.rate(A) == 5 / 8
    assert tasks.due(100) == []


def test_a_small_re_test_keeps_it_retired() -> None:
    tasks = book(rows=8, retest=5)
    tasks.update(1, [Result(A, 8, 8)])
    (state,) = tasks.update(6, [Result(A, 2, 2)])
    assert state.retired
    assert state.retest_step == 11


def test_re_tests_are_due_longest_waiting_first() -> None:
    tasks = book(retest=5)
    tasks.update(2, [Result(B, 8, 8)])
    tasks.update(3, [Result(C, 8, 8), Result(A, 8, 8)])
    assert tasks.due(6) == []
    assert tasks.due(7) == [B]
    assert tasks.due(8) == [B, A, C]
    tasks.update(8, [Result(B, 8, 8)])
    assert tasks.due(8) == [A, C]


def test_never_retired_where_it_is_off() -> None:
    tasks = book(on=False)
    (state,) = tasks.update(1, [Result(A, 8, 8)])
    assert not state.retired
    assert tasks.buckets == {"1": 1}


def test_a_group_without_rows_says_nothing() -> None:
    tasks = book()
    tasks.update(1, [Result(A, 3, 8)])
    assert tasks.update(2, [Result(A, 0, 0)]) == []
    assert tasks.rate(A) == 3 / 8
    assert tasks.rate(B) is None


class BookMachine(RuleBasedStateMachine):
    """A book against a plain model of it: the last group of each task, and the rule."""

    def __init__(self) -> None:
        super().__init__()
        self.retirement = Retirement(True, 4, 3)
        self.book = TaskBook(RUN, self.retirement)
        self.step = 0
        self.last: dict[TaskKey, tuple[int, int]] = {}
        self.retired: dict[TaskKey, int] = {}
        self.stored: dict[TaskKey, TaskState] = {}

    @rule(
        groups=st.dictionaries(
            st.sampled_from([A, B, C, TaskKey("d")]),
            st.integers(0, 5).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
        ),
        skipped=st.integers(1, 4),
    )
    def a_step(self, groups: dict[TaskKey, tuple[int, int]], skipped: int) -> None:
        self.step += skipped
        changed = self.book.update(self.step, [Result(t, *found) for t, found in groups.items()])
        self.stored |= {state.task: state for state in changed}
        assert [state.task for state in changed] == [t for t, (_, n) in groups.items() if n]
        for task, (successes, rows) in groups.items():
            if not rows:
                continue
            self.last[task] = (successes, rows)
            if successes == rows and (rows >= 4 or task in self.retired):
                self.retired[task] = self.step + 3
            else:
                self.retired.pop(task, None)

    @rule()
    def begins_anew_from_what_was_stored(self) -> None:
        self.book = TaskBook(RUN, self.retirement, self.stored.values())

    @invariant()
    def equals_the_model(self) -> None:
        assert len(self.book) == len(self.last)
        for task, (successes, rows) in self.last.items():
            assert self.book.rate(task) == successes / rows
            assert self.book.is_retired(task) is (task in self.retired)
            assert self.book.state(task) == self.stored[task]
        assert self.book.retired == len(self.retired)
        resting = self.last.keys() - self.retired.keys()
        assert self.book.buckets == Counter(bucket_name(*self.last[task]) for task in resting)
        due = sorted((when, task) for task, when in self.retired.items() if when <= self.step)
        assert self.book.due(self.step) == [task for _, task in due]


TestBookMachine = BookMachine.TestCase
TestBookMachine.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
