"""Section `model`: which language model learns, where, and which of its weights."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from recollect.config.schema.section import Section, Words, conflict


class LoraSettings(Section):
    """Low-rank adapters: train a few added weights and keep the model's own as they are."""

    rank: int = Field(
        default=0,
        ge=0,
        le=4096,
        description="Rank of the adapters. 0 = no adapters, all weights train. A folder with "
        "trained adapters (model.name) trains on with those as they are: what is asked for here "
        "must be theirs, or rank 0.",
    )
    alpha: float = Field(
        default=16.0,
        gt=0,
        description="Strength of the adapters: what they add is multiplied by alpha / rank.",
    )
    dropout: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Share of adapter inputs that are dropped while training. Above 0 the policy "
        "ratios of fresh tokens are noise around 1 instead of 1.",
    )
    targets: Words | None = Field(
        default=None,
        description="Names of the modules that get adapters, such as q_proj. none = all linear "
        "modules but the output.",
    )
    merge: bool = Field(
        default=False,
        description="When the run ends, also write the model with its adapters merged in, as an "
        "ordinary folder: RUN/model. recollect model export does it at any time.",
    )

    @model_validator(mode="after")
    def _adapters_need_a_rank(self) -> LoraSettings:
        if self.rank == 0 and self.targets is not None:
            raise conflict(
                "model.lora.targets",
                "model.lora.rank",
                what="model.lora.targets is set, but model.lora.rank = 0 means no adapters",
                change="Set model.lora.rank (16 is usual), or remove model.lora.targets.",
            )
        if self.rank == 0 and self.merge:
            raise conflict(
                "model.lora.merge",
                "model.lora.rank",
                what="model.lora.merge is set, but model.lora.rank = 0 means no adapters",
                change="Set model.lora.rank (16 is usual; of a folder with trained adapters, "
                "theirs), or remove model.lora.merge.",
            )
        return self


class ModelSettings(Section):
    """Which language model learns, where, and which of its weights."""

    name: str = Field(
        default="tiny",
        min_length=1,
        description="The policy to start from: tiny (built in), smol (after recollect model fetch "
        "smol), a folder made by save_pretrained, or an id on the Hugging Face hub.",
    )
    revision: str | None = Field(
        default=None,
        min_length=1,
        description="Commit of a model on the hub. none = the newest when the run begins; the run "
        "writes down which that was.",
    )
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto",
        description="Number format of the weights. auto = bfloat16 on a GPU that has it, "
        "otherwise float32.",
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        default="auto",
        description="Where the model runs. auto = cuda where there is a GPU, otherwise cpu.",
    )
    threads: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Threads of the CPU that compute it. none = OMP_NUM_THREADS where that is set; "
        "otherwise one for a model of less than 10 million parameters, which more only slow down, "
        "and all cores for a larger one (in a comparison its share of them). Another "
        "number rounds otherwise in the last digits.",
    )
    gradient_checkpointing: bool = Field(
        default=False,
        description="Recompute activations in the backward pass: less memory, more time.",
    )
    lora: LoraSettings = Field(default_factory=LoraSettings)
