"""Every method with low-rank adapters, and what it writes in the end."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from recollect.continual.methods import METHODS

from .small import distance, go, journey_of, stage_weights

_FLAGS = ("continual.ewc.fisher_rows=4", "continual.fusion.search_tasks=2",
          "continual.fusion.candidates=2", "continual.replay.ratio=0.5")  # fmt: skip


@pytest.mark.parametrize("name", list(METHODS))
def test_a_method_goes_through_with_adapters(model: Path, tmp_path: Path, name: str) -> None:
    flags = [f"continual.method={name}", "model.lora.rank=2", *_FLAGS]
    journey = journey_of(tmp_path / name, model, *flags)
    assert go(journey) is None
    assert journey.finished
    first, second = stage_weights(journey, 0), stage_weights(journey, 1)
    if name in ("progressive", "dynamic_expansion"):
        assert any(name not in first for name in second)
        return
    assert all("lora" in weight for weight in first)
    assert distance(first, second) > 0
    assert all(bool(torch.isfinite(value).all()) for value in second.values())
