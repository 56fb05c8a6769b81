"""Section `store`: where trajectories are kept."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from recollect.config.schema.section import Section


class StoreSettings(Section):
    """Where trajectories are kept."""

    path: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="File of the store. none = a file in the run's own folder.",
    )
    compress: bool = Field(
        default=False,
        description="Compress trajectories: a smaller file, more time. Needs recollect[zstd].",
    )
