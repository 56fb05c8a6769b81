"""Padded tensors: every value on the token it belongs to, nothing made up."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from integrations.hosts import SETTINGS, HostTask, finish_step, group, manager_of, row
from recollect.errors import InvalidRecord
from recollect.integrations.agentevolver import (
    ExperienceManager,
    HostRow,
    RowMismatch,
    Sample,
    get_extra,
    replace_recorded_old_log_probs,
    samples_to_dataproto,
)
from recollect.store.sqlite import SqliteStore

PAD = 0


def mixed(store: SqliteStore, **settings: object) -> tuple[ExperienceManager, list[Sample]]:
    """Make two replayed rows of one task, and two shorter fresh ones."""
    manager = manager_of(store, replace(SETTINGS, **settings))
    finish_step(manager, group("a", 2))
    manager.begin_step(2)
    replayed = manager.get_offpolicy_batch([HostTask("a")], 2)
    short = HostRow("a", [7, 8], [9, 10, 11], [0, 1, 1], 0.0, rollout_id=5, log_probs=[0, -1, -2])
    unknown = replace(short, rollout_id=6, log_probs=None, response_ids=[9])
    return manager, [*replayed, *manager.samples([short, replace(unknown, loss_mask=[1])])]


def test_the_columns(store: SqliteStore) -> None:
    _, samples = mixed(store)
    made = samples_to_dataproto(samples, PAD)
    batch = {name: column.tolist() for name, column in made.batch.items()}
    assert batch["prompts"][0] == [1, 2, 3]
    assert batch["prompts"][2] == [PAD, 7, 8]
    assert batch["responses"][2] == [9, 10, 11, PAD, PAD]
    assert batch["input_ids"][2] == [PAD, 7, 8, 9, 10, 11, PAD, PAD]
    assert batch["attention_mask"][2] == [0, 1, 1, 1, 1, 1, 0, 0]
    assert batch["position_ids"][2] == [0, 0, 1, 2, 3, 4, 4, 4]
    assert batch["loss_mask"][0] == [0, 0, 0, 1, 1, 0, 0, 1]
    assert batch["loss_mask"][2] == [0, 0, 0, 0, 1, 1, 0, 0]
    assert batch["response_mask"][0] == [1, 1, 1, 1, 1]
    assert batch["response_mask"][2] == [1, 1, 1, 0, 0]
    assert batch["exp_mask"][0] == batch["loss_mask"][0]
    assert batch["exp_mask"][2] == [0] * 8
    assert batch["recorded_mask"][2] == [False, True, True, False, False]
    assert batch["recorded_mask"][3] == [False] * 5
    assert batch["reward_scores"] == [1.0, 1.0, 0.0, 0.0]
    assert len(set(batch["group_ids"])) == len(set(made.non_tensor_batch["uid"])) == 1
    assert made.non_tensor_batch["row_ids"].tolist() == [s.id for s in samples]
    assert len(made) == 4


def test_recorded_log_probs_are_on_their_tokens_and_nowhere_else(store: SqliteStore) -> None:
    _, samples = mixed(store)
    batch = samples_to_dataproto(samples, PAD).batch
    recorded, known = batch["recorded_old_log_probs"], batch["recorded_mask"]
    for line, sample in enumerate(samples):
        places = np.flatnonzero(sample.loss_mask)
        expected = [] if sample.logprobs is None else sample.logprobs.tolist()
        assert recorded[line][known[line]].tolist() == expected
        if expected:
            assert np.flatnonzero(known[line].numpy()).tolist() == places.tolist()
    assert bool(torch.isnan(recorded[~known]).all())  # whoever forgets the mask sees it


def test_limits(store: SqliteStore) -> None:
    _, samples = mixed(store)
    batch = samples_to_dataproto(samples, PAD, max_prompt_length=6, max_response_length=4).batch
    assert batch["prompts"].shape == (4, 6)
    assert batch["responses"].shape == (4, 4)
    assert batch["recorded_mask"][0].tolist() == [True, True, False, False]
    assert samples[0].logprobs is not None
    kept = batch["recorded_old_log_probs"][0][:2].tolist()
    assert kept == samples[0].logprobs[:2].tolist()
    with pytest.raises(InvalidRecord, match="more than 2"):
        samples_to_dataproto(samples, PAD, max_prompt_length=2)
    with pytest.raises(InvalidRecord, match="samples"):
        samples_to_dataproto([], PAD)


def test_padding_to_a_world_size_trains_nothing(store: SqliteStore) -> None:
    _, samples = mixed(store)
    plain, padded = (samples_to_dataproto(samples[:3], PAD, multiple_of=n) for n in (1, 4))
    assert len(padded) == 4
    for name, column in plain.batch.items():
        assert torch.equal(torch.nan_to_num(padded.batch[name][:3]), torch.nan_to_num(column))
    assert padded.non_tensor_batch["row_ids"][3] == ""
    assert padded.non_tensor_batch["uid"][3] not in plain.non_tensor_batch["uid"]
    assert int(padded.batch["loss_mask"][3].sum()) == 0
    assert int(padded.batch["exp_mask"][3].sum()) == 0
    assert not padded.batch["recorded_mask"][3].any()
    assert int(padded.batch["attention_mask"][3].sum()) > 0  # a model can read it


def test_participation_as_in_seed_004(store: SqliteStore) -> None:
    _, samples = mixed(store)
    batch = samples_to_dataproto(samples, PAD, participation="baseline").batch
    assert batch["loss_mask"].sum(dim=1).tolist() == [0, 0, 2, 1]
    assert batch["exp_mask"].sum(dim=1).tolist() == [3, 3, 0, 0]


def test_extras(store: SqliteStore) -> None:
    _, samples = mixed(store)
    extras = samples_to_dataproto(samples, PAD).non_tensor_batch["extras"]
    assert extras[0] == get_extra(samples[0])
    assert extras[0]["is_experience_replay"]
    assert extras[0]["policy_version"] == 1
    assert extras[0]["entropy"] == 0.5
    assert extras[3]["entropy"] is None
    assert not extras[3]["has_old_log_probs"]


def test_replacing_old_log_probs(store: SqliteStore) -> None:
    _, samples = mixed(store)
    batch = samples_to_dataproto(samples, PAD).batch
    current = torch.full((4, 5), -7.0)
    done = replace_recorded_old_log_probs(batch, current)
    assert (done.replaced, done.missing) == (6, 0)
    for line, sample in enumerate(samples):
        expected = np.full(5, -7.0, np.float32)
        if sample.is_experience_replay:
            expected[np.flatnonzero(sample.loss_mask)] = sample.logprobs
        assert done.old_log_probs[line].tolist() == expected.tolist()
    assert bool(torch.isfinite(done.old_log_probs).all())
    assert bool((current == -7.0).all())  # the given one is not written to


def test_missing_log_probs_never_become_zero(store: SqliteStore) -> None:
    manager = manager_of(store, replace(SETTINGS, missing_log_probs="demo"))
    manager.save_trajectories_to_memory([row("a", 0, log_probs=False)])
    (demo,) = manager.get_offpolicy_trajectories_from_memory("a")
    batch = samples_to_dataproto([demo], PAD).batch
    current = torch.full((1, 5), -7.0)
    done = replace_recorded_old_log_probs(batch, current)
    assert (done.replaced, done.missing) == (0, 3)
    assert torch.equal(done.old_log_probs, current)
    with pytest.raises(RowMismatch, match="3 replayed tokens"):
        replace_recorded_old_log_probs(batch, current, missing="refuse")
    with pytest.raises(RowMismatch, match="shape"):
        replace_recorded_old_log_probs(batch, current[:, :4])


def test_low_precision_columns_are_read(store: SqliteStore) -> None:
    manager = manager_of(store)
    rows = manager.samples(group("a", 1, entropy=None, log_probs=False))
    made = samples_to_dataproto(rows, PAD)
    values = torch.full((8, 5), -0.5, dtype=torch.bfloat16, requires_grad=True)
    (kept,) = manager.update_skip_uid_set_and_filter_trajectories(
        rows,
        8,
        -values,
        made.batch["response_mask"],
        old_log_probs=values,
        row_ids=made.non_tensor_batch["row_ids"],
        responses=made.batch["responses"],
    )
    assert kept.entropy == 0.5
    assert kept.logprobs is not None
    assert kept.logprobs.tolist() == [-0.5] * 3


def test_importing_needs_no_torch() -> None:
    code = "import sys, recollect.integrations.agentevolver; print('torch' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "False"
