"""Values of a batch pass, and the host's own objects, joined to rows by id and attribute."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from integrations.hosts import (
    SETTINGS,
    finish_step,
    foreign,
    group,
    manager_of,
    row,
)
from recollect.errors import InvalidRecord
from recollect.integrations.agentevolver import (
    ExperienceManager,
    RowMismatch,
)
from recollect.store.sqlite import SqliteStore


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
