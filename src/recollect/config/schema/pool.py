"""Section `pool`: which stored trajectories may be drawn, and how many are kept."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from recollect.config.schema.section import MOST, Section, conflict
from recollect.config.schema.store import without_password


def within(value: float, lower: float | None, upper: float | None, inclusive: bool) -> bool:
    """Tell whether a value is between bounds, of which None is no bound."""
    if inclusive:
        return (lower is None or value >= lower) and (upper is None or value <= upper)
    return (lower is None or value > lower) and (upper is None or value < upper)


class PoolSettings(Section):
    """Which stored trajectories may be drawn, and how many are kept."""

    start_from: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="Store of an earlier run (its file, its folder or a postgres:// address) whose "
        "live rows this run begins with. Rows with another tokenizer, template or environment "
        "version stay behind. "
        "none = an empty pool.",
    )
    max_age: int | None = Field(
        default=30,
        ge=1,
        le=MOST,
        description="Oldest row that may be drawn, in optimiser updates since it was sampled. "
        "none = of any age.",
    )
    max_uses: int | None = Field(
        default=4,
        ge=1,
        le=MOST,
        description="How often a row may be drawn and trained on. none = without end.",
    )
    cooldown: int = Field(
        default=0,
        ge=0,
        le=MOST,
        description="Steps that a row rests after the run trained on it. What other runs of the "
        "same store do with it does not count.",
    )
    min_ess: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="A row is no longer drawn once the effective sample size of its policy "
        "ratios, as a share of its tokens, was below this. none = no such limit.",
    )
    max_ratio: float | None = Field(
        default=None,
        gt=1,
        description="A row is no longer drawn once the 99 % quantile of its policy ratios was "
        "above this. none = no such limit.",
    )
    lower: float | None = Field(
        default=None,
        ge=0,
        description="Rows are kept for replay only from fresh groups with more successes than "
        "this (ExGRPO's experience_lbound). none = no such limit.",
    )
    upper: float | None = Field(
        default=None,
        ge=0,
        description="Rows are kept for replay only from fresh groups with fewer successes than "
        "this (ExGRPO's experience_rbound). none = no such limit.",
    )
    bounds: Literal["rate", "successes"] = Field(
        default="rate",
        description="What pool.lower and pool.upper count: the group's success rate, or its "
        "number of successes.",
    )
    bounds_inclusive: bool = Field(
        default=False,
        description="Whether a group exactly at pool.lower or pool.upper is kept too.",
    )
    keep: Literal["all", "successes"] = Field(
        default="all",
        description="Which rows of such a group are kept for replay. A buffer learns from "
        "failures too; mix and repair draw successes only, whatever is kept.",
    )
    rows_per_task: int | None = Field(
        default=None,
        ge=1,
        le=MOST,
        description="Rows of a task that are kept for replay, best by draw.choice; those of the "
        "newest step come on top. Of a store that runs share, only rows that this run made or "
        "could draw count and go. none = all.",
    )
    max_rows: int | None = Field(
        default=None,
        ge=1,
        le=MOST,
        description="Rows that are kept for replay, but at least those of the newest step; the "
        "most useless go first. Of a store that runs share, only rows that this run made or could "
        "draw count and go. none = all.",
    )
    max_bytes: int | None = Field(
        default=None,
        ge=1,
        le=2**62,
        description="Bytes of trajectories that are kept for replay, counted from their numbers of "
        "tokens; the most useless go first. Of a store that runs share, only rows that this run "
        "made or could draw count and go. none = without limit.",
    )

    @field_validator("start_from")
    @classmethod
    def _no_password(cls, source: str | None) -> str | None:
        return without_password(source)

    @model_validator(mode="after")
    def _the_bounds_leave_something(self) -> PoolSettings:
        top = 1.0 if self.bounds == "rate" else float(MOST)
        lower = -1.0 if self.lower is None else self.lower
        upper = top + 1.0 if self.upper is None else self.upper
        nothing = lower > upper if self.bounds_inclusive else lower >= upper
        if nothing or (self.bounds == "rate" and max(self.lower or 0, self.upper or 0) > 1):
            raise conflict(
                "pool.lower",
                "pool.upper",
                "pool.bounds",
                what=f"no group has {self.bounds} between pool.lower = {self.lower} and "
                f"pool.upper = {self.upper}",
                change="Set pool.lower below pool.upper, both within 0 to 1, or "
                "pool.bounds=successes to count rows.",
            )
        return self
