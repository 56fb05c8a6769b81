"""Section `remote`: how the service of `notes.remote` is asked."""

from __future__ import annotations

from pydantic import Field

from recollect.config.schema.section import Section


class RemoteSettings(Section):
    """How the service of `notes.remote` is asked for notes."""

    token_variable: str = Field(
        default="RECOLLECT_NOTES_TOKEN",
        min_length=1,
        description="Environment variable that holds the service's token, if it wants one.",
    )
    trust: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="How far notes of the service are trusted at most, whatever it says itself.",
    )
    seconds: float = Field(
        default=3.0,
        gt=0,
        le=3600,
        description="Patience with one request, in seconds. A service that asks a model of its "
        "own needs more.",
    )
    tries: int = Field(
        default=2,
        ge=1,
        le=20,
        description="Times that the service is asked one question before that counts as failed, "
        "with growing pauses in between.",
    )
    failures: int = Field(
        default=3,
        ge=1,
        le=1000,
        description="Failed requests in a row after which the service is left alone; attempts "
        "then go without notes.",
    )
    rest: float = Field(
        default=30.0,
        ge=0,
        le=86_400,
        description="Seconds after which such a service is tried again.",
    )
