"""Section `telemetry`: what the run says, and to whom."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, Strict, field_validator
from pydantic_core import PydanticCustomError

from recollect.config.schema.section import MOST, Section

Sink: TypeAlias = Literal["wandb", "swanlab", "tensorboard", "trackio"]
Sinks: TypeAlias = Annotated[tuple[Sink, ...], Strict(False)]


class TelemetrySettings(Section):
    """What the run says, and to whom."""

    log_interval: int | None = Field(
        default=None,
        ge=1,
        le=MOST,
        description="Steps between log lines; none = every step in a pipe or file, every tenth "
        "above a live bar and in continual runs. Metrics are written at every step.",
    )
    progress: bool = Field(
        default=True,
        description="Show a progress bar where the output is a terminal.",
    )
    verbose: bool = Field(
        default=False,
        description="Show every metric of a step, checkpoints, and tables of evaluations, "
        "instead of one compact line.",
    )
    sinks: Sinks = Field(
        default=(),
        description="Experiment trackers that get the metrics too: wandb, swanlab, tensorboard, "
        "trackio. The run's metrics.jsonl is always written.",
    )
    project: str = Field(
        default="recollect",
        min_length=1,
        description="Project name in the experiment trackers.",
    )
    offline: bool = Field(
        default=False,
        description="Trackers write to this machine only and open no connection; `wandb sync` and "
        "its like send it later.",
    )

    @field_validator("sinks")
    @classmethod
    def _each_sink_once(cls, sinks: tuple[Sink, ...]) -> tuple[Sink, ...]:
        if len(set(sinks)) < len(sinks):
            raise PydanticCustomError("sinks", "must name each tracker once")
        return sinks
