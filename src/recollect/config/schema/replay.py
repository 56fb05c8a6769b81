"""Section `replay`: what stored trajectories are used for, how much, and from when on."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Strict, model_validator

from recollect.config.schema.section import MOST, Section, conflict

Mode = Literal["mix", "repair", "buffer"]
Modes = Annotated[tuple[Mode, ...], Strict(False)]


class ReplaySettings(Section):
    """What stored trajectories are used for, how much, and from when on."""

    modes: Modes = Field(
        default=(),
        description="Uses of the pool; several go together. mix = some tasks of a step are tasks "
        "with stored rows, which join the group of their fresh rows; repair = a fresh group "
        "without any success gets a stored one of the same task; buffer = updates on stored rows "
        "with the advantages they had (with gae see critic.at_use). [] = no replay.",
    )
    participation: Literal["train", "baseline", "off"] = Field(
        default="train",
        description="What mixed rows do. train = they carry gradient, with their policy ratio; "
        "baseline = they only shift their group's mean, which pushes fresh rows down (for "
        "ablations); off = their tasks are visited again, the rows stay out.",
    )
    mix_ratio: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Share of a step's tasks that are tasks with stored rows (mix). Where too few "
        "are found, fresh tasks take their place; fractions add up over steps.",
    )
    mix_rows: int = Field(
        default=1,
        ge=1,
        le=MOST,
        description="Stored rows in the group of such a task; that many fewer fresh rows are "
        "generated (mix).",
    )
    min_fresh_rows: int = Field(
        default=1,
        ge=1,
        le=MOST,
        description="Fresh rows that every group has at least (mix); settings that would leave "
        "fewer are refused.",
    )
    repair_rows: int = Field(
        default=1,
        ge=1,
        le=MOST,
        description="Stored successes that are added to a group without any (repair).",
    )
    buffer_updates: int = Field(
        default=2,
        ge=1,
        le=1000,
        description="Optimiser updates on stored rows that follow those on fresh rows (buffer); "
        "nothing where buffer_place is among.",
    )
    buffer_rows: int | None = Field(
        default=None,
        ge=1,
        le=MOST,
        description="Stored rows in each such update. none = as many as an update on fresh rows "
        "has.",
    )
    buffer_share: float | None = Field(
        default=None,
        gt=0,
        le=100,
        description="Stored rows of a step's extra updates, together, as a share of the rows it "
        "generates; fractions add up over steps. It takes the place of buffer_rows. none = "
        "buffer_updates times buffer_rows, or, among fresh rows, train.minibatches times that.",
    )
    buffer_epochs: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="Passes over the rows of the updates that follow (buffer). A row drawn for a "
        "step is used once; the ledger counts the passes beside it.",
    )
    buffer_place: Literal["after", "among"] = Field(
        default="after",
        description="Where stored rows train (buffer). after = in buffer_updates updates of their "
        "own after those on fresh rows; among = divided among the updates on fresh rows, as often "
        "as those are made.",
    )
    start_rows: int = Field(
        default=1,
        ge=0,
        le=MOST,
        description="Replay begins with the first step at whose beginning the pool holds this "
        "many rows.",
    )
    start_success: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Replay begins once this share of a step's fresh rows succeeded (0.35 in "
        "ExGRPO). none = whatever the share.",
    )
    start_progress: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Replay begins once this share of the steps is done. none = at once.",
    )
    retire: bool = Field(
        default=False,
        description="Let tasks rest whose last fresh group was all successes: no replay and no "
        "training until the re-test, and back at the first failure.",
    )
    retire_rows: int | None = Field(
        default=None,
        ge=1,
        le=MOST,
        description="Smallest fresh group that can retire a task. none = a whole group, "
        "rollout.rows_per_task; a group with mixed rows has fewer fresh ones.",
    )
    retest_steps: int = Field(
        default=20,
        ge=1,
        le=MOST,
        description="Steps after which a retired task is tried again.",
    )

    @property
    def on(self) -> bool:
        """Tell whether anything at all is replayed or retired."""
        return bool(self.modes) or self.retire

    @model_validator(mode="after")
    def _epochs_belong_to_updates_of_their_own(self) -> ReplaySettings:
        if self.buffer_place == "among" and self.buffer_epochs > 1:
            raise conflict(
                "replay.buffer_epochs",
                "replay.buffer_place",
                what="among fresh rows stored ones train train.epochs times, so "
                f"replay.buffer_epochs = {self.buffer_epochs} does nothing",
                change="Set replay.buffer_epochs=1 or replay.buffer_place=after.",
            )
        return self

    @model_validator(mode="after")
    def _a_mode_is_named_once(self) -> ReplaySettings:
        if len(set(self.modes)) < len(self.modes):
            raise conflict(
                "replay.modes",
                what=f"replay.modes = {list(self.modes)} names a mode twice",
                change=f"Set replay.modes=[{','.join(dict.fromkeys(self.modes))}].",
            )
        return self

    @model_validator(mode="after")
    def _other_participations_are_for_mixing(self) -> ReplaySettings:
        others = [mode for mode in self.modes if mode != "mix"]
        if self.participation != "train" and others:
            raise conflict(
                "replay.participation",
                "replay.modes",
                what=f"with replay.participation = {self.participation} the mode {others[0]} "
                "would do nothing: its rows are there to be trained on",
                change="Set replay.participation=train or replay.modes=[mix].",
            )
        return self
