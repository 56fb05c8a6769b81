"""Section `store`: where trajectories are kept."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from recollect.config.schema.section import Section


def without_password(path: str | None) -> str | None:
    """Refuse a password, which would be written into the run's folder for all to read.

    One that is not escaped may hold any character, so it ends at the last @.
    """
    if path is not None and path.startswith("postgres") and "://" in path:
        before = path.partition("://")[2].rpartition("@")[0]
        if ":" in before or "password=" in path:
            why = "leave the password out; set PGPASSWORD or use ~/.pgpass"
            raise ValueError(f"{why} (an @ that belongs to no password is written %40)")
    return path


class StoreSettings(Section):
    """Where trajectories are kept."""

    path: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="The store: a file, or postgres://user@host/database?schema=name (the password "
        "from PGPASSWORD or ~/.pgpass). none = a file in the run's own folder.",
    )
    retry_seconds: float = Field(
        default=60.0,
        ge=0,
        description="How long a lost connection to a PostgreSQL store is tried again, in seconds, "
        "before the run stops.",
    )
    compress: bool = Field(
        default=False,
        description="Compress trajectories: a smaller file, more time. Needs the extra zstd.",
    )

    @field_validator("path")
    @classmethod
    def _no_password(cls, path: str | None) -> str | None:
        return without_password(path)
