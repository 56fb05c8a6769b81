"""Section `train`: the optimiser, and how a step's rows are fed to it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from recollect.config.schema.section import MOST, Section


class TrainSettings(Section):
    """The optimiser (AdamW), and how a step's rows are fed to it."""

    learning_rate: float = Field(
        default=1e-3,
        ge=0,
        description="Largest learning rate. The default suits the tiny model; large models want "
        "1e-6 (all weights) to 1e-5 (adapters).",
    )
    schedule: Literal["constant", "linear", "cosine"] = Field(
        default="constant",
        description="How the learning rate goes on after warm-up: it stays, or falls towards 0 at "
        "the last step, in a line or a cosine.",
    )
    warmup_steps: int = Field(
        default=0,
        ge=0,
        le=MOST,
        description="Steps in which the learning rate grows in a line to its full value.",
    )
    weight_decay: float = Field(
        default=0.0,
        ge=0,
        description="Decay of the weights towards 0, times the learning rate, per update.",
    )
    beta1: float = Field(
        default=0.9,
        ge=0,
        lt=1,
        description="Share of the past in AdamW's mean gradient.",
    )
    beta2: float = Field(
        default=0.999,
        ge=0,
        lt=1,
        description="Share of the past in AdamW's mean squared gradient.",
    )
    eps: float = Field(
        default=1e-8,
        gt=0,
        description="Added to AdamW's denominator.",
    )
    max_grad_norm: float = Field(
        default=1.0,
        gt=0,
        description="Longest gradient (its 2-norm over all weights): a longer one is scaled down "
        "to it. A huge number means no limit.",
    )
    epochs: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="Passes over a step's rows. More learns more from each rollout, further off "
        "the policy that sampled it.",
    )
    minibatches: int = Field(
        default=1,
        ge=1,
        le=MOST,
        description="Optimiser updates in each pass; a step's rows are divided evenly among them.",
    )
    pack_tokens: int = Field(
        default=4096,
        ge=1,
        le=MOST,
        description="Tokens that go through the model at a time in training. More is faster and "
        "takes more memory; results do not depend on it but for rounding.",
    )
    shared_prompts: bool = Field(
        default=True,
        description="Compute what rows begin with alike once for all of them: the prompt of a "
        "group, and the rules and tools that all tasks of a domain have. The result is the same "
        "but for rounding.",
    )
    parallel: Literal["ddp", "fsdp2"] = Field(
        default="ddp",
        description="What several processes (torchrun) hold. ddp = each the whole model, the first "
        "one the optimiser; fsdp2 = each a slice of the weights, gradients and moments, and all "
        "weights only while it samples. One process holds everything either way.",
    )
    max_bad_steps: int = Field(
        default=3,
        ge=1,
        le=MOST,
        description="Stop the run after this many updates in a row with a loss or gradient that is "
        "not finite. Such updates change no weights.",
    )
