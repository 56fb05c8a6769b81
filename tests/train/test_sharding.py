"""Cut weights: what a single process can show of them. Several do it in tests/engines."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from safetensors.torch import load_file

from recollect.errors import CannotShard
from recollect.models.loading import Lora, load_policy
from recollect.train.sharding import (
    clip_scale,
    cut_like,
    scale_gradients,
    shard,
    sum_of_squares,
    whole_tensor,
    whole_weights,
)


@pytest.mark.parametrize("most", [0.5, 100.0])
def test_clipping_is_that_of_torch(most: float) -> None:
    def parameters() -> list[torch.nn.Parameter]:
        found = [torch.nn.Parameter(torch.zeros(n, 3)) for n in (2, 5)]
        for number, p in enumerate(found):
            p.grad = torch.linspace(-1, 2 + number, p.numel()).view_as(p)
        return [*found, torch.nn.Parameter(torch.zeros(2))]  # one without a gradient

    ours, theirs = parameters(), parameters()
    norm, scale = clip_scale(sum_of_squares(ours), most)
    scale_gradients(ours, scale)
    assert norm == pytest.approx(float(torch.nn.utils.clip_grad_norm_(theirs, most)), rel=1e-6)
    for a, b in zip(ours[:2], theirs[:2], strict=True):
        assert a.grad is not None
        assert b.grad is not None
        assert torch.allclose(a.grad, b.grad, rtol=1e-6)
    assert math.isnan(clip_scale(math.nan, most)[0])
    assert clip_scale(math.inf, most) == (math.inf, 1.0)  # the guard refuses such a step


def test_columns_cannot_be_cut() -> None:
    with pytest.raises(CannotShard, match="columns"):
        shard(cast(Any, SimpleNamespace(columns=object(), source="here")))


@pytest.mark.parametrize("lora", [None, Lora(2, 4.0)])
def test_weights_by_name_save_the_same_folder(
    model: Path, tmp_path: Path, lora: Lora | None
) -> None:
    policy = load_policy(str(model), device="cpu", lora=lora)
    weights = whole_weights(policy)
    assert all("lora" in name for name in weights) == (lora is not None)
    policy.save(tmp_path / "plain")
    policy.save(tmp_path / "given", weights)
    files = sorted(path.name for path in (tmp_path / "plain").iterdir())
    assert files == sorted(path.name for path in (tmp_path / "given").iterdir())
    name = next(file for file in files if file.endswith(".safetensors"))
    one, other = (load_file(tmp_path / kind / name) for kind in ("plain", "given"))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_a_tied_weight_is_saved_once(tmp_path: Path) -> None:
    policy = load_policy("tiny", device="cpu")
    assert policy.model.get_output_embeddings().weight is policy.model.get_input_embeddings().weight
    policy.save(tmp_path / "plain")
    policy.save(tmp_path / "given", whole_weights(policy))
    one, other = (load_file(tmp_path / kind / "model.safetensors") for kind in ("plain", "given"))
    assert one.keys() == other.keys()


def test_what_is_not_cut_stays_as_it_is() -> None:
    tensor = torch.arange(6.0).view(2, 3)
    assert whole_tensor(tensor) is tensor
    assert torch.equal(cut_like(tensor, torch.nn.Parameter(torch.zeros(2, 3))), tensor)
