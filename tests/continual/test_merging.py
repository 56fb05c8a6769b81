"""Merging rules on numbers worked by hand."""

from __future__ import annotations

import pytest
import torch

from recollect.continual import merging

ONE = {"w": torch.tensor([1.0, 2.0])}
TWO = {"w": torch.tensor([3.0, 6.0])}
BASE = {"w": torch.tensor([1.0, 1.0])}


def test_rules_by_hand() -> None:
    assert merging.average([ONE, TWO], [0.25, 0.75])["w"].tolist() == [2.5, 5.0]
    assert merging.task_arithmetic(BASE, [ONE, TWO], 0.5)["w"].tolist() == [2.0, 4.0]
    information = [{"w": torch.tensor([1.0, 0.0])}, {"w": torch.tensor([3.0, 0.0])}]
    # (1 * 1 + 3 * 3) / 4; without information the plain mean.
    assert merging.fisher_weighted([ONE, TWO], information)["w"].tolist() == [2.5, 4.0]


def test_shares() -> None:
    assert merging.performance_shares([0.2, 0.6]) == [pytest.approx(0.25), pytest.approx(0.75)]
    assert merging.performance_shares([0.0, 0.0]) == [0.5, 0.5]
    assert merging.performance_shares([-0.2, 0.5, 0.5]) == [0.0, 0.5, 0.5]
    assert merging.performance_shares([-0.2, -0.5]) == [0.5, 0.5]
    tried = merging.candidate_shares(3, 8, 1)
    assert tried[0] == [pytest.approx(1 / 3)] * 3
    assert all(sum(shares) == pytest.approx(1) for shares in tried)
    assert tried == merging.candidate_shares(3, 8, 1) != merging.candidate_shares(3, 8, 2)


def test_low_rank_adapters_are_merged_as_products() -> None:
    """The mean of two factors is not the factor of the mean."""
    torch.manual_seed(0)
    adapters = [
        {"m.lora_A.default.weight": torch.randn(2, 5), "m.lora_B.default.weight": torch.randn(6, 2)}
        for _ in range(2)
    ]
    products = [merging.to_products(adapter) for adapter in adapters]
    merged = merging.average([product for product, _ in products], [0.5, 0.5])
    whole = sum(a["m.lora_B.default.weight"] @ a["m.lora_A.default.weight"] for a in adapters) / 2
    torch.testing.assert_close(merged["m.lora_B.default.weight"].float(), whole)
    # With the rank of both together nothing is lost.
    exact, lost = merging.from_products(merged, {"m.lora_B.default.weight": 4}, adapters[0])
    again = exact["m.lora_B.default.weight"] @ exact["m.lora_A.default.weight"]
    torch.testing.assert_close(again, whole, atol=1e-5, rtol=1e-5)
    assert lost < 1e-6
    # Cut to rank 2 it is the nearest matrix of that rank, and the loss is said.
    cut, lost = merging.from_products(merged, products[0][1], adapters[0])
    near = cut["m.lora_B.default.weight"] @ cut["m.lora_A.default.weight"]
    assert torch.linalg.matrix_rank(near) == 2
    off = torch.linalg.norm(near - whole) / torch.linalg.norm(whole)
    assert lost == pytest.approx(float(off), rel=1e-4)
