"""Section `continual`: learning one domain after another (`recollect continual`)."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, Strict, model_validator

from recollect.config.schema.section import MOST, Section, Words, conflict

Method: TypeAlias = Literal[
    "sequential",
    "replay",
    "adaptive_replay",
    "ewc",
    "online_ewc",
    "ewc_pp",
    "kl_anchor",
    "progressive",
    "dynamic_expansion",
    "fusion",
    "adaptive_fusion",
    "sft",
]
References: TypeAlias = Annotated[tuple[Literal["joint", "single"], ...], Strict(False)]


class RehearsalSettings(Section):
    """What of earlier domains is trained on again (replay, adaptive_replay)."""

    kind: Literal["tasks", "trajectories"] = Field(
        default="tasks",
        description="What comes back. tasks = earlier tasks are attempted again, in their own "
        "domain, by the policy as it is; trajectories = their stored attempts are trained on "
        "again, with their policy ratios. These take the place of the run's own replay: from the "
        "second domain on replay.modes is [buffer], with replay.buffer_updates = 1, and only rows "
        "of earlier domains are drawn.",
    )
    ratio: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="Share of a step's tasks that comes from earlier domains; for trajectories, "
        "stored rows of a step as a share of those it generates (replay.buffer_share). Fractions "
        "add up over steps. adaptive_replay begins with it.",
    )
    strategy: Literal["random", "high_reward", "recent", "balanced"] = Field(
        default="random",
        description="Which ones. random = all alike; high_reward = those that did best; recent = "
        "those trained on last; balanced = every earlier domain the same share. For trajectories "
        "it takes the place of draw.priority: equal, or for high_reward the reward; recent sets "
        "draw.half_life to the updates of a domain's training, balanced draw.domains to alike.",
    )
    capacity: int | None = Field(
        default=1000,
        ge=1,
        le=MOST,
        description="Tasks of a domain that are remembered, its latest. none = all that were "
        "trained on.",
    )
    max_age: int | None = Field(
        default=None,
        ge=1,
        le=MOST,
        description="Oldest stored attempt that may come back, in optimiser updates "
        "(trajectories); it takes the place of pool.max_age. none = of any age.",
    )
    max_ratio: float = Field(
        default=0.5, ge=0, le=1, description="Largest share (adaptive_replay)."
    )
    min_ratio: float = Field(
        default=0.1, ge=0, le=1, description="Smallest share (adaptive_replay)."
    )
    rate: float = Field(
        default=0.1,
        gt=0,
        le=1,
        description="What is added to the share when an earlier domain was forgotten; half of it "
        "is taken off when all were kept (adaptive_replay).",
    )
    threshold: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="Loss of score on a domain since it was trained on that counts as forgotten; "
        "a gain of half of it counts as kept (adaptive_replay).",
    )


class EwcSettings(Section):
    """How weights that earlier domains need are held (ewc, online_ewc, ewc_pp)."""

    strength: float = Field(
        default=0.4,
        ge=0,
        description="Weight lambda of the penalty lambda / 2 sum F (theta - theta*)^2.",
    )
    fisher_rows: int = Field(
        default=64,
        ge=1,
        le=MOST,
        description="Attempts that the Fisher information is measured on, after a domain; for "
        "ewc_pp, in each step.",
    )
    gamma: float = Field(
        default=0.9,
        ge=0,
        le=1,
        description="What remains of the earlier Fisher information when a domain is added "
        "(online_ewc).",
    )
    decay: float = Field(
        default=0.1,
        gt=0,
        le=1,
        description="Weight of the newest step in the moving average of the Fisher information "
        "(ewc_pp).",
    )


class FusionSettings(Section):
    """How the models of the domains become one (fusion, adaptive_fusion)."""

    rule: Literal["average", "weighted", "task_arithmetic", "fisher"] = Field(
        default="weighted",
        description="How. average = the mean of the weights; weighted = by each model's score on "
        "its own domain; task_arithmetic = the base plus scale times the sum of what each domain "
        "changed; fisher = each weight by its Fisher information.",
    )
    start: Literal["merged", "base"] = Field(
        default="merged",
        description="What a domain's training begins with: the merged model of those before it, "
        "or the base, as if it were alone.",
    )
    scale: float = Field(
        default=0.5,
        gt=0,
        le=10,
        description="Factor of task_arithmetic.",
    )
    candidates: int = Field(
        default=10,
        ge=1,
        le=1000,
        description="Sets of weights that adaptive_fusion tries.",
    )
    search_split: str = Field(
        default="dev",
        min_length=1,
        description="Split on which adaptive_fusion tries them, and by which the rule weighted of "
        "fusion measures its models. Examine on another one (eval.split).",
    )
    search_tasks: int = Field(
        default=20,
        ge=1,
        le=MOST,
        description="Tasks of each domain that are used for it.",
    )


class ColumnSettings(Section):
    """Adapters that are added for a domain (progressive, dynamic_expansion)."""

    width: int = Field(
        default=16,
        ge=1,
        le=65536,
        description="Width of a domain's column in every layer. With LoRA, progressive takes its "
        "rank instead; no other adapters are made.",
    )
    lateral: bool = Field(
        default=True,
        description="Let a new column read what the earlier ones make of their input "
        "(progressive).",
    )
    smallest: int = Field(
        default=8, ge=1, le=65536, description="Width for an easy domain (dynamic_expansion)."
    )
    largest: int = Field(
        default=32, ge=1, le=65536, description="Width for a hard domain (dynamic_expansion)."
    )
    hard_below: float = Field(
        default=0.3,
        ge=0,
        le=1,
        description="Score before training under which a domain is hard (dynamic_expansion).",
    )
    easy_above: float = Field(
        default=0.6,
        ge=0,
        le=1,
        description="Score before training over which a domain is easy (dynamic_expansion).",
    )

    @model_validator(mode="after")
    def _hard_domains_get_more(self) -> ColumnSettings:
        for low, high in (("smallest", "largest"), ("hard_below", "easy_above")):
            if getattr(self, low) > getattr(self, high):
                raise conflict(
                    f"continual.columns.{low}",
                    f"continual.columns.{high}",
                    what=f"{getattr(self, low)} is more than {getattr(self, high)}",
                    change=f"Keep continual.columns.{low} at or below continual.columns.{high}.",
                )
        return self


class ContinualSettings(Section):
    """Learning one domain after another. Only `recollect continual` reads this section.

    run.steps are the steps of each domain; eval.tasks are the tasks of each domain.
    """

    task_order: Words | None = Field(
        default=None,
        description="The domains, in the order in which they are learnt. none = those of "
        "environment.domains in its order, or all that the environment has.",
    )
    method: Method = Field(
        default="sequential",
        description="What is done against forgetting. sequential = nothing; replay and "
        "adaptive_replay rehearse earlier domains; ewc, online_ewc and ewc_pp hold weights that "
        "they need; kl_anchor holds the policy near the one before; progressive and "
        "dynamic_expansion add adapters; fusion and adaptive_fusion merge models; sft imitates "
        "gold attempts instead of learning from rewards.",
    )
    imitate: bool = Field(
        default=False,
        description="Learn from gold attempts instead of rewards, with whatever method: "
        "supervised training, which forgets more. The environment must know them. Of replay "
        "there is rehearsal only then, and notes.rollout must be bare: nobody attempts the "
        "training tasks.",
    )
    references: References = Field(
        default=(),
        description="Other models to train and examine: joint = all domains at once, with all "
        "their steps and tasks; single = each domain alone, from the base.",
    )
    score: Literal["reward", "success"] = Field(
        default="reward",
        description="What the score matrix holds: mean reward, or share of successes.",
    )
    anchor_coef: float = Field(
        default=0.1,
        ge=0,
        description="Weight of the KL divergence to the previous domain's policy (kl_anchor). It "
        "takes the place of algo.kl_coef from the second domain on.",
    )
    replay: RehearsalSettings = Field(default_factory=RehearsalSettings)
    ewc: EwcSettings = Field(default_factory=EwcSettings)
    fusion: FusionSettings = Field(default_factory=FusionSettings)
    columns: ColumnSettings = Field(default_factory=ColumnSettings)

    @model_validator(mode="after")
    def _a_domain_is_learnt_once(self) -> ContinualSettings:
        order = self.task_order or ()
        if len(set(order)) < len(order):
            raise conflict(
                "continual.task_order",
                what=f"continual.task_order = {list(order)} names a domain twice",
                change="Name each domain once.",
            )
        return self

    @model_validator(mode="after")
    def _shares_are_in_order(self) -> ContinualSettings:
        low, ratio, high = self.replay.min_ratio, self.replay.ratio, self.replay.max_ratio
        if low > high:
            raise conflict(
                "continual.replay.min_ratio",
                "continual.replay.max_ratio",
                what=f"continual.replay.min_ratio = {low} is above "
                f"continual.replay.max_ratio = {high}",
                change="Lower one or raise the other.",
            )
        # Otherwise the first step towards a limit would go the wrong way.
        if self.method == "adaptive_replay" and not low <= ratio <= high:
            limit = "min_ratio" if ratio < low else "max_ratio"
            raise conflict(
                "continual.replay.ratio",
                f"continual.replay.{limit}",
                what=f"adaptive_replay keeps the share from continual.replay.min_ratio = {low} to "
                f"continual.replay.max_ratio = {high}, and begins with continual.replay.ratio = "
                f"{ratio}",
                change=f"Begin with a share within them, or move continual.replay.{limit}.",
            )
        return self
