"""Section `algo`: how rewards become a gradient. The choices name functions of `recollect.algo`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from recollect.config.schema.section import Section, conflict

_PPO_CLIP = 0.2


class AlgoSettings(Section):
    """How rewards become a gradient."""

    advantage: Literal[
        "grpo",
        "dr_grpo",
        "rloo",
        "reinforce_plus_plus",
        "reinforce_plus_plus_baseline",
        "reward",
        "gae",
    ] = Field(
        default="grpo",
        description="What a reward is compared with. grpo = the group's mean, over its standard "
        "deviation; dr_grpo = the group's mean; rloo = the mean of the group's other rows; "
        "reinforce_plus_plus = the batch's mean, over its standard deviation; "
        "reinforce_plus_plus_baseline = the group's mean, over the batch's standard deviation; "
        "reward = nothing: the reward itself; gae = token by token with what a critic expected: "
        "PPO, see section critic.",
    )
    gamma: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="What a reward is worth one sampled token earlier (gae).",
    )
    lam: float = Field(
        default=0.95,
        ge=0,
        le=1,
        description="How far advantages look ahead (gae): 0 = one token, then the critic's word; "
        "1 = to the end of the episode.",
    )
    whiten: Literal["full", "scale", "off"] = Field(
        default="full",
        description="Advantages over the sampled tokens of all rows of a step (gae). full = mean 0 "
        "and standard deviation 1; scale = standard deviation 1 only; off = as they are.",
    )
    loss: Literal["ppo_clip", "gspo", "cispo", "topr", "importance_weighted", "reinforce"] = Field(
        default="ppo_clip",
        description="What is minimised once the policy has moved away from the one that sampled. "
        "ppo_clip = clipped ratio per token; gspo = clipped ratio per row; cispo = clipped weight "
        "that never stops the gradient; topr = no ratio for good rows, a capped one for bad rows; "
        "importance_weighted = ratio of each token without any bound; reinforce = no ratio.",
    )
    clip_low: float = Field(
        default=_PPO_CLIP,
        ge=0,
        le=1,
        description="How far a policy ratio may fall below 1 before it is clipped (ppo_clip, gspo, "
        "cispo). 1 = no lower bound.",
    )
    clip_high: float = Field(
        default=_PPO_CLIP,
        ge=0,
        description="How far a policy ratio may rise above 1 before it is clipped (ppo_clip, gspo, "
        "cispo).",
    )
    dual_clip: float | None = Field(
        default=None,
        gt=1,
        description="Largest ratio of a token with a negative advantage (ppo_clip only; 3 is "
        "usual). none = no such bound.",
    )
    aggregation: Literal[
        "token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"
    ] = Field(
        default="token-mean",
        description="How token losses become one number. token-mean = every token counts the "
        "same; seq-mean-token-mean = every row counts the same; seq-mean-token-sum = a row counts "
        "by its length; seq-mean-token-sum-norm = the same, divided by aggregation_norm. Rows "
        "without signal (of a group whose rewards are all equal) do not count.",
    )
    aggregation_norm: float | None = Field(
        default=None,
        gt=0,
        description="The constant of seq-mean-token-sum-norm, in tokens. none = "
        "rollout.max_tokens.",
    )
    kl_coef: float = Field(
        default=0.0,
        ge=0,
        description="Weight of the KL divergence to algo.kl_reference. 0 = none, and no "
        "reference model is kept. In the loss only rows with signal have one: a group whose "
        "rewards are all equal is not held to the reference.",
    )
    kl_reference: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="Model that the KL divergence is measured from, named as in model.name. none "
        "= the policy that the run started from.",
    )
    kl_revision: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="Commit of algo.kl_reference on the hub. none = model.revision if it is the "
        "same model, else the newest when the run begins; the run writes down which that was.",
    )
    kl_estimator: Literal["k1", "k2", "k3"] = Field(
        default="k2",
        description="Estimator of the KL divergence whose gradient acts. Unbiased are k2 in the "
        "loss and k1 in the reward; k3 in the loss is GRPO as published.",
    )
    kl_in: Literal["loss", "reward"] = Field(
        default="loss",
        description="Where the KL divergence goes: added to the loss, or taken off the reward. "
        "In the loss only tokens have it that the policy has just sampled from the same prompt; in "
        "the reward all rows of a group, stored and stripped ones too.",
    )
    entropy_coef: float = Field(
        default=0.0,
        ge=0,
        description="Weight of the policy's entropy in the loss; more explores more. 0 = none. "
        "Only rows with signal have it: a group whose rewards are all equal is not kept diverse.",
    )

    @model_validator(mode="after")
    def _row_ratios_need_narrow_bounds(self) -> AlgoSettings:
        if self.loss == "gspo" and max(self.clip_low, self.clip_high) >= _PPO_CLIP:
            raise conflict(
                "algo.clip_low",
                "algo.clip_high",
                "algo.loss",
                what=f"bounds of {self.clip_low:g} and {self.clip_high:g} (algo.clip_low and "
                "algo.clip_high) never act in gspo, whose ratios are means over a row",
                change="Set algo.clip_low=3e-4 algo.clip_high=4e-4, as published.",
            )
        return self

    @model_validator(mode="after")
    def _a_revision_is_of_a_reference(self) -> AlgoSettings:
        if self.kl_revision is not None and self.kl_reference is None:
            raise conflict(
                "algo.kl_revision",
                "algo.kl_reference",
                what="algo.kl_revision is set, but no algo.kl_reference that it could be of",
                change="Name the model in algo.kl_reference, or set algo.kl_revision=none.",
            )
        return self

    @model_validator(mode="after")
    def _dual_clip_belongs_to_ppo(self) -> AlgoSettings:
        if self.dual_clip is not None and self.loss != "ppo_clip":
            raise conflict(
                "algo.dual_clip",
                "algo.loss",
                what=f"algo.dual_clip does nothing in the loss {self.loss}",
                change="Set algo.dual_clip=none or algo.loss=ppo_clip.",
            )
        return self

    @model_validator(mode="after")
    def _the_norm_belongs_to_its_mode(self) -> AlgoSettings:
        mode = "seq-mean-token-sum-norm"
        if self.aggregation_norm is not None and self.aggregation != mode:
            raise conflict(
                "algo.aggregation_norm",
                "algo.aggregation",
                what=f"algo.aggregation_norm does nothing in {self.aggregation}",
                change=f"Set algo.aggregation_norm=none or algo.aggregation={mode}.",
            )
        return self

    @model_validator(mode="after")
    def _k1_is_for_rewards(self) -> AlgoSettings:
        if self.kl_estimator == "k1" and self.kl_in == "loss":
            raise conflict(
                "algo.kl_estimator",
                "algo.kl_in",
                what="the gradient of k1 in the loss is 0 on average",
                change="Set algo.kl_estimator=k2, or algo.kl_in=reward.",
            )
        return self
