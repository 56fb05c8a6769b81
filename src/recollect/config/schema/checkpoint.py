"""Section `checkpoint`: how often the run saves itself."""

from __future__ import annotations

from pydantic import Field

from recollect.config.schema.section import MOST, Section


class CheckpointSettings(Section):
    """How often the run saves itself. Resuming repeats the steps after the last checkpoint."""

    every: int = Field(
        default=10,
        ge=0,
        le=MOST,
        description="Steps between checkpoints; one is always made at the end and on Ctrl-C. "
        "0 = only those.",
    )
    keep: int = Field(
        default=2,
        ge=1,
        le=MOST,
        description="How many of the newest checkpoints to keep on disk.",
    )
