"""Fisher information and the penalty that uses it."""

from __future__ import annotations

from pathlib import Path

import torch

from recollect.continual.fisher import fisher, load_weights, save_weights, trained_weights
from recollect.continual.holding import Hold, quadratic_penalty
from recollect.models.attention import packed
from recollect.models.loading import Lora, load_policy
from recollect.train.packing import pack
from recollect.train.scorer import log_distributions, of_targets
from train.small import collect_rows, load_small, make_config


def test_mean_of_squared_scores_row_by_row(model: Path) -> None:
    policy = load_small(model)
    rows = collect_rows(policy, make_config(model))[:3]
    found = fisher(policy, rows, 1.0)
    assert all(p.grad is None for _, p in policy.trainable())  # nothing leaks into training
    expected = {name: torch.zeros_like(p) for name, p in policy.trainable()}
    for row in rows:
        policy.model.zero_grad()
        (each,) = pack([row], 1000, False)
        with packed(each.spans):
            of_targets(log_distributions(policy.model, each, 1.0), each).sum().backward()
        for name, parameter in policy.trainable():
            if parameter.grad is not None:
                expected[name] += parameter.grad**2 / 3
    for name, value in found.items():
        torch.testing.assert_close(value, expected[name])


def test_what_adapters_drop_in_training_is_no_part_of_it(model: Path) -> None:
    """It is of the policy that sampled, and a resumed run measures the same again."""
    rows = collect_rows(load_small(model), make_config(model))[:2]
    found = []
    for dropout, noise in ((0.0, 1), (0.5, 2), (0.5, 3)):
        policy = load_policy(str(model), lora=Lora(2, 4.0, dropout))
        with torch.no_grad():
            for _, parameter in policy.trainable():
                parameter.fill_(0.1)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(noise)
            found.append(fisher(policy, rows, 1.0))
        assert policy.model.training
    for other in found[1:]:
        for name, value in found[0].items():
            assert torch.equal(value, other[name]), name


def test_the_fisher_information_is_minus_the_mean_second_derivative() -> None:
    """For samples of the policy itself, E[(d log p)^2] = - E[d^2 log p]: a coin, enumerated."""
    logit = torch.tensor(0.7, requires_grad=True, dtype=torch.float64)
    p = torch.sigmoid(logit).detach()
    squares, curvature = 0.0, 0.0
    for heads, chance in ((True, p), (False, 1 - p)):
        value = torch.nn.functional.logsigmoid(logit if heads else -logit)
        (first,) = torch.autograd.grad(value, logit, create_graph=True)
        (second,) = torch.autograd.grad(first, logit)
        squares += float(chance * first.detach() ** 2)
        curvature -= float(chance * second)
    assert abs(squares - curvature) < 1e-12
    assert abs(squares - float(p * (1 - p))) < 1e-12


def test_the_penalty_and_its_gradient_by_hand() -> None:
    weight = torch.tensor([1.0, 3.0], requires_grad=True)
    holds = [
        Hold({"w": torch.tensor([2.0, 1.0])}, {"w": torch.tensor([0.0, 1.0])}),
        Hold({"w": torch.tensor([0.0, 4.0])}, {"w": torch.tensor([5.0, 2.0])}),
    ]
    term = quadratic_penalty([("w", weight)], holds, 0.5)
    # 0.25 * (2 * 1 + 1 * 4 + 4 * 1)
    assert float(term.detach()) == 2.5
    term.backward()
    # 0.5 * (F_1 (w - a_1) + F_2 (w - a_2))
    assert weight.grad is not None
    assert weight.grad.tolist() == [1.0, 3.0]


def test_weights_survive_their_file(model: Path, tmp_path: Path) -> None:
    weights = trained_weights(load_small(model))
    save_weights(tmp_path / "w", ("one", weights), ("two", weights))
    found = load_weights(tmp_path / "w", torch.device("cpu"))
    assert found.keys() == {"one", "two"}
    assert all(torch.equal(found["one"][name], value) for name, value in weights.items())
