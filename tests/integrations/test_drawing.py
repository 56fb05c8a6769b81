"""Reading the pool: which rows and which tasks come back, and how that is written down."""

from __future__ import annotations

from collections import Counter
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
    ExperienceManager,
)
from recollect.store.sqlite import SqliteStore
from recollect.types import RunId, TrajectoryId
from train.damage import damage


def saved(store: SqliteStore, mode: str, values: tuple[float | None, ...]) -> ExperienceManager:
    manager = manager_of(store, replace(SETTINGS, exp_select_mode=mode, seed=4))
    manager.update_difficulty2task_dict(group("a", 4))
    rows = [row("a", n, entropy=value) for n, value in enumerate(values)]
    manager.save_trajectories_to_memory(rows)
    return manager


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("argmin", [0.1, 0.3, 0.5]), ("argmax", [0.9, 0.5, 0.3]), ("newest", [None, 0.1, 0.9])],
)
def test_the_choice_by_entropy(store: SqliteStore, mode: str, expected: list[float | None]) -> None:
    manager = saved(store, mode, (0.5, 0.3, 0.9, 0.1, None))
    found = manager.get_offpolicy_trajectories_from_memory("a", 3)
    shown = [None if s.entropy is None else round(s.entropy, 3) for s in found]
    assert shown == expected
    assert len({s.id for s in found}) == 3


def test_no_more_than_there_are_and_none_twice(store: SqliteStore) -> None:
    manager = saved(store, "random", (0.5, 0.3))
    found = manager.get_offpolicy_trajectories_from_memory("a", 10)
    assert len({s.id for s in found}) == len(found) == 2
    assert manager.get_offpolicy_trajectories_from_memory("nobody", 3) == []
    assert len(manager.get_offpolicy_trajectories_from_memory("a", 1, False)) == 2
    assert len(manager.get_all_candidate_trajectories("a")) == 2


def test_random_is_random_and_seeded(store: SqliteStore) -> None:
    manager = saved(store, "random", (0.5, 0.3, 0.9, 0.1))
    counts = Counter[TrajectoryId]()
    for step in range(2, 27):
        manager.begin_step(step)
        found = [manager.get_offpolicy_trajectories_from_memory("a", 1)[0].id for _ in range(8)]
        counts.update(found)
        again = manager_of(store, manager.settings, step)
        same = [again.get_offpolicy_trajectories_from_memory("a", 1)[0].id for _ in range(8)]
        assert found == same
    assert len(counts) == 4
    assert all(25 <= n <= 75 for n in counts.values())  # of 200, 50 expected, 4 deviations


def test_old_rows_and_used_rows_are_not_replayed(store: SqliteStore) -> None:
    settings = replace(SETTINGS, max_age=3, max_uses=2)
    manager = manager_of(store, settings)
    finish_step(manager, group("a", 1))
    finish_step(manager, group("b", 1))
    for step in (2, 3):
        manager.begin_step(step)
        assert len(manager.get_offpolicy_batch([HostTask("a")])) == 1
        assert manager.record_uses() == 1
    manager.begin_step(4)
    assert manager.get_valid_replay_task_ids() == ["b"]
    manager.begin_step(5)
    assert manager.get_valid_replay_task_ids() == []


def test_foreign_fingerprints_are_not_replayed(store: SqliteStore) -> None:
    finish_step(manager_of(store), group("a", 3))
    other = manager_of(store, replace(SETTINGS, tokenizer="tok-2"))
    assert other.get_all_candidate_trajectories("a") == []
    assert dict(other.task2trajectories) == {}


def test_the_batch_sets_the_numbers_and_writes_the_draws(store: SqliteStore) -> None:
    manager = manager_of(store)
    finish_step(manager, [*group("a", 3), *group("b", 1), *group("c", 0)])
    manager.begin_step(2)
    tasks = [HostTask("b"), HostTask("c"), HostTask("a")]
    found = manager.get_offpolicy_batch(tasks, 2)
    assert [s.task.id for s in found] == ["b", "a", "a"]
    assert [task.metadata["n_offpolicy_trajectories"] for task in tasks] == [1, 0, 2]
    draws = store.draws(RunId("host"), 2)
    assert {d.trajectory for d in draws} == {s.id for s in found}
    assert [d.age for d in draws] == [1, 1, 1]
    assert all("argmin" in d.reason for d in draws)
    fresh = manager.samples(group("a", 2, rows=6))
    assert {s.group for s in fresh} == {s.group for s in found if s.task.id == "a"}
    with pytest.raises(InvalidRecord, match="twice"):
        manager.get_offpolicy_batch([HostTask("a"), HostTask("a")])


def test_the_choice_by_the_entropy_of_now(store: SqliteStore) -> None:
    manager = saved(store, "argmin", (0.1, 0.2, 0.3))
    task = HostTask("a")
    candidates = manager.get_offpolicy_batch([task], use_saved_entropy=False)
    assert len(candidates) == 3
    assert store.draws(RunId("host")) == []
    assert task.metadata == {}
    first, second, third = (s.id for s in candidates)
    chosen = manager.select_offpolicy_by_entropy([task], {third: 0.1, second: 0.5}, 2)
    assert [s.id for s in chosen] == [third, second]  # nothing is known of the first: last
    assert task.metadata["n_offpolicy_trajectories"] == 2
    assert len(store.draws(RunId("host"))) == 2
    assert first not in {d.trajectory for d in store.draws(RunId("host"))}


def test_drawing_tasks_from_the_pool(store: SqliteStore) -> None:
    manager = manager_of(store)
    assert manager.sample_tasks_from_replaypool() == []
    for number in range(6):
        finish_step(manager, group(f"hard-{number}", 1))
    finish_step(manager, group("easy", 7))
    everybody = manager.sample_tasks_from_replaypool(num_tasks=99)
    assert sorted(everybody) == sorted(manager.get_valid_replay_task_ids())
    assert len(set(everybody)) == 7
    assert manager.sample_tasks_from_replaypool(7, 5) == ["easy"]
    assert manager.sample_tasks_from_replaypool(5, 5) == []
    by_bucket = Counter(
        u for _ in range(200) for u in manager.sample_tasks_from_replaypool(None, 1)
    )
    by_task = Counter(
        u for _ in range(200) for u in manager.sample_tasks_from_replaypool(None, 1, "uniform")
    )
    assert 70 <= by_bucket["easy"] <= 130  # half of the draws: one of two buckets
    assert 8 <= by_task["easy"] <= 50  # a seventh
    with pytest.raises(InvalidRecord, match="strategy"):
        manager.sample_tasks_from_replaypool(strategy="nonsense")  # type: ignore[arg-type]


def test_a_row_is_drawn_once_a_step_by_however_many_calls(store: SqliteStore) -> None:
    manager = saved(store, "argmin", (0.5, 0.3))
    manager.begin_step(2)
    found = [manager.get_offpolicy_batch([HostTask("a")]) for _ in range(3)]
    assert [len(samples) for samples in found] == [1, 1, 0]
    assert found[0][0].id != found[1][0].id
    assert manager.record_uses() == 2
    manager.begin_step(3)
    assert len(manager.get_offpolicy_batch([HostTask("a")])) == 1


def test_damaged_rows_are_left_out_and_named_once(store: SqliteStore) -> None:
    manager = saved(store, "argmin", (0.5, 0.3, 0.2))
    assert damage(store.path) == 2
    manager.begin_step(2)
    with pytest.warns(RuntimeWarning, match="left out: its checksum") as told:
        (sample,) = manager.get_offpolicy_batch([HostTask("a")], 3)
    assert len({str(each.message) for each in told}) == len(told) == 2
    assert sample.entropy == pytest.approx(0.3)
    assert manager.record_uses() == 1
    assert [t.id for t in manager.task2trajectories["a"]] == [sample.id]
