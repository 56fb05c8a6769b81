"""The critic: what it reads, whom its gradient reaches, and that it can be saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recollect.errors import BadConfig
from recollect.models.loading import Lora, Policy, load_policy
from recollect.train.batch import Batch
from recollect.train.crediting import Crediting
from recollect.train.critic import CriticLearner
from recollect.train.drawn import Drawn
from recollect.train.guards import Guard
from recollect.train.learner import Learner
from recollect.train.parts import critic_from

from .replays import stored
from .small import collect_rows, load_small, make_config

GAE = ("algo.advantage=gae", "rollout.rows_per_task=3")


def make(
    model: Path, tmp_path: Path, *flags: str
) -> tuple[Policy, CriticLearner, Learner, Crediting, Any]:
    config = make_config(model, *GAE, *flags)
    policy = load_small(model)
    critic = critic_from(config, policy)
    assert critic is not None
    learner = Learner(policy, config, Guard(tmp_path / "bad", 3), None, critic)
    return policy, critic, learner, Crediting(config, learner), config


def batch_of(policy: Policy, crediting: Crediting, config: Any) -> Batch:
    return crediting.score(collect_rows(policy, config), Drawn())


def test_no_other_advantage_has_a_critic(model: Path) -> None:
    config = make_config(model)
    assert critic_from(config, load_small(model)) is None


def test_before_the_first_update_every_value_is_zero(model: Path, tmp_path: Path) -> None:
    policy, _, learner, _, config = make(model, tmp_path)
    rows = collect_rows(policy, config)
    assert [v.shape for v in learner.values(rows)] == [(t.sampled_count,) for t in rows]
    assert all((v == 0).all() for v in learner.values(rows))


@pytest.mark.parametrize("kind", ["head", "model"])
def test_a_value_is_of_the_state_before_its_token(model: Path, tmp_path: Path, kind: str) -> None:
    """Packed or alone, of one turn or of two: the hidden state that predicts the token."""
    policy, critic, learner, _, config = make(model, tmp_path, f"critic.kind={kind}")
    head = critic.critic.head
    with torch.no_grad():
        head.weight.copy_(torch.linspace(-1, 1, head.in_features)[None])
        head.bias.fill_(0.25)
    rows = collect_rows(policy, config)
    assert any((np.diff(np.flatnonzero(t.sampled)) > 1).any() for t in rows), "two turns"
    for row, found in zip(rows, learner.values(rows), strict=True):
        ids = torch.from_numpy(row.tokens.astype(np.int64))[None]
        with torch.no_grad():
            hidden = policy.model.model(input_ids=ids, use_cache=False).last_hidden_state[0]
            expected = head(hidden)[:, 0].numpy()
        before = np.flatnonzero(row.sampled) - 1
        assert found == pytest.approx(expected[before], abs=2e-5)


@pytest.mark.parametrize(
    ("flags", "reaches"),
    [
        (("critic.policy_weight=0",), False),
        (("critic.policy_weight=0.5",), True),
        (("critic.kind=model", "critic.policy_weight=0.5"), False),
    ],
)
def test_whom_the_value_loss_reaches(
    model: Path, tmp_path: Path, flags: tuple[str, ...], reaches: bool
) -> None:
    """The policy's step is that of a run whose critic does not learn, unless it is told to."""
    moved = []
    for rate in ("0", "0.05"):
        policy, critic, learner, crediting, config = make(
            model, tmp_path, *flags, f"critic.learning_rate={rate}", "train.learning_rate=0.01"
        )
        with torch.no_grad():
            critic.critic.head.weight.fill_(0.1)
        batch = batch_of(policy, crediting, config)
        before = critic.critic.head.weight.clone()
        for step in (1, 2):
            learner.update(batch, step)
        assert (rate == "0") == bool((critic.critic.head.weight == before).all())
        moved.append({n: p.detach().clone() for n, p in policy.trainable()})
    # A frozen head still sends a gradient through the policy; one that learns sends another.
    same = all(torch.equal(moved[0][name], moved[1][name]) for name in moved[0])
    assert same != reaches


def test_a_trunk_of_its_own_learns(model: Path, tmp_path: Path) -> None:
    policy, critic, learner, crediting, config = make(model, tmp_path, "critic.kind=model")
    before = {n: p.detach().clone() for n, p in critic.critic.named_parameters()}
    assert sum(name.startswith("trunk.") for name in before) > 5
    for step in (1, 2):
        learner.update(batch_of(policy, crediting, config), step)
    changed = [n for n, p in critic.critic.named_parameters() if not torch.equal(p, before[n])]
    assert any(name.startswith("trunk.") for name in changed)
    assert "head.weight" in changed


def test_a_trunk_begins_with_the_policys_adapter_and_learns_whole(
    model: Path, tmp_path: Path
) -> None:
    trained = load_policy(str(model), lora=Lora(2, 4.0))
    with torch.no_grad():
        for _, parameter in trained.trainable():
            parameter.fill_(0.1)
    trained.save(tmp_path / "adapter")
    policy = load_policy(str(tmp_path / "adapter"))
    config = make_config(tmp_path / "adapter", *GAE, "critic.kind=model", "model.lora.rank=2")
    critic = critic_from(config, policy)
    assert critic is not None
    learner = Learner(policy, config, Guard(tmp_path / "bad", 3), None, critic)
    assert all(p.requires_grad for p in critic.critic.parameters())
    trained.merge()
    mine, theirs = critic.critic.trunk.state_dict(), trained.model.model.state_dict()
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    report = learner.update(batch_of(policy, Crediting(config, learner), config), 1)
    assert report.critic is not None


def test_the_value_loss_by_hand(model: Path, tmp_path: Path) -> None:
    """Before the first update values are 0: half the mean square of the returns, over tokens."""
    policy, _, learner, crediting, config = make(model, tmp_path, "critic.clip=none")
    batch = batch_of(policy, crediting, config)
    report = learner.update(batch, 1)
    returns = np.concatenate([row.credit.returns for row in batch.rows if row.credit])
    assert report.critic is not None
    assert report.critic.loss == pytest.approx(0.5 * float((returns**2).mean()), rel=1e-5)
    assert report.loss == pytest.approx(0.0, abs=1e-6)  # whitened advantages at ratio 1


def test_stored_rows_weigh_in_the_value_loss_by_their_priority_weight(
    model: Path, tmp_path: Path
) -> None:
    losses = []
    for weight in (1.0, 0.25):
        policy, _, learner, crediting, config = make(model, tmp_path, "critic.clip=none")
        rows = collect_rows(policy, config)
        pick = stored(rows[0], 0, weight=weight, mode="buffer")
        batch = crediting.score((), Drawn((), ((pick,),)))
        report = learner.update(batch, 1)
        assert report.critic is not None
        losses.append(report.critic.loss)
    assert losses[0] > 0
    assert losses[1] == pytest.approx(0.25 * losses[0])


def test_a_checkpoint_without_a_critic_is_refused(model: Path, tmp_path: Path) -> None:
    _, critic, _, _, _ = make(model, tmp_path)
    with pytest.raises(BadConfig, match=r"has no critic: algo\.advantage was changed"):
        critic.restore(tmp_path)


@pytest.mark.parametrize(("before", "now"), [("head", "model"), ("model", "head")])
def test_a_checkpoint_of_another_critic_is_refused(
    model: Path, tmp_path: Path, before: str, now: str
) -> None:
    """And nothing of it is taken: the layer of one critic says nothing to another."""
    policy, critic, learner, crediting, config = make(model, tmp_path, f"critic.kind={before}")
    learner.update(batch_of(policy, crediting, config), 1)
    critic.save(tmp_path)
    _, other, _, _, _ = make(model, tmp_path, f"critic.kind={now}")
    with pytest.raises(BadConfig, match=r"another critic: critic\.kind"):
        other.restore(tmp_path)
    assert not other.critic.head.weight.any()


@pytest.mark.parametrize("kind", ["head", "model"])
def test_saved_and_restored(model: Path, tmp_path: Path, kind: str) -> None:
    flags = (f"critic.kind={kind}",)
    policy, critic, learner, crediting, config = make(model, tmp_path, *flags)
    batch = batch_of(policy, crediting, config)
    learner.update(batch, 1)
    critic.save(tmp_path)
    _, other, _, _, _ = make(model, tmp_path, *flags)
    other.restore(tmp_path)
    for (name, mine), (also, theirs) in zip(
        critic.critic.named_parameters(), other.critic.named_parameters(), strict=True
    ):
        assert name == also
        assert torch.equal(mine, theirs)
    moments = [o._optimizer.state_dict()["state"] for o in (critic, other)]
    assert moments[0].keys() == moments[1].keys()
    for number, state in moments[0].items():
        for key, value in state.items():
            assert torch.equal(value, moments[1][number][key])
