from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from recollect.config.schema.train import TrainSettings
from recollect.train.optimizer import (
    learning_rate,
    load_optimizer,
    make_optimizer,
    save_optimizer,
)


def rates(steps: int, **given: object) -> list[float]:
    settings = TrainSettings(**given)  # type: ignore[arg-type]
    return [learning_rate(settings, step, steps) for step in range(1, steps + 1)]


def test_constant() -> None:
    assert rates(3, learning_rate=0.1) == [0.1, 0.1, 0.1]


def test_warm_up_is_a_line_to_the_full_rate() -> None:
    found = rates(5, learning_rate=1.0, warmup_steps=4)
    assert found == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0])


def test_linear() -> None:
    assert rates(4, learning_rate=1.0, schedule="linear") == pytest.approx([1, 0.75, 0.5, 0.25])
    found = rates(5, learning_rate=1.0, schedule="linear", warmup_steps=2)
    assert found == pytest.approx([0.5, 1.0, 1.0, 2 / 3, 1 / 3])


def test_cosine() -> None:
    found = rates(4, learning_rate=2.0, schedule="cosine")
    expected = [2 * 0.5 * (1 - math.cos(math.pi * left)) for left in (1, 0.75, 0.5, 0.25)]
    assert found == pytest.approx(expected)
    assert found == sorted(found, reverse=True)


def test_warm_up_may_take_the_whole_run() -> None:
    for schedule in ("constant", "linear", "cosine"):
        found = rates(2, learning_rate=1.0, schedule=schedule, warmup_steps=2)
        assert found == pytest.approx([0.5, 1.0])


def named(seed: int) -> list[tuple[str, torch.nn.Parameter]]:
    generator = torch.Generator().manual_seed(seed)
    shapes = {"a.weight": (3, 4), "b.bias": (3,), "c.weight": (2, 2)}
    return [
        (name, torch.nn.Parameter(torch.randn(shape, generator=generator)))
        for name, shape in shapes.items()
    ]


def advance(parameters: list[tuple[str, torch.nn.Parameter]], optimizer: torch.optim.AdamW) -> None:
    for number, (_, parameter) in enumerate(parameters):
        parameter.grad = torch.full_like(parameter, 0.1 * (number + 1))
    optimizer.step()


def test_vectors_do_not_decay() -> None:
    parameters = named(0)
    before = [p.detach().clone() for _, p in parameters]
    optimizer = make_optimizer(parameters, TrainSettings(learning_rate=0.1, weight_decay=0.5))
    for _, parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    after = [p.detach() for _, p in parameters]
    torch.testing.assert_close(after[0], before[0] * 0.95)
    torch.testing.assert_close(after[1], before[1])
    torch.testing.assert_close(after[2], before[2] * 0.95)


def test_one_step_by_hand() -> None:
    parameter = torch.nn.Parameter(torch.tensor([[1.0, -2.0]]))
    settings = TrainSettings(learning_rate=0.1, beta1=0.5, beta2=0.5, eps=1e-8)
    optimizer = make_optimizer([("w", parameter)], settings)
    parameter.grad = torch.tensor([[4.0, -1.0]])
    optimizer.step()
    # After one step both moments are unbiased: the change is the rate times the sign.
    torch.testing.assert_close(parameter.detach(), torch.tensor([[0.9, -1.9]]))


def test_saved_and_loaded_it_goes_on_bit_for_bit(tmp_path: Path) -> None:
    settings = TrainSettings(learning_rate=0.03, weight_decay=0.1)
    straight, broken = named(1), named(1)
    one, two = make_optimizer(straight, settings), make_optimizer(broken, settings)
    for _ in range(3):
        advance(straight, one)
        advance(broken, two)
    save_optimizer(two, broken, tmp_path / "o.safetensors")
    again = [(name, torch.nn.Parameter(p.detach().clone())) for name, p in broken]
    three = make_optimizer(again, settings)
    load_optimizer(three, again, tmp_path / "o.safetensors")
    for _ in range(3):
        advance(straight, one)
        advance(again, three)
    for (_, p), (_, q) in zip(straight, again, strict=True):
        assert torch.equal(p, q)


def test_an_optimiser_that_never_stepped(tmp_path: Path) -> None:
    parameters = named(2)
    optimizer = make_optimizer(parameters, TrainSettings())
    save_optimizer(optimizer, parameters, tmp_path / "o.safetensors")
    load_optimizer(optimizer, parameters, tmp_path / "o.safetensors")
    assert not optimizer.state


def test_parameters_that_had_no_gradient(tmp_path: Path) -> None:
    parameters = named(3)
    optimizer = make_optimizer(parameters, TrainSettings())
    parameters[1][1].grad = torch.ones(3)
    optimizer.step()
    save_optimizer(optimizer, parameters, tmp_path / "o.safetensors")
    fresh = make_optimizer(parameters, TrainSettings())
    load_optimizer(fresh, parameters, tmp_path / "o.safetensors")
    assert list(fresh.state) == [parameters[1][1]]
