"""Merging models: pure functions over weights by name. All models have the same names and shapes.

Products of low-rank adapters are merged as what they are, B A: the sum of products has a larger
rank, so it is cut back to the adapter's own rank by its largest singular values (Eckart and Young).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from recollect.continual.fisher import Weights
from recollect.randomness import stream

_A, _B = ".lora_A.", ".lora_B."


def average(models: Sequence[Weights], shares: Sequence[float]) -> Weights:
    """Theta = sum_k w_k theta_k; the shares w are given, and sum to 1 for an average."""
    assert len(models) == len(shares)
    return {
        name: _sum(
            [share * model[name].double() for share, model in zip(shares, models, strict=True)],
            models[0][name],
        )
        for name in models[0]
    }


def task_arithmetic(base: Weights, models: Sequence[Weights], scale: float) -> Weights:
    """Theta = theta_base + scale sum_k (theta_k - theta_base) (Ilharco et al. 2023)."""
    return {
        name: _sum([start.double(), *(scale * (m[name] - start).double() for m in models)], start)
        for name, start in base.items()
    }


def fisher_weighted(models: Sequence[Weights], fishers: Sequence[Weights]) -> Weights:
    """theta_i = sum_k F_k,i theta_k,i / sum_k F_k,i (Matena and Raffel 2022, arXiv:2111.09832).

    A weight without information in any model is averaged.
    """
    found = {}
    for name, like in models[0].items():
        information = torch.stack([each[name].double() for each in fishers])
        values = torch.stack([model[name].double() for model in models])
        total = information.sum(dim=0)
        weighted = (information * values).sum(dim=0) / torch.where(total > 0, total, 1.0)
        found[name] = torch.where(total > 0, weighted, values.mean(dim=0)).to(like.dtype)
    return found


def performance_shares(scores: Sequence[float]) -> list[float]:
    """w_k = max(s_k, 0) / sum_j max(s_j, 0); equal shares where no score is above 0."""
    kept = [max(score, 0.0) for score in scores]
    total = sum(kept)
    if total == 0:
        return [1 / len(scores)] * len(scores)
    return [score / total for score in kept]


def candidate_shares(models: int, count: int, seed: int) -> list[list[float]]:
    """Shares to try: equal ones first, then draws from [0, 2] normalised to sum 1."""
    rng = stream(seed, "fusion", models)
    found = [[1 / models] * models]
    while len(found) < count:
        drawn = rng.uniform(0.0, 2.0, models)
        found.append(list(map(float, drawn / np.sum(drawn))))
    return found


def is_low_rank(names: Mapping[str, torch.Tensor]) -> bool:
    """Tell whether weights are those of low-rank adapters."""
    return any(_A in name for name in names)


def to_products(adapter: Weights) -> tuple[Weights, dict[str, int]]:
    """Multiply adapters out: B A by the name of B, and their ranks. Others stay as they are."""
    products: Weights = {}
    ranks: dict[str, int] = {}
    for name, value in adapter.items():
        if _B in name:
            below = adapter[name.replace(_B, _A)]
            products[name] = value.double() @ below.double()
            ranks[name] = below.shape[0]
        elif _A not in name:
            products[name] = value
    return products, ranks


def from_products(
    products: Weights, ranks: Mapping[str, int], like: Weights
) -> tuple[Weights, float]:
    """Divide products into adapters of the given ranks again; also the share that was cut off.

    The share is relative, in the Frobenius norm over all products: 0 = nothing was lost.
    """
    found: Weights = {}
    lost = whole = 0.0
    for name, product in products.items():
        if name not in ranks:
            found[name] = product.to(like[name].dtype)
            continue
        left, values, right = torch.linalg.svd(product.double(), full_matrices=False)
        rank = ranks[name]
        roots = values[:rank].sqrt()
        found[name] = (left[:, :rank] * roots).to(like[name].dtype).contiguous()
        below = name.replace(_B, _A)
        found[below] = (roots[:, None] * right[:rank]).to(like[below].dtype).contiguous()
        lost += float((values[rank:] ** 2).sum())
        whole += float((values**2).sum())
    return found, (lost / whole) ** 0.5 if whole else 0.0


def _sum(parts: Sequence[torch.Tensor], like: torch.Tensor) -> torch.Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total.to(like.dtype)
