from __future__ import annotations

from pathlib import Path

import pytest

from recollect.config.loading import load_config
from recollect.config.schema.config import Config
from recollect.models.loading import Lora, load_policy
from recollect.models.memory import estimate_memory, memory_lines
from recollect.models.shape import shape_of

from .architectures import make_model


def _config(*flags: str) -> Config:
    return load_config(None, list(flags)).config


@pytest.mark.parametrize("architecture", ["llama-gqa", "qwen3"])
def test_weights_are_counted_from_the_configuration_alone(
    tmp_path: Path, architecture: str
) -> None:
    model = make_model(architecture)
    model.save_pretrained(tmp_path)
    shape = shape_of(str(tmp_path))
    assert shape is not None
    # Norms of queries and keys, and biases, are a few numbers that the estimate leaves out.
    assert shape.parameters == pytest.approx(sum(p.numel() for p in model.parameters()), rel=0.01)


def test_adapters_are_counted_as_peft_makes_them() -> None:
    shape = shape_of("tiny")
    assert shape is not None
    for targets in (None, ("q_proj", "down_proj")):
        policy = load_policy("tiny", lora=Lora(rank=4, alpha=8.0, targets=targets))
        trained = sum(p.numel() for _, p in policy.trainable())
        assert shape.adapters(4, targets) == trained


def test_the_known_shape_of_a_preset_is_that_model() -> None:
    shape = shape_of("Qwen/Qwen2.5-3B-Instruct")
    assert shape is not None
    assert shape.parameters / 1e9 == pytest.approx(3.09, abs=0.01)  # its model card's figure


def test_models_beside_the_policy_are_counted() -> None:
    """A critic of its own trains all of its weights; adapters compare with the model below them."""
    shape = shape_of("tiny")
    assert shape is not None
    plain = estimate_memory(_config())
    critic = estimate_memory(_config("algo.advantage=gae", "critic.kind=model"))
    head = estimate_memory(_config("algo.advantage=gae"))
    assert plain is not None
    assert critic is not None
    assert head is not None
    assert critic.peak - plain.peak == 4 * 4 * shape.parameters  # weights, gradients, two moments
    assert head.peak == plain.peak
    adapted = ["model.lora.rank=4", "algo.kl_coef=0.1"]
    for flags, models in (([], 0), (["algo.kl_reference=tiny"], 0), (["algo.kl_reference=x"], 1)):
        found = estimate_memory(_config(*adapted, *flags))
        assert found is not None
        assert found.reference == 4 * models * shape.parameters


def test_parts_by_hand() -> None:
    """Tiny: every part against the same sum done here, in float32 with all weights training."""
    flags = ["rollout.batch_rows=8", "rollout.max_tokens=100", "rollout.max_turn_tokens=50"]
    found = estimate_memory(_config(*flags, "rollout.max_turns=1", "train.pack_tokens=200"))
    shape = shape_of("tiny")
    assert found is not None
    assert shape is not None
    assert found.weights == 4 * shape.parameters
    assert found.optimiser == 3 * 4 * shape.parameters
    assert found.reference == 0
    cache = 1.5 * 8 * 100 * 2 * shape.layers * shape.kv_heads * shape.head_size * 4
    assert found.generating == cache + 8 * shape.vocabulary * 20
    kept = shape.layers * ((10 + 8) * shape.hidden + 4 * shape.inner) * 4 * 200
    assert found.training == kept + 0.5 * 200 * shape.vocabulary * 16
    assert found.peak == found.weights + found.optimiser + max(found.generating, found.training)


def test_what_saves_memory_saves_it() -> None:
    full = estimate_memory(_config("algo.kl_coef=0.1"))
    lora = estimate_memory(_config("algo.kl_coef=0.1", "model.lora.rank=4"))
    less = estimate_memory(_config("model.gradient_checkpointing=true"))
    assert full is not None
    assert lora is not None
    assert less is not None
    assert full.reference == full.weights
    assert lora.reference == 0  # the policy without its adapters
    assert lora.optimiser < full.optimiser
    assert less.training < full.training
    apart = estimate_memory(_config("algo.kl_coef=0.1", "train.shared_prompts=false"))
    assert apart is not None
    assert apart.training < full.training


def test_what_cutting_saves_is_said() -> None:
    whole, cut = memory_lines(_config()), memory_lines(_config("train.parallel=fsdp2"))
    assert cut[: len(whole)] == whole
    assert "1/n of gradients" in cut[-2]


def test_models_of_other_shapes_are_not_guessed(tmp_path: Path) -> None:
    make_model("gpt2").save_pretrained(tmp_path)
    for name in (str(tmp_path), "some/body", str(tmp_path / "nowhere")):
        assert shape_of(name) is None
        assert "not estimated" in memory_lines(_config(f"model.name={name}"))[1]
    (tmp_path / "config.json").write_text("garbage")
    assert shape_of(str(tmp_path)) is None
