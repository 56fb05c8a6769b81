"""Section `critic`: what estimates the value of a state, where advantages are those of PPO."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from recollect.config.schema.section import Section, conflict


class CriticSettings(Section):
    """What estimates the value of a state (algo.advantage = gae only; else there is none)."""

    kind: Literal["head", "model"] = Field(
        default="head",
        description="What it is. head = one linear layer on the policy's last hidden state; model "
        "= a model of its own with such a layer, all weights of which train: twice the memory and "
        "time.",
    )
    model: str | None = Field(
        default=None,
        min_length=1,
        description="The model that a critic of kind model starts from, named as model.name. "
        "none = the policy's own start.",
    )
    revision: str | None = Field(
        default=None,
        min_length=1,
        description="Commit of critic.model on the hub. none = model.revision if it is the same "
        "model, else the newest when the run begins; the run writes down which that was.",
    )
    learning_rate: float = Field(
        default=1e-3,
        ge=0,
        description="Largest learning rate of the critic's own weights; it follows "
        "train.schedule. 1e-3 suits a head; a whole model wants what a policy of its size wants.",
    )
    clip: float | None = Field(
        default=0.2,
        gt=0,
        description="How far a value may move from what it was at the start of the step (with "
        "at_use = stored: when the row was fresh) before its error is no longer reduced (PPO's "
        "clipped value loss). none = plain squared error.",
    )
    policy_weight: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="Weight of the value loss in the policy's own weights (head only). 0 = the "
        "head reads the policy and leaves it alone.",
    )
    at_use: Literal["recomputed", "stored"] = Field(
        default="recomputed",
        description="Values and advantages of stored rows when they train again. recomputed = by "
        "the critic as it is now; stored = as they were when the row was fresh, rows of other runs "
        "as recomputed.",
    )

    @model_validator(mode="after")
    def _a_model_of_its_own_is_asked_for(self) -> CriticSettings:
        if self.model is not None and self.kind != "model":
            raise conflict(
                "critic.model",
                "critic.kind",
                what=f"critic.model = {self.model} does nothing with critic.kind = {self.kind}",
                change="Set critic.kind=model, or critic.model=none.",
            )
        return self

    @model_validator(mode="after")
    def _a_revision_is_of_a_model(self) -> CriticSettings:
        if self.revision is not None and self.model is None:
            raise conflict(
                "critic.revision",
                "critic.model",
                what="critic.revision is set, but no critic.model that it could be of",
                change="Name the model in critic.model, or set critic.revision=none.",
            )
        return self
