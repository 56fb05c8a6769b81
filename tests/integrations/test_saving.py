"""Saving rows: capacity, repeats, missing values, and what is stored."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from integrations.hosts import (
    SETTINGS,
    finish_step,
    group,
    manager_of,
    row,
)
from recollect.errors import InvalidRecord, StoreConflict
from recollect.integrations.agentevolver import (
    ExperienceManager,
)
from recollect.ledger import Mark
from recollect.store.records import Batch
from recollect.store.sqlite import SqliteStore
from recollect.types import Action, Origin, SegmentKind


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


def test_a_kind_that_does_not_exist_is_named_with_its_row(store: SqliteStore) -> None:
    manager = manager_of(store)
    spans = [("system", 3), ("robot", 2), ("tool", 2), ("assistant", 1)]
    with pytest.raises(InvalidRecord, match=r"robot.*assistant"):
        manager.save_trajectories_to_memory([replace(row("a"), segments=spans)])
    assert not manager.task2trajectories.get("a")
