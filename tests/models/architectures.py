"""Tiny random models of every architecture that we claim, and a tokenizer to go with them.

Weights are drawn wide, so that attention really chooses and a token seen by mistake shows.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    LlamaConfig,
    Qwen2Config,
    Qwen3Config,
)

from recollect.models.attention import ATTENTION

VOCABULARY = 320
_ROTARY = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
    "initializer_range": 0.25,
}
CONFIGS: dict[str, Any] = {
    "llama": lambda: LlamaConfig(**_ROTARY, num_key_value_heads=4),
    "llama-gqa": lambda: LlamaConfig(**_ROTARY, num_key_value_heads=2),
    # SmolLM2: nine heads over three, tied embeddings, a long rotary base
    "smollm2": lambda: LlamaConfig(
        **{**_ROTARY, "hidden_size": 72, "num_attention_heads": 9, "initializer_range": 0.16},
        num_key_value_heads=3,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 100_000.0},
    ),
    "qwen2": lambda: Qwen2Config(**_ROTARY, num_key_value_heads=2),
    "qwen3": lambda: Qwen3Config(**_ROTARY, num_key_value_heads=2, head_dim=16),
    "gpt2": lambda: GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=512,
        initializer_range=0.25,
        bos_token_id=1,
        eos_token_id=1,
    ),
}
ARCHITECTURES = tuple(CONFIGS)


def make_model(architecture: str, seed: int = 0, attention: str = ATTENTION) -> Any:
    """Make a random model, in evaluation mode."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(
            CONFIGS[architecture](), attn_implementation=attention
        )
    return model.eval()


@cache
def shared_model(architecture: str) -> Any:
    """Make a random model that no test changes."""
    return make_model(architecture).requires_grad_(False)
