"""Section `correction`: what replayed tokens count, which an older policy sampled."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from recollect.config.schema.section import Section


class CorrectionSettings(Section):
    """What replayed tokens count, which an older policy sampled."""

    kind: Literal["clip", "shape", "truncate", "mask", "weight"] = Field(
        default="clip",
        description="What is made of the policy ratio r of a replayed token. clip = PPO's clip "
        "with an upper bound of its own; shape = r / (r + shape_beta), as in ExGRPO; truncate = "
        "min(r, cap), never without gradient; mask = r within a band, nothing outside; weight = "
        "r as it is, without any bound.",
    )
    level: Literal["token", "geometric", "sequence"] = Field(
        default="token",
        description="Whose ratio it is: the token's, the geometric mean over its row, or that of "
        "the whole row.",
    )
    old_logprobs: Literal["recorded", "recomputed"] = Field(
        default="recorded",
        description="What the policy now is compared with. recorded = the policy that sampled, "
        "exactly; recomputed = the policy at the start of the step, as if the row were fresh "
        "(ARPO). Rows without recorded log-probs can only be recomputed.",
    )
    weight: float = Field(
        default=1.0,
        ge=0,
        description="Weight of replayed tokens in the loss; fresh tokens have 1.",
    )
    clip_low: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="How far the ratio may fall below 1 (clip).",
    )
    clip_high: float = Field(
        default=1.0,
        ge=0,
        description="How far the ratio may rise above 1 (clip); the seeds' off_cliprange_high.",
    )
    dual_clip: float | None = Field(
        default=3.0,
        gt=1,
        description="Largest ratio of a token with a negative advantage (clip). none = no bound.",
    )
    shape_beta: float = Field(
        default=0.1,
        gt=0,
        description="The constant of shape. A token at r = 1 then pulls beta / (1 + beta)^2 as "
        "much as a fresh one: a twelfth at 0.1. Make up for it with correction.weight.",
    )
    cap: float = Field(
        default=2.0,
        gt=0,
        description="Largest weight (truncate).",
    )
    band_low: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Lower end of the band (mask).",
    )
    band_high: float = Field(
        default=2.0,
        ge=1,
        description="Upper end of the band (mask).",
    )
    drop_above: float | None = Field(
        default=None,
        gt=1,
        description="A drawn row is left out of the step when the 99 % quantile of its policy "
        "ratios is above this, and is not drawn again; costs a pass over the drawn rows. none = no "
        "row is left out.",
    )
