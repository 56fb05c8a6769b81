"""Section `adapt`: rules that move the limits of replay while a run goes on. All are opt-in."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from recollect.config.schema.section import MOST, Section, conflict


class AdaptSettings(Section):
    """Rules that move the limits of replay while a run goes on. All are opt-in."""

    early_rows: int | None = Field(
        default=None,
        ge=1,
        le=MOST,
        description="Capacity of the pool early in the run, instead of pool.max_rows. none = "
        "pool.max_rows from the start.",
    )
    early_until: float = Field(
        default=0.5,
        gt=0,
        lt=1,
        description="Share of the steps after which pool.max_rows holds (adapt.early_rows).",
    )
    uses: Literal["fixed", "kl"] = Field(
        default="fixed",
        description="How often a row may be used. fixed = pool.max_uses; kl = calm_uses while the "
        "policy stays near those that sampled the stored rows, moving_uses while it does not.",
    )
    kl_low: float = Field(
        default=0.008,
        ge=0,
        description="Below this KL of the replayed tokens, in nats per token, calm_uses holds "
        "(uses = kl).",
    )
    kl_high: float = Field(
        default=0.012,
        gt=0,
        description="Above this KL moving_uses holds; in between, the limit stays as it is "
        "(uses = kl).",
    )
    calm_uses: int = Field(default=6, ge=1, le=MOST, description="The limit below kl_low.")
    moving_uses: int = Field(default=2, ge=1, le=MOST, description="The limit above kl_high.")
    controller: bool = Field(
        default=False,
        description="Let a controller move the amount of replay, the age limit and the use limit "
        "together, between nothing and what is configured, to hold target_ess and target_kl.",
    )
    target_ess: float = Field(
        default=0.5,
        gt=0,
        lt=1,
        description="Effective sample size of replayed tokens, as a share of them, that the "
        "controller keeps up.",
    )
    target_kl: float | None = Field(
        default=0.1,
        gt=0,
        description="KL of the policy from those that sampled the replayed tokens, in nats per "
        "token, that the controller keeps below. none = only target_ess counts.",
    )
    memory: float = Field(
        default=0.5,
        ge=0,
        lt=1,
        description="Share of the past in the figures that these rules look at: 0 = the last "
        "step alone.",
    )
    rest_steps: int = Field(
        default=5,
        ge=1,
        le=MOST,
        description="Steps of fresh rows only before the controller tries replay again.",
    )

    @property
    def on(self) -> bool:
        """Tell whether any rule moves anything."""
        return self.controller or self.uses != "fixed" or self.early_rows is not None

    @model_validator(mode="after")
    def _the_thresholds_are_in_order(self) -> AdaptSettings:
        if self.kl_low > self.kl_high:
            raise conflict(
                "adapt.kl_low",
                "adapt.kl_high",
                what=f"adapt.kl_low = {self.kl_low:g} is above adapt.kl_high = {self.kl_high:g}",
                change="Set adapt.kl_low below adapt.kl_high; the gap keeps the limit from "
                "flapping.",
            )
        return self
