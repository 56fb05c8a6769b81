"""The key property: rows move, vanish and repeat between the stages; their values stay theirs.

A host builds a batch, drops rows to fit a world size or pads it, balances it across ranks, runs
a log-prob pass over what is left, and saves. The original joins the results by position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from integrations.hosts import SETTINGS, HostTask, manager_of, new_store
from recollect.integrations.agentevolver import (
    HostRow,
    PaddedBatch,
    Sample,
    replace_recorded_old_log_probs,
    samples_to_dataproto,
)

PAD = 0
EVERYTHING = replace(SETTINGS, experience_lbound=None, experience_rbound=None, seed=11)


@dataclass(frozen=True)
class Way:
    """What happens to the lines of a batch on the way: which are left, in which order."""

    lines: list[int]
    multiple_of: int


@st.composite
def host_rows(draw: st.DrawFn) -> list[HostRow]:
    """A few tasks with groups of rows of any shape; one row of each fails, so none retires."""
    rows = []
    for task in range(draw(st.integers(1, 3))):
        for attempt in range(draw(st.integers(2, 4))):
            mask = draw(st.lists(st.integers(0, 1), min_size=1, max_size=7).filter(any))
            tokens = st.integers(1, 10_000)
            rows.append(
                HostRow(
                    task_id=f"task-{task}",
                    rollout_id=attempt,
                    prompt_ids=draw(st.lists(tokens, min_size=1, max_size=5)),
                    response_ids=draw(
                        st.lists(tokens, min_size=len(mask), max_size=len(mask), unique=True)
                    ),
                    loss_mask=mask,
                    reward=0.0 if attempt == 0 else 1.0,
                )
            )
    return rows


@st.composite
def ways(draw: st.DrawFn, count: int) -> Way:
    multiple_of = draw(st.sampled_from([1, 2, 4]))
    padded = count + -count % multiple_of
    lines = draw(st.permutations(range(padded)))
    dropped = draw(st.integers(0, padded - 1))
    repeated = draw(st.lists(st.sampled_from(lines[dropped:]), max_size=3))
    return Way([*lines[dropped:], *repeated], multiple_of)


def forward(batch: PaddedBatch, lines: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Pretend to run a model: log-probs and entropies that follow from a line's own tokens."""
    tokens = batch.batch["responses"][lines].double()
    start = batch.batch["input_ids"][lines].double().sum(dim=1, keepdim=True)
    return -torch.sin(tokens + start).abs().float(), torch.cos(tokens + start).abs().float()


def expected_of(sample: Sample) -> tuple[bytes, bytes]:
    tokens = torch.from_numpy(sample.response_ids.astype(np.float64))
    start = float(sample.tokens.astype(np.float64).sum())
    values = -torch.sin(tokens + start).abs().float(), torch.cos(tokens + start).abs().float()
    log_probs, entropies = (value.numpy()[sample.loss_mask].tobytes() for value in values)
    return log_probs, entropies


@settings(max_examples=60, deadline=None)
@given(data=st.data(), rows=host_rows())
def test_what_is_stored_for_a_surviving_row_never_changes(
    data: st.DataObject, rows: list[HostRow]
) -> None:
    way = data.draw(ways(len(rows)))
    shuffled = data.draw(st.permutations(rows))
    with new_store() as store:
        manager = manager_of(store, EVERYTHING)
        manager.update_difficulty2task_dict(rows)
        before = manager.difficulty2task_dict
        samples = manager.samples(rows)
        batch = samples_to_dataproto(samples, PAD, multiple_of=way.multiple_of)
        log_probs, entropys = forward(batch, way.lines)
        row_ids = batch.non_tensor_batch["row_ids"][way.lines]
        kept = manager.update_skip_uid_set_and_filter_trajectories(
            shuffled,
            8,
            entropys,
            batch.batch["response_mask"][way.lines],
            old_log_probs=log_probs,
            row_ids=row_ids,
            responses=batch.batch["responses"][way.lines],
        )
        report = manager.save_trajectories_to_memory(kept)
        assert manager.difficulty2task_dict == before  # dropping rows changes no count

        winners = {sample.id: sample for sample in samples if sample.success}
        survivors = {id_: winners[id_] for id_ in row_ids if id_ in winners}
        twins = {(s.task.key, s.tokens.tobytes()) for s in survivors.values()}
        stored = {t.id: t for found in manager.task2trajectories.values() for t in found}
        assert stored.keys() <= survivors.keys()
        assert len(stored) == report.saved == len(twins)
        assert report.without_log_probs == len(winners) - len(survivors)
        for id_, record in stored.items():
            sample = survivors[id_]
            assert record.tokens.tobytes() == sample.tokens.tobytes()
            assert record.sampled.tobytes() == sample.sampled.tobytes()
            assert record.logprobs is not None
            assert record.entropies is not None
            values = record.logprobs.tobytes(), record.entropies.tobytes()
            assert values == expected_of(sample)
            assert record.task == sample.task.key
            assert record.group == sample.group


@settings(max_examples=40, deadline=None)
@given(data=st.data(), rows=host_rows())
def test_recorded_log_probs_land_on_their_tokens_after_any_way(
    data: st.DataObject, rows: list[HostRow]
) -> None:
    with new_store() as store:
        manager = manager_of(store, replace(EVERYTHING, deduplicate=False))
        samples = manager.samples(rows)
        batch = samples_to_dataproto(samples, PAD)
        log_probs, entropys = forward(batch, range(len(rows)))
        kept = manager.update_skip_uid_set_and_filter_trajectories(
            rows,
            8,
            entropys,
            old_log_probs=log_probs,
            row_ids=batch.non_tensor_batch["row_ids"],
        )
        manager.save_trajectories_to_memory(kept)
        manager.begin_step(2)
        tasks = [HostTask(uid) for uid in manager.get_valid_replay_task_ids()]
        replayed = manager.get_offpolicy_batch(tasks, 2)
        both = [*replayed, *manager.samples(rows)]
        way = data.draw(ways(len(both)))
        wide = data.draw(st.integers(0, 3))  # the batch may be wider than any row in it
        again = samples_to_dataproto(
            both,
            PAD,
            multiple_of=way.multiple_of,
            max_response_length=7 + wide,
            max_prompt_length=5 + wide,
        )
        columns = {name: column[way.lines] for name, column in again.batch.items()}
        ids = again.non_tensor_batch["row_ids"][way.lines]
        current = torch.full(columns["responses"].shape, -99.0)
        done = replace_recorded_old_log_probs(columns, current)
        recorded = {sample.id: sample for sample in replayed}
        for line, id_ in enumerate(ids):
            expected = np.full(current.shape[1], -99.0, np.float32)
            if id_ in recorded:
                sample = recorded[id_]
                expected[np.flatnonzero(sample.loss_mask)] = sample.logprobs
            assert done.old_log_probs[line].numpy().tobytes() == expected.tobytes()
        assert done.missing == 0
