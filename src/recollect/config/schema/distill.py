"""Section `distill`: how a run makes notes of what it did."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Strict, model_validator

from recollect.config.schema.section import MOST, Section, conflict
from recollect.wire.address import url_problem

FAILURE_TRUST = 0.5  # of a note about failures: what failed may have failed for another reason

Kind = Literal["success", "failure", "comparison"]
Kinds = Annotated[tuple[Kind, ...], Strict(False), Field(min_length=1)]


class DistillSettings(Section):
    """How a run makes notes of what it did."""

    every: int = Field(
        default=0,
        ge=0,
        le=MOST,
        description="Steps between those whose attempts are distilled into notes; the seed's "
        "updated_freq. 0 = never.",
    )
    by: Literal["rules", "policy", "endpoint", "remote"] = Field(
        default="rules",
        description="Who writes. rules = a worked example and what not to do, by comparing the "
        "best attempt with the worst, without a model; policy = the model in training; endpoint "
        "= a server with OpenAI's chat interface; remote = the service of notes.remote, which is "
        "sent the attempts and keeps what it learns.",
    )
    kinds: Kinds = Field(
        default=("comparison", "success"),
        description="What is written about: groups with both outcomes (comparison), with "
        "successes only, with failures only. Failures prove nothing; they are off by default.",
    )
    delay: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="Steps after which a step's notes enter the bank: writing goes on meanwhile, "
        "and the run waits for it there at the latest.",
    )
    per_step: int = Field(
        default=4,
        ge=1,
        le=10_000,
        description="Groups of a step that are distilled at most, the most instructive first.",
    )
    max_notes: int = Field(
        default=1000,
        ge=1,
        le=MOST,
        description="Live notes of the workspace beyond which no more are added.",
    )
    max_similarity: float = Field(
        default=0.8,
        ge=0,
        le=1,
        description="Share of words in common above which a new note counts as known.",
    )
    max_tokens: int = Field(
        default=256,
        ge=1,
        le=MOST,
        description="Tokens that policy or endpoint may write for a note.",
    )
    url: str | None = Field(
        default=None,
        description="Address of the endpoint, up to and including /v1.",
    )
    model: str = Field(
        default="",
        description="Model to ask for at the endpoint.",
    )
    key_variable: str = Field(
        default="OPENAI_API_KEY",
        min_length=1,
        description="Environment variable that holds the endpoint's key, if it wants one.",
    )
    seconds: float = Field(
        default=60.0,
        gt=0,
        le=3600,
        description="Patience with one request to the endpoint, in seconds.",
    )
    tries: int = Field(
        default=3,
        ge=1,
        le=20,
        description="Times that a request is made before it counts as failed, with growing "
        "pauses in between.",
    )
    workers: int = Field(
        default=2,
        ge=1,
        le=64,
        description="Groups that are distilled at the same time.",
    )

    @model_validator(mode="after")
    def _an_endpoint_has_an_address(self) -> DistillSettings:
        if self.every and self.by == "endpoint" and not self.url:
            raise conflict(
                "distill.by",
                "distill.url",
                what="distill.by = endpoint needs distill.url: nobody knows whom to ask",
                change="Set distill.url=http://host:port/v1, or distill.by=rules.",
            )
        problem = url_problem(self.url) if self.url else ""
        if problem:
            raise conflict(
                "distill.url",
                what=f"distill.url {problem}",
                change="Write it as http://host:port/v1.",
            )
        return self
