"""The whole configuration, and the rules that span its sections."""

from __future__ import annotations

from pydantic import Field, model_validator

from recollect.config.schema.adapt import AdaptSettings
from recollect.config.schema.algo import AlgoSettings
from recollect.config.schema.checkpoint import CheckpointSettings
from recollect.config.schema.continual import ContinualSettings
from recollect.config.schema.correction import CorrectionSettings
from recollect.config.schema.critic import CriticSettings
from recollect.config.schema.distill import DistillSettings
from recollect.config.schema.draw import DrawSettings
from recollect.config.schema.environment import EnvironmentSettings
from recollect.config.schema.evaluation import EvalSettings
from recollect.config.schema.generator_rules import check_generator
from recollect.config.schema.model import ModelSettings
from recollect.config.schema.note_rules import check_places, check_shares, check_trust
from recollect.config.schema.notes import NotesSettings
from recollect.config.schema.parallel_rules import check_parallel
from recollect.config.schema.pool import PoolSettings
from recollect.config.schema.remote import RemoteSettings
from recollect.config.schema.replay import ReplaySettings
from recollect.config.schema.replay_rules import (
    check_adaptation,
    check_age,
    check_bounds,
    check_critic,
    check_progress,
    check_start,
    check_void,
)
from recollect.config.schema.rollout import RolloutSettings
from recollect.config.schema.run import RunSettings
from recollect.config.schema.section import Section, conflict
from recollect.config.schema.store import StoreSettings
from recollect.config.schema.telemetry import TelemetrySettings
from recollect.config.schema.train import TrainSettings


class Config(Section):
    """Everything a run can be told. Frozen; every setting has a default."""

    run: RunSettings = Field(default_factory=RunSettings)
    model: ModelSettings = Field(default_factory=ModelSettings)
    environment: EnvironmentSettings = Field(default_factory=EnvironmentSettings)
    rollout: RolloutSettings = Field(default_factory=RolloutSettings)
    algo: AlgoSettings = Field(default_factory=AlgoSettings)
    critic: CriticSettings = Field(default_factory=CriticSettings)
    train: TrainSettings = Field(default_factory=TrainSettings)
    replay: ReplaySettings = Field(default_factory=ReplaySettings)
    pool: PoolSettings = Field(default_factory=PoolSettings)
    draw: DrawSettings = Field(default_factory=DrawSettings)
    correction: CorrectionSettings = Field(default_factory=CorrectionSettings)
    adapt: AdaptSettings = Field(default_factory=AdaptSettings)
    continual: ContinualSettings = Field(default_factory=ContinualSettings)
    notes: NotesSettings = Field(default_factory=NotesSettings)
    distill: DistillSettings = Field(default_factory=DistillSettings)
    remote: RemoteSettings = Field(default_factory=RemoteSettings)
    eval: EvalSettings = Field(default_factory=EvalSettings)
    checkpoint: CheckpointSettings = Field(default_factory=CheckpointSettings)
    store: StoreSettings = Field(default_factory=StoreSettings)
    telemetry: TelemetrySettings = Field(default_factory=TelemetrySettings)

    @property
    def rows_per_step(self) -> int:
        """Rows that a step generates when no episode fails."""
        return self.rollout.tasks_per_step * self.rollout.rows_per_task

    @model_validator(mode="after")
    def _warm_up_ends(self) -> Config:
        if self.train.warmup_steps > self.run.steps:
            raise conflict(
                "train.warmup_steps",
                "run.steps",
                what=f"train.warmup_steps = {self.train.warmup_steps} is more than "
                f"run.steps = {self.run.steps}: the learning rate would never be reached",
                change="Lower train.warmup_steps or raise run.steps.",
            )
        return self

    @model_validator(mode="after")
    def _rows_have_something_to_be_compared_with(self) -> Config:
        alone = self.rows_per_step == 1 and self.algo.advantage not in ("reward", "gae")
        if self.rollout.rows_per_task == 1 and (alone or _by_group(self.algo.advantage)):
            raise conflict(
                "rollout.rows_per_task",
                "algo.advantage",
                what=f"with rollout.rows_per_task = 1 every advantage of {self.algo.advantage} is "
                "0 and nothing would be learnt",
                change="Set rollout.rows_per_task to 2 or more (8 is usual).",
            )
        return self

    @model_validator(mode="after")
    def _minibatches_are_even(self) -> Config:
        rows, parts = self.rows_per_step, self.train.minibatches
        if rows % parts:
            raise conflict(
                "train.minibatches",
                "rollout.tasks_per_step",
                "rollout.rows_per_task",
                what=f"the {rows} rows of a step (rollout.tasks_per_step x rollout.rows_per_task) "
                f"do not divide into train.minibatches = {parts}",
                change=f"Set train.minibatches to {_nearest_divisors(rows, parts)}.",
            )
        return self

    @model_validator(mode="after")
    def _a_trajectory_fits_a_pack(self) -> Config:
        if self.train.pack_tokens < self.rollout.max_tokens:
            raise conflict(
                "train.pack_tokens",
                "rollout.max_tokens",
                what=f"a trajectory of rollout.max_tokens = {self.rollout.max_tokens} does not fit "
                f"into train.pack_tokens = {self.train.pack_tokens}",
                change=f"Set train.pack_tokens to at least {self.rollout.max_tokens}.",
            )
        return self

    @model_validator(mode="after")
    def _a_mixed_group_has_fresh_rows(self) -> Config:
        mixed, rows = self.replay.mix_rows, self.rollout.rows_per_task
        if "mix" in self.replay.modes and rows - mixed < self.replay.min_fresh_rows:
            raise conflict(
                "replay.mix_rows",
                "replay.min_fresh_rows",
                "rollout.rows_per_task",
                what=f"replay.mix_rows = {mixed} of rollout.rows_per_task = {rows} leaves fewer "
                f"than replay.min_fresh_rows = {self.replay.min_fresh_rows} fresh rows",
                change="Lower replay.mix_rows or raise rollout.rows_per_task.",
            )
        return self

    @model_validator(mode="after")
    def _replay_can_do_what_it_is_asked(self) -> Config:
        for check in (
            check_start,
            check_progress,
            check_age,
            check_bounds,
            check_critic,
            check_adaptation,
            check_void,
        ):
            check(self)
        return self

    @model_validator(mode="after")
    def _cut_weights_can_do_what_they_are_asked(self) -> Config:
        check_parallel(self)
        return self

    @model_validator(mode="after")
    def _the_generator_can_do_what_it_is_asked(self) -> Config:
        check_generator(self)
        return self

    @model_validator(mode="after")
    def _notes_can_do_what_they_are_asked(self) -> Config:
        for check in (check_shares, check_places, check_trust):
            check(self)
        return self

    @model_validator(mode="after")
    def _a_step_has_distinct_tasks(self) -> Config:
        tasks, wanted = self.environment.tasks, self.rollout.tasks_per_step
        if tasks is not None and tasks < wanted:
            raise conflict(
                "environment.tasks",
                "rollout.tasks_per_step",
                what=f"environment.tasks = {tasks} leaves too few tasks for a step of "
                f"rollout.tasks_per_step = {wanted} different ones",
                change="Raise environment.tasks or lower rollout.tasks_per_step.",
            )
        return self


def _by_group(advantage: str) -> bool:
    """Tell whether rows are compared within their group only."""
    return advantage not in ("reinforce_plus_plus", "reward", "gae")


def _nearest_divisors(total: int, wanted: int) -> str:
    """Name the divisors of `total` next to `wanted`: `4`, or `4 or 8`."""
    start = min(wanted, total)
    down, up = range(start, max(0, start - 1000), -1), range(wanted, min(total, wanted + 1000) + 1)
    below = next((n for n in down if total % n == 0), 1)
    above = next((n for n in up if total % n == 0), below)
    return f"{below}" if below == above else f"{below} or {above}"
