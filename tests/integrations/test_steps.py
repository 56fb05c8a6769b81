"""Steps, the disk, and going back."""

from __future__ import annotations

import pytest

from integrations.hosts import (
    HostTask,
    finish_step,
    group,
    manager_of,
    row,
)
from recollect.errors import InvalidRecord, StoreConflict
from recollect.integrations.agentevolver import (
    ExperienceManager,
    ExperienceSettings,
    StepOutOfOrder,
)
from recollect.store.sqlite import SqliteStore


def test_a_step_must_be_begun(store: SqliteStore) -> None:
    manager = manager_of(store, step=0)
    with pytest.raises(StepOutOfOrder, match="begin_step"):
        manager.update_difficulty2task_dict([row("a")])
    manager.begin_step(4)
    manager.update_difficulty2task_dict(group("a", 3))
    with pytest.raises(StepOutOfOrder, match="load_experience_pool_from_disk\\(2\\)"):
        manager_of(store, step=3)


def snapshot(manager: ExperienceManager) -> tuple[object, ...]:
    rows = {uid: tuple(t.id for t in found) for uid, found in manager.task2trajectories.items()}
    buckets = {k: sorted(v) for k, v in manager.difficulty2task_dict.items()}
    return buckets, manager.skip_uid_set, rows, manager.get_valid_replay_task_ids()


def test_another_process_finds_the_pool_as_it_was(store: SqliteStore) -> None:
    manager = manager_of(store)
    finish_step(manager, [*group("a", 3), *group("b", 8), *group("c", 0)])
    assert manager.save_experience_pool_to_disk() == store.path
    assert snapshot(manager_of(store)) == snapshot(manager)


def test_going_back_undoes_later_steps_exactly(store: SqliteStore) -> None:
    manager = manager_of(store)
    finish_step(manager, [*group("a", 3), *group("b", 8)])
    manager.take_quota(1.5)
    manager.save_experience_pool_to_disk()
    before = snapshot(manager)

    def second_step(successes: int) -> tuple[object, ...]:
        manager.begin_step(2)
        drawn = manager.get_offpolicy_batch([HostTask("a")])
        manager.record_uses()
        finish_step(manager, [*group("a", successes), *group("b", 4)])
        quota = manager.take_quota(1.5)
        return snapshot(manager), [s.id for s in drawn], quota

    first = second_step(8)  # evicts what step 1 stored
    manager.load_experience_pool_from_disk(1)
    manager.begin_step(1)
    assert snapshot(manager) == before
    assert second_step(8) == first
    manager.load_experience_pool_from_disk(1)
    assert second_step(2) != first
    assert not list(store.verify())


def test_what_is_owed_and_the_best_step_outlive_the_process(store: SqliteStore) -> None:
    """They come from the newest cursor, whether or not the last step that is kept wrote one."""
    manager = manager_of(store)
    finish_step(manager, [*group("a", 3), *group("b", 8)])
    assert manager.take_quota(1.75) == 1
    manager.save_experience_pool_to_disk()
    peak = manager.peak_success
    assert peak > 0
    again = manager_of(store)
    assert again.peak_success == peak
    assert again.take_quota(0.25) == 1
    again.begin_step(2)
    finish_step(again, group("c", 0))
    again.load_experience_pool_from_disk(2)  # which no cursor was written for
    assert again.peak_success == peak
    assert again.take_quota(0.25) == 1


def test_a_step_redone_with_other_rows_is_refused_whole(store: SqliteStore) -> None:
    manager = manager_of(store)
    finish_step(manager, group("a", 3))
    other = manager_of(store)
    with pytest.raises(StoreConflict):
        other.update_difficulty2task_dict(group("a", 8))
    assert snapshot(other) == snapshot(manager)


def test_settings_are_checked() -> None:
    for wrong in (
        {"exp_select_mode": "best"},
        {"missing_log_probs": "zero"},
        {"max_trajectories_per_task": 0},
        {"environment": ""},
        {"success_threshold": float("nan")},
    ):
        with pytest.raises(InvalidRecord):
            ExperienceSettings(**{"environment": "e", "tokenizer": "t", **wrong})


def test_metrics(store: SqliteStore) -> None:
    manager = manager_of(store)
    finish_step(manager, [*group("a", 3), *group("b", 8)])
    manager.get_offpolicy_batch([HostTask("a")], 2)
    assert manager.metrics() == {
        "exp_replay/skip_uid_set_size": 1,
        "exp_replay/total_tasks_in_pool": 1,
        "exp_replay/total_trajectories_in_pool": 3,
        "exp_replay/num_offpolicy_trajectories": 2,
    }
