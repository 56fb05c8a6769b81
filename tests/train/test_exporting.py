from __future__ import annotations

from pathlib import Path

import pytest
import torch

from recollect.errors import RunMissing, WouldOverwrite
from recollect.models.loading import load_policy
from recollect.train.checkpoint import newest_checkpoint
from recollect.train.exporting import export_model
from recollect.train.folder import RunFolder, create_run
from recollect.train.parts import policy_from

from .small import make_config, make_model, run_to_end

IDS = torch.tensor([[5, 9, 20, 31, 7, 4, 15]])


def _trained(path: Path, *flags: str) -> RunFolder:
    model = make_model(path / "base")
    run_to_end(path / "run", make_config(model, "eval.every=0", *flags))
    return RunFolder(path / "run")


def test_a_run_with_adapters_ends_with_a_model_that_needs_none(tmp_path: Path) -> None:
    flags = ("model.lora.rank=4", "model.lora.merge=true", "train.learning_rate=0.05")
    folder = _trained(tmp_path, *flags)
    policy = policy_from(folder.load(), newest_checkpoint(folder.checkpoints))
    assert policy.has_adapter
    merged = load_policy(str(folder.model))
    assert not merged.has_adapter
    mine, theirs = policy.model(IDS).logits, merged.model(IDS).logits
    torch.testing.assert_close(theirs, mine, atol=1e-4, rtol=1e-4)
    base = load_policy(str(tmp_path / "base"))
    assert not torch.allclose(theirs, base.model(IDS).logits, atol=1e-3)
    # It is an ordinary folder, and it can be trained further.
    from transformers import AutoModelForCausalLM

    AutoModelForCausalLM.from_pretrained(folder.model)
    assert merged.chat.fingerprint == policy.chat.fingerprint


def test_adapters_can_be_taken_alone(tmp_path: Path) -> None:
    folder = _trained(tmp_path, "model.lora.rank=4")
    assert not folder.model.exists()  # nobody asked for it
    assert export_model(folder, tmp_path / "out" / "adapters", merge=False) == 3
    assert (tmp_path / "out" / "adapters" / "adapter_model.safetensors").is_file()
    policy = policy_from(folder.load(), newest_checkpoint(folder.checkpoints))
    again = load_policy(str(tmp_path / "out" / "adapters"))
    assert torch.equal(policy.model(IDS).logits, again.model(IDS).logits)


def test_full_weights_are_the_checkpoints_without_what_only_training_needs(tmp_path: Path) -> None:
    folder = _trained(tmp_path)
    export_model(folder, tmp_path / "out")
    checkpoint = newest_checkpoint(folder.checkpoints)
    assert checkpoint is not None
    assert not (tmp_path / "out" / "optimizer.safetensors").exists()
    one, other = load_policy(str(tmp_path / "out")), load_policy(str(checkpoint.folder))
    assert torch.equal(one.model(IDS).logits, other.model(IDS).logits)
    with pytest.raises(WouldOverwrite):
        export_model(folder, tmp_path / "out")


def test_a_run_without_a_checkpoint_has_no_model_yet(tmp_path: Path) -> None:
    folder = create_run(tmp_path / "run", make_config(make_model(tmp_path / "base")))
    with pytest.raises(RunMissing, match="no checkpoint"):
        export_model(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_damaged_checkpoint_is_passed_over_and_told(tmp_path: Path) -> None:
    folder = _trained(tmp_path, "checkpoint.every=1", "checkpoint.keep=2")
    (folder.checkpoints / "step_000003" / "model.safetensors").write_bytes(b"damaged")
    told: list[str] = []
    assert export_model(folder, tmp_path / "out", tell=told.append) == 2
    assert len(told) == 1
    assert "model.safetensors is not as it was written" in told[0]
