"""Rows that lost their notes: the ratio that they train with, by hand and by gradient."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from recollect.algo.rows import Rows
from recollect.config.schema.notes import NotesSettings
from recollect.envs.registry import load_environment
from recollect.models.loading import Policy
from recollect.notes.inject import Guidance, PromptNote
from recollect.notes.strip import stripped
from recollect.rollout.episode import Request
from recollect.train.batch import Batch, ScoredRow
from recollect.train.objective import stripped_losses
from recollect.train.parts import make_collector
from recollect.train.replayed import Ratios
from recollect.train.schedule import training_tasks
from recollect.train.stripped import BareRows, look_at
from recollect.trajectory import Trajectory
from recollect.types import NoteId, RunId, Sampling, group_id, trajectory_id

from .learning import learner_of
from .replays import stored
from .small import load_small, make_config

RUN = RunId("small")
NOTE = Guidance((PromptNote(NoteId("n"), " say many letters abc"),))


@pytest.fixture(scope="module")
def guided(model: Path) -> tuple[Trajectory, ...]:
    """Four rows that the small model sampled with a note in the prompt."""
    config = make_config(model)
    environment = load_environment(config.environment.name)
    task = training_tasks(environment, config.environment)[0]
    requests = [
        Request(
            trajectory_id(RUN, 1, task.key, row), task, RUN, 1, group_id(RUN, 1, task.key),
            0, 0, row, NOTE,
        )
        for row in range(4)
    ]  # fmt: skip
    collector = make_collector(config, environment, load_small(model))
    try:
        return collector.collect(requests, Sampling()).trajectories
    finally:
        collector.close()


def batch_of(rows: tuple[Trajectory, ...], bare: bool = True) -> Batch:
    """Rows with advantages of both signs, without their notes."""
    return Batch(
        tuple(
            ScoredRow(stripped(row) if bare else row, (1.0, -0.5, 2.0, -1.0)[n], True, None, bare)
            for n, row in enumerate(rows)
        )
    )


def drift(
    policy: Policy, model: Path, folder: Path, rows: tuple[Trajectory, ...]
) -> list[np.ndarray]:
    """log pi(token | bare prompt) - log pi(token | prompt with the note), token by token."""
    learner = learner_of(policy, make_config(model), folder)
    now = learner.logprobs([stripped(row) for row in rows])
    return [each.astype("f8") - row.logprobs for each, row in zip(now, rows, strict=True)]


def test_the_note_changes_what_the_policy_thinks(
    model: Path, policy: Policy, tmp_path: Path, guided
) -> None:
    found = drift(policy, model, tmp_path, guided)
    assert max(np.abs(each).max() for each in found) > 0.01
    kept = learner_of(policy, make_config(model), tmp_path).logprobs(guided)
    same = [np.abs(each - row.logprobs).max() for each, row in zip(kept, guided, strict=True)]
    assert max(same) < 1e-4, "with the note the trainer agrees with the sampler"


def test_recorded_is_the_truncated_importance_weight(
    model: Path, policy: Policy, tmp_path: Path, guided
) -> None:
    """The loss is minus the mean of min(r, cap) A over tokens, r = pi(bare) / pi(with note)."""
    config = make_config(model, "notes.cap=1.05", "algo.entropy_coef=0")
    ratios = [np.exp(each) for each in drift(policy, model, tmp_path, guided)]
    batch = batch_of(guided)
    report = learner_of(policy, config, tmp_path).update(batch, 1)
    pulls = [row.advantage * np.minimum(r, 1.05) for row, r in zip(batch.rows, ratios, strict=True)]
    assert report.loss == pytest.approx(-np.concatenate(pulls).mean(), rel=1e-4)
    assert report.stripped is not None
    every = np.concatenate(ratios)
    assert report.stripped.ratios.mean == pytest.approx(every.mean(), rel=1e-4)
    assert report.stripped.clip_share == pytest.approx((every > 1.05).mean())
    assert report.drift is None, "no row of this batch is on-policy"
    assert report.stripped.loss == pytest.approx(report.loss)


def test_recomputed_begins_at_one(model: Path, policy: Policy, tmp_path: Path, guided) -> None:
    """As AgentEvolver does it: no weight for the change of the prompt, whatever it did."""
    config = make_config(model, "notes.ratio=recomputed")
    batch = batch_of(guided)
    report = learner_of(policy, config, tmp_path).update(batch, 1)
    tokens = [row.trajectory.sampled_count for row in batch.rows]
    plain = sum(row.advantage * n for row, n in zip(batch.rows, tokens, strict=True)) / sum(tokens)
    assert report.loss == pytest.approx(-plain, rel=1e-4)
    assert report.stripped is not None
    assert report.stripped.ratios.max > 1.0, "what is told is the true ratio all the same"


@pytest.mark.parametrize(("high", "loss"), [(0.6, -1.6), (1.0, -2.0), (2.0, -2.5)])
def test_recomputed_ratios_are_clipped_at_the_bound_of_stripped_rows(
    high: float, loss: float
) -> None:
    """Seed 002's off_cliprange_high; that of stored rows, correction.clip_high, has no say."""
    flags = ("notes.ratio=recomputed", f"notes.clip_high={high}", "correction.clip_high=0.1")
    config = make_config(Path("m"), *flags)
    old, yes = torch.tensor([-1.0]), torch.tensor([True])
    given = old + float(np.log(2.5)), old, torch.ones(1), (yes, ~yes)
    found, _ = stripped_losses(config, *given, Rows(torch.tensor([0]), 1))
    assert found.item() == pytest.approx(loss)


def gradients(policy: Policy) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in policy.trainable()}


def step(model: Path, folder: Path, batch: Batch, *flags: str) -> dict[str, torch.Tensor]:
    """What one update does to the weights of the small model."""
    policy = load_small(model)
    before = gradients(policy)
    config = make_config(model, "train.max_grad_norm=1e9", *flags)
    learner_of(policy, config, folder).update(batch, 1)
    after = gradients(policy)
    return {name: after[name] - before[name] for name in before}


def test_kept_rows_are_on_policy(model: Path, policy: Policy, tmp_path: Path, guided) -> None:
    report = learner_of(policy, make_config(model), tmp_path).update(batch_of(guided, False), 1)
    assert report.stripped is None
    assert report.drift is not None
    assert report.drift.ratio_max == pytest.approx(1, abs=1e-4)


def test_uneven_rows_are_distilled(model: Path, tmp_path: Path, guided) -> None:
    """Below the floor only good rows teach, as imitation of the policy with the note."""
    batch = batch_of(guided)
    moved = step(model, tmp_path, batch, "notes.min_ess=1.0")
    good = Batch(
        tuple(ScoredRow(row.trajectory, max(row.advantage, 0.0), True) for row in batch.rows)
    )
    by_hand = step(model, tmp_path, good, "algo.loss=reinforce")
    for name, change in moved.items():
        torch.testing.assert_close(change, by_hand[name], rtol=1e-4, atol=1e-7)


def test_the_floor_looks_at_each_row(model: Path, policy: Policy, tmp_path: Path, guided) -> None:
    found = [Ratios.of(each).ess for each in drift(policy, model, tmp_path, guided)]
    batch = batch_of(guided)
    learner = learner_of(policy, make_config(model), tmp_path)
    floor = float(np.median(found))
    looked = look_at(batch.rows, NotesSettings(min_ess=floor), learner.logprobs)
    wanted = {row.id for row, ess in zip(guided, found, strict=True) if ess < floor}
    assert looked.distilled == wanted
    assert 0 < len(wanted) < 4
    assert looked.old == {}
    nothing = look_at(batch.rows, NotesSettings(), lambda rows: pytest.fail("no pass is needed"))
    assert nothing == BareRows()


def test_stored_rows_without_notes_are_corrected_as_stored(
    model: Path, policy: Policy, tmp_path: Path, guided
) -> None:
    """A guided row that was replayed and stripped: the pool's correction, the true ratio."""
    pick = stored(guided[0], 0, drift=0.0)
    view = replace(pick, trajectory=stripped(pick.trajectory))
    row = ScoredRow(view.trajectory, 1.0, True, view, stripped=True)
    report = learner_of(policy, make_config(model), tmp_path).update(Batch((row,)), 1)
    assert report.stripped is None
    assert report.replayed is not None
    now = learner_of(load_small(model), make_config(model), tmp_path).logprobs([view.trajectory])[0]
    true = np.exp(now.astype("f8") - view.trajectory.logprobs)
    assert report.replayed.ratios.mean == pytest.approx(true.mean(), rel=1e-4)


def test_all_kinds_of_rows_in_one_update(
    model: Path, policy: Policy, tmp_path: Path, guided
) -> None:
    """Fresh, kept, stripped and stored rows have masks of their own, and together add up."""
    fresh, kept, bare, old = guided
    pick = stored(old, 0)
    rows = (
        ScoredRow(replace(stripped(fresh), logprobs=_now(model, tmp_path, fresh)), 1.0, True),
        ScoredRow(kept, -1.0, True),
        ScoredRow(stripped(bare), 0.5, True, None, True),
        ScoredRow(pick.trajectory, 2.0, True, pick),
    )
    report = learner_of(policy, make_config(model), tmp_path).update(Batch(rows), 1)
    assert report.rows == 4
    assert report.drift is not None
    assert report.stripped is not None
    assert report.replayed is not None
    assert report.drift.ratio_max == pytest.approx(1, abs=1e-3)
    parts = report.stripped.loss + report.replayed.loss
    on_policy = [(1.0, rows[0]), (-1.0, rows[1])]
    total = sum(row.trajectory.sampled_count for row in rows)
    by_hand = -sum(a * row.trajectory.sampled_count for a, row in on_policy) / total
    assert report.loss == pytest.approx(parts + by_hand, rel=1e-3, abs=1e-5)


def _now(model: Path, folder: Path, row: Trajectory) -> np.ndarray:
    learner = learner_of(load_small(model), make_config(model), folder)
    return np.minimum(learner.logprobs([stripped(row)])[0], 0.0)
