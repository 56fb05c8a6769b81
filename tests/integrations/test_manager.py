"""Seed 000's methods: what each promises, and the golden examples of the reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from integrations.hosts import (
    SETTINGS,
    HostTask,
    finish_step,
    foreign,
    group,
    manager_of,
    new_store,
    row,
)
from recollect.errors import InvalidRecord, StoreConflict
from recollect.integrations.agentevolver import (
    ExperienceManager,
    ExperienceSettings,
    GroupChanged,
    RowMismatch,
    StepOutOfOrder,
)
from recollect.ledger import Mark
from recollect.store.records import Batch, Query
from recollect.store.sqlite import SqliteStore
from recollect.types import Action, Origin, RunId, SegmentKind, Status, TrajectoryId


@pytest.fixture
def store() -> Iterator[SqliteStore]:
    with new_store() as store:
        yield store


# -- difficulty, retirement, filter ---------------------------------------------------------


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


# -- saving ---------------------------------------------------------------------------------


def entropies(manager: ExperienceManager, task: str = "a") -> list[float | None]:
    found = [t.mean_entropy for t in manager.task2trajectories[task]]
    return [None if value is None else round(value, 3) for value in found]


@pytest.mark.parametrize(
    ("mode", "kept"),
    [
        ("argmin", [0.4, 0.2, 0.1]),
        ("argmax", [0.4, 0.9, 0.6]),
        ("random", [0.6, 0.1, None]),
        ("newest", [0.6, 0.1, None]),
    ],
)
def test_the_capacity_of_a_task(store: SqliteStore, mode: str, kept: list[float | None]) -> None:
    settings = replace(SETTINGS, max_trajectories_per_task=3, exp_select_mode=mode)
    manager = manager_of(store, settings)
    arriving = (0.4, 0.9, 0.2, 0.6, 0.1, None)
    reports = []
    for number, entropy in enumerate(arriving):
        rows = [row("a", number, entropy=entropy)]
        reports.append(manager.save_trajectories_to_memory(rows))
        assert len(manager.task2trajectories["a"]) <= 3
    assert entropies(manager) == kept
    lost = sum(report.crowded_out + report.evicted for report in reports)
    assert lost == len(arriving) - 3


def test_capacity_is_the_same_in_one_save_or_many(store: SqliteStore) -> None:
    settings = replace(SETTINGS, max_trajectories_per_task=3)
    manager = manager_of(store, settings)
    rows = [row("a", n, entropy=e) for n, e in enumerate((0.4, 0.9, 0.2, 0.6, 0.1, None))]
    report = manager.save_trajectories_to_memory(rows)
    assert (report.saved, report.crowded_out, report.evicted) == (3, 3, 0)
    assert entropies(manager) == [0.4, 0.2, 0.1]


def test_an_unknown_entropy_is_worst_under_either_rule(store: SqliteStore) -> None:
    for mode in ("argmin", "argmax"):
        settings = replace(SETTINGS, max_trajectories_per_task=1, exp_select_mode=mode)
        manager = manager_of(store, settings, run=mode)
        task = f"of-{mode}"
        manager.save_trajectories_to_memory([row(task, 0, entropy=None)])
        assert entropies(manager, task) == [None]
        manager.save_trajectories_to_memory([row(task, 1, entropy=0.0)])
        assert entropies(manager, task) == [0.0]
        report = manager.save_trajectories_to_memory([row(task, 2, entropy=None)])
        assert report.crowded_out == 1
        assert entropies(manager, task) == [0.0]


def test_rows_too_old_make_room_first(store: SqliteStore) -> None:
    settings = replace(SETTINGS, max_trajectories_per_task=2, max_age=5)
    manager = manager_of(store, settings)
    manager.save_trajectories_to_memory([row("a", 0, entropy=0.1), row("a", 1, entropy=0.2)])
    manager.begin_step(9)
    manager.save_trajectories_to_memory([row("a", 0, entropy=0.9, seed=1)])
    assert entropies(manager) == [0.1, 0.9]


def test_pinned_rows_keep_their_place(store: SqliteStore) -> None:
    manager = manager_of(store, replace(SETTINGS, max_trajectories_per_task=1))
    manager.save_trajectories_to_memory([row("a", 0, entropy=0.9)])
    (stored,) = manager.task2trajectories["a"]
    store.commit(Batch(marks=[Mark(stored.id, Action.PIN, "mine")]))
    manager.begin_step(2)
    assert manager.save_trajectories_to_memory([row("a", 1, entropy=0.1)]).crowded_out == 1
    assert [t.id for t in manager.task2trajectories["a"]] == [stored.id]


def test_the_same_tokens_again_replace_the_older_row(store: SqliteStore) -> None:
    manager = manager_of(store)
    first = row("a", 0)
    manager.save_trajectories_to_memory([first, replace(first, rollout_id=1)])
    (old,) = manager.task2trajectories["a"]
    manager.begin_step(2)
    report = manager.save_trajectories_to_memory([first])
    (new,) = manager.task2trajectories["a"]
    assert (report.saved, report.evicted, report.repeated) == (1, 1, 0)
    assert (old.policy_version, new.policy_version) == (1, 2)


def test_saving_twice_changes_nothing(store: SqliteStore) -> None:
    manager = manager_of(store)
    rows = group("a", 3)
    finish_step(manager, rows)
    before = list(manager.task2trajectories["a"])
    finish_step(manager, rows)
    assert list(manager.task2trajectories["a"]) == before
    changed = replace(rows[0], log_probs=[-9.0] * 5)
    with pytest.raises(StoreConflict):
        manager.save_trajectories_to_memory([changed])
    assert list(manager.task2trajectories["a"]) == before


def test_rows_without_log_probs_are_dropped_and_counted(store: SqliteStore) -> None:
    manager = manager_of(store)
    rows = [row("a", 0), row("a", 1, log_probs=False)]
    report = manager.save_trajectories_to_memory(rows)
    assert (report.saved, report.without_log_probs) == (1, 1)
    assert len(manager.task2trajectories["a"]) == 1


def test_or_they_are_kept_as_demos(store: SqliteStore) -> None:
    manager = manager_of(store, replace(SETTINGS, missing_log_probs="demo"))
    manager.update_difficulty2task_dict(group("a", 3))
    assert manager.save_trajectories_to_memory([row("a", 1, log_probs=False)]).saved == 1
    (sample,) = manager.get_offpolicy_trajectories_from_memory("a")
    assert sample.logprobs is None
    assert sample.stored is not None
    assert sample.stored.origin is Origin.DEMO


def test_what_is_stored_is_what_was_sampled(store: SqliteStore) -> None:
    manager = manager_of(store)
    given = row("a", 0, entropy=0.25)
    manager.save_trajectories_to_memory([given])
    (stored,) = manager.task2trajectories["a"]
    assert stored.tokens.tolist() == [*given.prompt_ids, *given.response_ids]
    assert stored.sampled.tolist() == [False] * 3 + [True, True, False, False, True]
    assert given.log_probs is not None
    expected = np.array([given.log_probs[n] for n in (0, 1, 4)], np.float32)
    assert stored.logprobs is not None
    assert stored.logprobs.tobytes() == expected.tobytes()
    assert stored.mean_entropy == 0.25  # the tool's tokens have no say
    kinds = [(segment.kind, segment.end - segment.start) for segment in stored.segments]
    user, assistant, tool = SegmentKind.USER, SegmentKind.ASSISTANT, SegmentKind.TOOL
    assert kinds == [(user, 3), (assistant, 2), (tool, 2), (assistant, 1)]
    (sample,) = manager.get_offpolicy_trajectories_from_memory("a")
    assert sample.prompt_length == 3
    assert sample.is_experience_replay
    assert not list(store.verify())


def test_segments_of_the_host_are_kept(store: SqliteStore) -> None:
    manager = manager_of(store)
    # A canned assistant reply in the prompt must not move the split.
    spans = [("system", 1), ("assistant", 2), ("assistant", 2), ("tool", 2), ("assistant", 1)]
    manager.save_trajectories_to_memory([replace(row("a"), segments=spans)])
    (sample,) = manager.get_offpolicy_trajectories_from_memory("a")
    assert [s.kind.value for s in sample.segments] == [kind for kind, _ in spans]
    assert sample.prompt_length == 3


# -- reading the pool -----------------------------------------------------------------------


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


# -- joining by id --------------------------------------------------------------------------


def test_columns_need_row_ids(store: SqliteStore) -> None:
    manager = manager_of(store)
    with pytest.raises(RowMismatch, match="row_ids"):
        manager.update_skip_uid_set_and_filter_trajectories(group("a", 3), 8, np.zeros((8, 5)))
    with pytest.raises(RowMismatch, match="shape"):
        manager.update_skip_uid_set_and_filter_trajectories(
            group("a", 3), 8, np.zeros((8, 5)), row_ids=["x"]
        )


def test_a_line_with_other_tokens_is_refused(store: SqliteStore) -> None:
    manager = manager_of(store)
    rows = manager.samples(group("a", 2, rows=2, log_probs=False))
    responses = np.array([s.response_ids for s in rows])
    columns = {"old_log_probs": np.full((2, 5), -1.0), "responses": responses}
    swapped = [rows[1].id, rows[0].id]
    with pytest.raises(RowMismatch, match="other tokens"):
        manager.update_skip_uid_set_and_filter_trajectories(rows, row_ids=swapped, **columns)
    short = np.array([[1, 1, 1, 0, 0]] * 2)
    with pytest.raises(RowMismatch, match="leaves out"):
        manager.update_skip_uid_set_and_filter_trajectories(
            rows, 8, None, short, row_ids=[s.id for s in rows]
        )
    assert manager.difficulty2task_dict == {}  # refused before anything was counted


def test_values_recorded_while_sampling_stay(store: SqliteStore) -> None:
    manager = manager_of(store)
    rows = manager.samples([row("a", 0, entropy=0.25), row("a", 1, entropy=None), *group("b", 0)])
    ids = [s.id for s in rows]
    late = np.full((len(ids), 5), 3.0)
    kept = manager.update_skip_uid_set_and_filter_trajectories(
        [*rows, row("a", 2, False)], 8, late, old_log_probs=-late, row_ids=ids
    )
    assert [s.entropy for s in kept] == [0.25, 3.0]
    assert all(s.logprobs is not None and s.logprobs.max() > -3.0 for s in kept)


def test_a_response_cut_short_has_no_log_probs(store: SqliteStore) -> None:
    manager = manager_of(store)
    rows = manager.samples(group("a", 1, log_probs=False))
    cut = np.full((8, 4), -1.0)  # the fifth token was sampled too
    kept = manager.update_skip_uid_set_and_filter_trajectories(
        rows, old_log_probs=cut, row_ids=[s.id for s in rows]
    )
    report = manager.save_trajectories_to_memory(kept)
    assert (report.saved, report.without_log_probs) == (0, 1)


# -- the host's own objects -----------------------------------------------------------------


class Reward:
    outcome = 1.0
    success_rate = 1.0


def test_the_host_objects_are_read_by_attribute(store: SqliteStore) -> None:
    manager = manager_of(store)
    given = foreign(row("a", 0), reward=Reward(), steps=["ignored"])
    failed = foreign(row("a", 1, False))
    assert finish_step(manager, [given, failed]) == 1


def test_an_adapter_reads_anything(store: SqliteStore) -> None:
    manager = ExperienceManager(store, "host", SETTINGS, adapter=lambda given: given["row"])
    manager.begin_step(1)
    assert finish_step(manager, [{"row": each} for each in group("a", 2)]) == 2


def test_success_is_one_predicate(store: SqliteStore) -> None:
    manager = manager_of(store)
    half = replace(row("a", 0), reward=0.5)
    rows = [half, replace(half, rollout_id=1, success=True), replace(half, rollout_id=2)]
    assert [s.success for s in manager.samples(rows)] == [False, True, False]
    lenient = manager_of(store, replace(SETTINGS, success_threshold=0.5), run="lenient")
    assert lenient.samples([half])[0].success


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("loss_mask", [1, 1, 0]),
        ("loss_mask", [1, 2, 0, 0, 1]),
        ("loss_mask", [0, 0, 0, 0, 0]),
        ("log_probs", [-1.0]),
        ("log_probs", [float("nan")] * 5),
        ("tokens", None),
    ],
)
def test_rows_that_do_not_fit_are_refused(store: SqliteStore, field: str, value: object) -> None:
    manager = manager_of(store)
    change = {"prompt_ids": [-1]} if field == "tokens" else {field: value}
    with pytest.raises(InvalidRecord, match=field):
        manager.samples([replace(row("a"), **change)])


def test_a_missing_attribute_is_named(store: SqliteStore) -> None:
    given = foreign(row("a"))
    del given.loss_mask
    with pytest.raises(InvalidRecord, match=r"loss_mask.*adapter"):
        manager_of(store).samples([given])


# -- steps and the disk ---------------------------------------------------------------------


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
