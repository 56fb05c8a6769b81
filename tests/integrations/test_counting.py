"""Counting groups: buckets, retirement, and which rows are kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from integrations.hosts import (
    SETTINGS,
    HostTask,
    finish_step,
    group,
    manager_of,
    row,
)
from recollect.errors import InvalidRecord
from recollect.integrations.agentevolver import (
    GroupChanged,
)
from recollect.ledger import Mark
from recollect.store.records import Batch, Query
from recollect.store.sqlite import SqliteStore
from recollect.types import Action, Status


def test_all_successes_retire_the_task_and_save_nothing(store: SqliteStore) -> None:
    manager = manager_of(store)
    assert finish_step(manager, group("a", 8)) == 0
    assert manager.skip_uid_set == {"a"}
    assert manager.difficulty2task_dict == {}
    assert dict(manager.task2trajectories) == {}
    assert manager.get_valid_replay_task_ids() == []


def test_three_of_eight_save_three(store: SqliteStore) -> None:
    manager = manager_of(store)
    assert finish_step(manager, group("a", 3)) == 3
    assert manager.skip_uid_set == frozenset()
    assert manager.difficulty2task_dict == {3: ["a"]}
    assert [len(rows) for rows in manager.task2trajectories.values()] == [3]
    assert all(t.success for t in manager.task2trajectories["a"])
    assert manager.get_valid_replay_task_ids() == ["a"]


def test_no_success_neither_retires_nor_saves(store: SqliteStore) -> None:
    manager = manager_of(store)
    assert finish_step(manager, group("a", 0)) == 0
    assert manager.skip_uid_set == frozenset()
    assert manager.difficulty2task_dict == {0: ["a"]}
    assert manager.get_valid_replay_task_ids() == []


def test_a_task_without_success_now_is_replayed_by_older_ones(store: SqliteStore) -> None:
    manager = manager_of(store)
    finish_step(manager, group("a", 2))
    manager.begin_step(2)
    finish_step(manager, group("a", 0))
    assert manager.difficulty2task_dict == {0: ["a"]}
    assert manager.get_valid_replay_task_ids() == ["a"]


def test_a_retired_task_that_fails_is_back_in_a_bucket_at_once(store: SqliteStore) -> None:
    manager = manager_of(store)
    finish_step(manager, group("a", 8))
    manager.begin_step(2)
    manager.update_difficulty2task_dict(group("a", 5))
    # The original has no bucket for it before it is drawn again.
    assert manager.difficulty2task_dict == {5: ["a"]}
    assert manager.skip_uid_set == frozenset()
    assert finish_step(manager, group("a", 5)) == 5
    assert manager.get_valid_replay_task_ids() == ["a"]


def test_retirement_lets_stored_rows_go_but_not_pinned_ones(store: SqliteStore) -> None:
    manager = manager_of(store)
    finish_step(manager, group("a", 3))
    pinned, *others = [t.id for t in manager.task2trajectories["a"]]
    store.commit(Batch(marks=[Mark(pinned, Action.PIN, "mine")]))
    manager.begin_step(2)
    finish_step(manager, group("a", 8))
    assert [t.id for t in manager.task2trajectories["a"]] == [pinned]
    assert manager.get_all_candidate_trajectories("a") == []  # retired, pinned or not
    gone = store.rows(Query(status=Status.EVICTED)).rows
    assert {r.id for r in gone} == set(others)
    assert store.marks(others[0])[0].reason == "its task retired"


def test_the_order_of_the_two_updates_does_not_matter(store: SqliteStore) -> None:
    rows = [*group("a", 8), *group("b", 3), *group("c", 0)]
    first, second = manager_of(store, run="first"), manager_of(store, run="second")
    first.update_difficulty2task_dict(rows)
    first.update_skip_uid_set_and_filter_trajectories(rows)
    second.update_skip_uid_set_and_filter_trajectories(rows)
    second.update_difficulty2task_dict(rows)
    assert first.difficulty2task_dict == second.difficulty2task_dict
    assert first.skip_uid_set == second.skip_uid_set == {"a"}


def test_a_task_is_in_one_bucket_only(store: SqliteStore) -> None:
    manager = manager_of(store, step=0)
    for step, successes in enumerate((3, 5, 5, 0, 8, 7), 1):
        manager.begin_step(step)
        finish_step(manager, group("a", successes))
        placed = [uid for uids in manager.difficulty2task_dict.values() for uid in uids]
        assert placed == ([] if successes == 8 else ["a"])
    assert manager.difficulty2task_dict == {7: ["a"]}


@pytest.mark.parametrize(
    ("lower", "upper", "kept"),
    [
        (0, 8, {1, 2, 3, 4, 5, 6, 7}),
        (2, 8, {3, 4, 5, 6, 7}),
        (0, 5, {1, 2, 3, 4}),
        (2, 4, {3}),
        (None, None, {1, 2, 3, 4, 5, 6, 7}),
    ],
)
def test_bounds_are_exclusive(
    store: SqliteStore, lower: int | None, upper: int | None, kept: set[int]
) -> None:
    settings = replace(SETTINGS, experience_lbound=lower, experience_rbound=upper)
    manager = manager_of(store, settings)
    found = set()
    for successes in range(9):
        rows = group(f"task-{successes}", successes)
        if filtered := manager.update_skip_uid_set_and_filter_trajectories(rows):
            assert len(filtered) == successes
            found.add(successes)
    assert found == kept


def test_bounds_that_leave_nothing_are_refused() -> None:
    with pytest.raises(InvalidRecord, match="above 3 and below 4"):
        replace(SETTINGS, experience_lbound=3, experience_rbound=4)


@pytest.mark.parametrize(("least", "retired"), [(1, True), (7, True), (8, False)])
def test_how_small_a_group_retires_is_a_setting(
    store: SqliteStore, least: int, retired: bool
) -> None:
    manager = manager_of(store, replace(SETTINGS, retire_rows=least))
    finish_step(manager, group("a", 7, rows=7))
    assert (manager.skip_uid_set == {"a"}) is retired


def test_replayed_rows_do_not_count(store: SqliteStore) -> None:
    manager = manager_of(store)
    finish_step(manager, group("a", 3))
    manager.begin_step(2)
    (replayed,) = manager.get_offpolicy_batch([HostTask("a")])
    rows = [*group("a", 0, rows=7), replayed]
    manager.update_difficulty2task_dict(rows)
    assert manager.difficulty2task_dict == {0: ["a"]}
    assert manager.update_skip_uid_set_and_filter_trajectories(rows) == []
    assert manager.save_trajectories_to_memory(rows).saved == 7  # not the replayed one again


def test_rows_may_be_missing_later_but_not_added(store: SqliteStore) -> None:
    manager = manager_of(store)
    rows = group("a", 4)
    manager.update_difficulty2task_dict(rows[:7])
    kept = manager.update_skip_uid_set_and_filter_trajectories(rows[:2])
    assert len(kept) == 2
    assert manager.difficulty2task_dict == {4: ["a"]}
    with pytest.raises(GroupChanged, match="in one call"):
        manager.update_skip_uid_set_and_filter_trajectories(rows)


def test_an_attempt_may_not_come_twice(store: SqliteStore) -> None:
    manager = manager_of(store)
    with pytest.raises(InvalidRecord, match="rollout_id"):
        manager.update_difficulty2task_dict([row("a", 1), row("a", 1, False)])


def test_synthetic_tasks_that_share_an_id_stay_apart(store: SqliteStore) -> None:
    manager = manager_of(store)
    plain, made = HostTask("a"), HostTask("a", "find two mugs")
    finish_step(manager, [*group("a", 3), *group("a", 8, query="find two mugs")])
    assert manager.difficulty2task_dict == {3: ["a"]}
    assert manager.skip_uid_set == {manager.uid(made)} != {manager.uid(plain)}
    assert len(manager.get_all_candidate_trajectories(plain)) == 3
    assert manager.get_all_candidate_trajectories(made) == []
