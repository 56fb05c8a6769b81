"""Section `run`: which run this is and how long it lasts."""

from __future__ import annotations

from pydantic import Field

from recollect.config.schema.section import MOST, Section


class RunSettings(Section):
    """Which run this is, and how long it lasts."""

    name: str = Field(
        default="",
        pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]{0,63})?$",
        description="Name of the run and of its folder: up to 64 letters, digits and ._- "
        'characters. "" = the name of the configuration and the next free number, such as demo-1.',
    )
    seed: int = Field(
        default=0,
        ge=0,
        le=2**63 - 1,
        description="Seed of everything that is left to chance. The same seed, settings and "
        "machine give the same run, bit for bit.",
    )
    folder: str = Field(
        default="runs",
        min_length=1,
        description="Folder in which the run makes its own folder.",
    )
    steps: int = Field(
        default=60,
        ge=1,
        le=MOST,
        description="Training steps: rounds of collecting rollouts and learning from them.",
    )
