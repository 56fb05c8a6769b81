"""ExperienceMixCollateFn: how many tasks, which, and that nobody is lost or counted twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from integrations.hosts import SETTINGS, HostTask, finish_step, group, manager_of, new_store
from recollect.errors import InvalidRecord
from recollect.integrations.agentevolver import ExperienceManager, ExperienceMixCollateFn
from recollect.store.sqlite import SqliteStore


def tasks(count: int, name: str = "fresh") -> list[HostTask]:
    return [HostTask(f"{name}-{number}") for number in range(count)]


def with_pool(store: SqliteStore, size: int) -> tuple[ExperienceManager, list[HostTask]]:
    manager = manager_of(store)
    pooled = tasks(size, "pooled")
    finish_step(manager, [r for task in pooled for r in group(task.task_id, 1, rows=2)])
    manager.begin_step(2)
    return manager, pooled


@pytest.mark.parametrize(
    ("pool", "batch", "experience"), [(40, 64, 32), (5, 10, 5), (3, 10, 3), (0, 10, 0)]
)
def test_how_many(store: SqliteStore, pool: int, batch: int, experience: int) -> None:
    manager, pooled = with_pool(store, pool)
    mix = ExperienceMixCollateFn(manager, SimpleNamespace(seed_tasks=pooled))
    replayed, fresh = mix(tasks(batch), 0.5)
    assert (len(replayed), len(fresh)) == (experience, batch - experience)
    assert len({task.task_id for task in replayed}) == experience
    assert [task.task_id for task in fresh] == [t.task_id for t in tasks(batch)][: len(fresh)]
    assert len(mix.displaced) == experience


def test_fractions_go_to_the_next_call(store: SqliteStore) -> None:
    manager, pooled = with_pool(store, 9)
    mix = ExperienceMixCollateFn(manager, pooled)
    counts = [tuple(map(len, mix(tasks(3), 0.5))) for _ in range(4)]
    assert counts == [(1, 2), (2, 1), (1, 2), (2, 1)]
    small = ExperienceMixCollateFn(manager, pooled, exp_ratio=0.1)
    assert [len(small(tasks(3), 0.5)[0]) for _ in range(10)] == [0, 0, 0, 1, 0, 0, 1, 0, 0, 1]


def test_what_the_pool_lacks_is_not_owed(store: SqliteStore) -> None:
    manager, pooled = with_pool(store, 1)
    mix = ExperienceMixCollateFn(manager, pooled)
    assert [len(mix(tasks(8), 0.5)[0]) for _ in range(3)] == [1, 1, 1]
    finish_step(manager, [r for t in tasks(9, "more") for r in group(t.task_id, 1, rows=2)])
    mix = ExperienceMixCollateFn(manager, [*pooled, *tasks(9, "more")])
    assert len(mix(tasks(8), 0.5)[0]) == 4


def test_when_it_starts(store: SqliteStore) -> None:
    manager, pooled = with_pool(store, 4)
    mix = ExperienceMixCollateFn(manager, pooled)
    assert [len(mix(tasks(8), progress)[0]) for progress in (0.0, 0.34, 0.35, 1.0)] == [0, 0, 4, 4]
    assert mix(tasks(8), 1.0, enable_replay=False)[0] == []
    # Half of the rows of step 1 succeeded; and there are four tasks.
    for options, started in (
        ({"start_success": 0.5}, True),
        ({"start_success": 0.51}, False),
        ({"start_tasks": 4}, True),
        ({"start_tasks": 5}, False),
    ):
        mix = ExperienceMixCollateFn(manager, pooled, replay_start_ratio=0.0, **options)
        assert bool(mix(tasks(8), 0.0)[0]) is started


def test_no_task_is_in_both_lists(store: SqliteStore) -> None:
    manager, pooled = with_pool(store, 6)
    mix = ExperienceMixCollateFn(manager, pooled)
    for _ in range(10):
        replayed, fresh = mix([*pooled, *tasks(2)], 0.5)
        assert (len(replayed), len(fresh)) == (4, 4)
        assert not {t.task_id for t in replayed} & {t.task_id for t in fresh}


def test_shared_tasks_are_not_touched(store: SqliteStore) -> None:
    manager, pooled = with_pool(store, 4)
    replayed, _ = ExperienceMixCollateFn(manager, pooled)(tasks(8), 0.5)
    manager.get_offpolicy_batch(replayed)
    assert all(task.metadata == {"n_offpolicy_trajectories": 1} for task in replayed)
    assert all(task.metadata == {} for task in pooled)
    chances = {draw.probability for draw in store.draws(step=2)}
    assert chances == {1.0}  # four wanted, four there


def test_draws_know_how_likely_they_were(store: SqliteStore) -> None:
    manager, pooled = with_pool(store, 8)
    replayed, _ = ExperienceMixCollateFn(manager, pooled)(tasks(4), 0.5)
    manager.get_offpolicy_batch(replayed)
    assert {draw.probability for draw in store.draws(step=2)} == {2 / 8}


def test_synthetic_tasks_come_back_with_their_query(store: SqliteStore) -> None:
    manager = manager_of(store)
    made = HostTask("seed", "now with two mugs")
    mix = ExperienceMixCollateFn(manager, [HostTask("seed")], replay_start_ratio=0.0)
    mix([made], 0.0)
    finish_step(manager, group("seed", 3, query=made.query))
    manager.begin_step(2)
    (replayed,), _ = mix(tasks(2), 0.5)
    assert replayed == made
    assert replayed is not made


def test_a_task_nobody_can_name_is_not_drawn(store: SqliteStore) -> None:
    manager, pooled = with_pool(store, 6)
    mix = ExperienceMixCollateFn(manager, pooled[:2])
    replayed, fresh = mix(tasks(8), 0.5)
    assert {t.task_id for t in replayed} == {t.task_id for t in pooled[:2]}
    assert len(fresh) == 6


def test_retired_tasks_give_way_first_until_their_retest(store: SqliteStore) -> None:
    manager = manager_of(store, replace(SETTINGS, retest_steps=5))
    batch = tasks(4)
    finish_step(manager, [*group("fresh-0", 8), *group("fresh-1", 8), *group("pooled", 3)])
    mix = ExperienceMixCollateFn(manager, [HostTask("pooled")], exp_ratio=0.25)
    manager.begin_step(2)
    _, fresh = mix(batch, 0.5)
    assert [t.task_id for t in fresh] == ["fresh-0", "fresh-2", "fresh-3"]
    assert [t.task_id for t in mix.displaced] == ["fresh-1"]
    manager.begin_step(6)
    _, fresh = mix(batch, 0.5)
    assert [t.task_id for t in fresh] == ["fresh-0", "fresh-1", "fresh-2"]


def test_draws_are_uniform_and_seeded(store: SqliteStore) -> None:
    manager, pooled = with_pool(store, 10)
    mix = ExperienceMixCollateFn(manager, pooled)
    counts: Counter[str] = Counter()
    for step in range(2, 30):
        manager.begin_step(step)
        found = [[t.task_id for t in mix(tasks(4), 0.5)[0]] for _ in range(4)]
        counts.update(name for names in found for name in names)
        again = ExperienceMixCollateFn(manager_of(store, step=step), pooled)
        assert [[t.task_id for t in again(tasks(4), 0.5)[0]] for _ in range(4)] == found
    assert len(counts) == 10
    assert all(8 <= n <= 38 for n in counts.values())  # of 224, 22.4 expected


def test_a_group_without_fresh_rows_is_refused(store: SqliteStore) -> None:
    manager = manager_of(store)
    with pytest.raises(InvalidRecord, match="leaves no fresh one"):
        ExperienceMixCollateFn(manager, [], offpolicy_trajectories_per_task=8, n_rollout=8)
    with pytest.raises(InvalidRecord, match="exp_ratio"):
        ExperienceMixCollateFn(manager, [], exp_ratio=1.5)


@settings(max_examples=30, deadline=None)
@given(
    pool=st.integers(0, 6),
    overlap=st.integers(0, 6),
    batches=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    ratio=st.floats(0, 1),
)
def test_nobody_is_lost(pool: int, overlap: int, batches: list[int], ratio: float) -> None:
    with new_store() as store:
        manager, pooled = with_pool(store, pool)
        mix = ExperienceMixCollateFn(manager, pooled, exp_ratio=ratio)
        total = 0
        for size in batches:
            batch = [*pooled[:overlap], *tasks(9)][:size]
            replayed, fresh = mix(batch, 0.9)
            assert len(replayed) + len(fresh) == size
            names = [t.task_id for t in (*replayed, *fresh)]
            assert len(set(names)) == size
            everybody = {t.task_id for t in batch} | {t.task_id for t in replayed}
            assert everybody == {*names, *(t.task_id for t in mix.displaced)}
            total += len(replayed)
        assert total <= sum(batches) * ratio + 1e-6


def test_further_copies_of_a_replayed_task_give_way_and_are_named(store: SqliteStore) -> None:
    manager, (pooled,) = with_pool(store, 1)
    mix = ExperienceMixCollateFn(manager, [pooled])
    other = HostTask("other")
    replayed, fresh = mix([pooled, pooled, other, HostTask("last")], 0.5)
    assert [task.task_id for task in replayed] == [pooled.task_id]
    assert [task.task_id for task in fresh] == ["other", "last"]
    assert mix.displaced == [pooled]
