"""Section `draw`: how stored rows are weighed and chosen among those that may be drawn."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from recollect.config.schema.section import MOST, Section


class DrawSettings(Section):
    """How stored rows are weighed and chosen among those that may be drawn."""

    choice: Literal["lowest_entropy", "highest_entropy", "random", "newest", "likeliest"] = Field(
        default="newest",
        description="Which rows of a task are taken (mix, repair). Entropy is the mean over the "
        "sampled tokens when they were sampled; random goes by the weights below; likeliest asks "
        "the policy as it is now, which costs a pass over the candidates.",
    )
    candidates: int = Field(
        default=8,
        ge=1,
        le=MOST,
        description="Newest rows of a task that likeliest looks at.",
    )
    priority: Literal["equal", "advantage", "td_error", "stored", "reward", "likelihood"] = Field(
        default="advantage",
        description="What makes a row likelier to be drawn (buffer, random). advantage = its "
        "size when last trained on (with gae the mean size over its tokens, before whitening); "
        "td_error = mean size of the critic's one-token errors (gae); stored = the priority the "
        "learner gave it; reward; likelihood = mean probability of its tokens when sampled; "
        "equal = all rows the same.",
    )
    alpha: float = Field(
        default=0.5,
        ge=0,
        le=10,
        description="Power of the priority: 0 = all the same, 1 = in proportion.",
    )
    floor: float = Field(
        default=0.0,
        ge=0,
        description="Added to every priority before the power, so that rows whose priority is 0 "
        "are drawn now and then and get a new one. Rows whose advantage is 0 have nothing to train "
        "with and stay out of the buffer all the same, but for gae, which finds it out anew.",
    )
    beta: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="How much of an unequal draw is corrected by the priority weight "
        "(N p)^-beta, relative to the largest of the draw (buffer; rows of mix and repair have "
        "weight 1): 0 = nothing, 1 = all of it.",
    )
    beta_growth: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Added to draw.beta for every step since replay began, up to 1.",
    )
    weight_scale: Literal["draw", "pool", "off"] = Field(
        default="draw",
        description="What priority weights are divided by. draw = the largest of the draw; pool = "
        "the largest of any row that could be drawn, a constant of the draw; off = nothing: at "
        "beta = 1 weights are 1 on average and can be larger.",
    )
    half_life: float | None = Field(
        default=None,
        gt=0,
        description="Age at which a row counts half as much, in optimiser updates. none = age "
        "does not matter until pool.max_age.",
    )
    buckets: Literal["uniform", "gaussian", "linear", "sqrt"] = Field(
        default="uniform",
        description="How a task's success rate weighs. gaussian = most at bucket_center; linear "
        "and sqrt = more where more succeeds. Tasks not tried yet count like bucket_center.",
    )
    bucket_center: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Success rate that counts most (gaussian).",
    )
    bucket_sigma: float = Field(
        default=0.125,
        gt=0,
        description="Width of the gaussian, in units of the success rate. 0.125 is one success "
        "of 8, as in released ExGRPO.",
    )
    max_per_task: int | None = Field(
        default=None,
        ge=1,
        le=MOST,
        description="Most rows of one task in a step's buffer. none = no such limit.",
    )
    domains: Literal["by_weight", "alike"] = Field(
        default="by_weight",
        description="What each domain gives to a step's buffer. by_weight = as much as its rows "
        "weigh; alike = all the same number on average, and what one has too few rows for comes "
        "from the others.",
    )
    max_domain_share: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="Largest share of one domain among the rows of a step's buffer, and among "
        "the tasks that are mixed in. none = no such limit.",
    )
