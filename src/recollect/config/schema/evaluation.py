"""Section `eval`: when and on what the policy is examined."""

from __future__ import annotations

from pydantic import Field, model_validator

from recollect.config.schema.section import MOST, Section, conflict


class EvalSettings(Section):
    """When and on what the policy is examined."""

    every: int = Field(
        default=10,
        ge=0,
        le=MOST,
        description="Steps between evaluations; the last step is evaluated too. 0 = never.",
    )
    tasks: int = Field(
        default=60,
        ge=1,
        le=MOST,
        description="Tasks to evaluate on: the first of each domain and level of the split, as "
        "many of one as of another where there are enough, and the same ones every time.",
    )
    split: str = Field(
        default="dev",
        min_length=1,
        description="Split that evaluation tasks come from. Keep test for the very end.",
    )
    temperature: float = Field(
        default=0.0,
        ge=0,
        le=100,
        description="Sampling temperature in evaluation. 0 = always the likeliest token.",
    )
    rows: int = Field(
        default=1,
        ge=1,
        le=MOST,
        description="Attempts at each evaluation task.",
    )
    at_start: bool = Field(
        default=True,
        description="Also evaluate before the first step, to see where learning began.",
    )

    @model_validator(mode="after")
    def _several_rows_differ(self) -> EvalSettings:
        if self.rows > 1 and self.temperature == 0:
            raise conflict(
                "eval.rows",
                "eval.temperature",
                what=f"at eval.temperature = 0 all {self.rows} attempts (eval.rows) are the same",
                change="Set eval.rows=1, or eval.temperature above 0.",
            )
        return self
