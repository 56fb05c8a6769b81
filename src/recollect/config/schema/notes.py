"""Section `notes`: which attempts get notes in their prompts, and what is trained of them."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from pydantic import Field, field_validator, model_validator

from recollect.config.schema.section import MOST, Section, conflict
from recollect.config.schema.store import without_password
from recollect.wire.address import url_problem

PLACEHOLDER = "{}"
TEMPLATE = "\n\nSome Related Experience to help you to complete the task:<EXP>{}</EXP>"


def share_of(count: int, share: float) -> int:
    """floor(count x share), exactly as the share is written: the rounding rule of all counts."""
    return int(count * Fraction(repr(float(share))))


class NotesSettings(Section):
    """Which attempts get notes in their prompts, and what is trained of them."""

    rollout: Literal["bare", "mixed", "all"] = Field(
        default="bare",
        description="Which attempts of a training step get notes. bare = no one; mixed = "
        "notes.share of each group; all = everyone.",
    )
    share: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Share of a group's fresh rows that get notes (mixed): floor(rows x share), "
        "in training and in evaluation.",
    )
    evaluation: Literal["bare", "mixed", "all", "both"] = Field(
        default="bare",
        description="Notes in evaluation. bare = without; mixed = notes.share of each task's "
        "attempts; all = everyone; both = every attempt twice, without notes (the score) and with "
        "(reported beside it). recollect eval and the examinations of a continual run give none.",
    )
    train: Literal["keep", "strip", "hybrid"] = Field(
        default="keep",
        description="What guided rows are trained on. keep = the prompt with its notes; strip = "
        "the same row with the notes taken out; hybrid = notes.keep_share of a step's tasks keep "
        "them, the others are stripped.",
    )
    keep_share: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Share of a step's tasks that keep their notes in training (hybrid): "
        "floor(tasks x share).",
    )
    ratio: Literal["recorded", "recomputed"] = Field(
        default="recorded",
        description="What a stripped row's policy is compared with. recorded = the policy that "
        "sampled it, notes included: the true importance weight, at most notes.cap; recomputed = "
        "the policy at the start of the step without notes, as AgentEvolver does: the ratio "
        "begins at 1 and is clipped at 1 + notes.clip_high.",
    )
    level: Literal["token", "geometric", "sequence"] = Field(
        default="token",
        description="Whose ratio a stripped row's is: of each token, the geometric mean over the "
        "row, or of the whole row.",
    )
    cap: float = Field(
        default=2.0,
        gt=0,
        description="Largest importance weight of a stripped row (recorded).",
    )
    clip_high: float = Field(
        default=0.6,
        ge=0,
        description="How far the ratio of a stripped row may rise above 1 (recomputed); the "
        "seed's off_cliprange_high, there 1.0.",
    )
    min_ess: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="A stripped row whose ratios have a smaller effective sample size (share of "
        "its tokens) is not weighted but distilled: its sampled tokens are learnt as they are, as "
        "much as its advantage is positive. 0 = never.",
    )
    distill_weight: float = Field(
        default=1.0,
        ge=0,
        description="Weight of the loss of such rows.",
    )
    template: str = Field(
        default=TEMPLATE,
        description="What stands around the notes of a prompt; {} marks their place, once.",
    )
    place: Literal["user", "system"] = Field(
        default="user",
        description="Which message of the opening the notes are appended to: the last one, or "
        "the system message (the last one where there is none).",
    )
    top_k: int = Field(
        default=3,
        ge=1,
        le=1000,
        description="Notes that a task gets at most.",
    )
    max_chars: int = Field(
        default=2000,
        ge=1,
        le=MOST,
        description="Characters of notes that a prompt holds at most; the best ones go in first.",
    )
    min_trust: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Notes that are trusted less stay out of prompts.",
    )
    min_overlap: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of words that a task's query and a note's when-to-use must have in "
        "common, of all words in either: notes with less to do with the task stay out of its "
        "prompts, however they were found. 0 = what is found is used.",
    )
    workspace: str = Field(
        default="default",
        min_length=1,
        description="Shelf of the bank that notes are taken from and put on.",
    )
    retrieval: Literal["text", "embedding"] = Field(
        default="text",
        description="How notes are found for a task. text = full-text search (BM25); embedding = "
        "closeness of meaning, with the model of notes.embedder.",
    )
    embedder: str = Field(
        default="minilm",
        min_length=1,
        description="Model of embedding retrieval: minilm, which the extra embeddings brings "
        "along, or any encoder whose sentence vector is the mean over its tokens.",
    )
    start_from: str | None = Field(
        default=None,
        description="Begin with the live notes of this run folder, store (a file or a postgres:// "
        "address), or file of `notes export`. none = with those that are in the run's own store.",
    )
    remote: str | None = Field(
        default=None,
        description="Ask this service for notes instead of the run's own bank: the address of "
        "`recollect notes serve`, or of ReMe's task memory. What it answers is kept with the step.",
    )
    retire_rows: int = Field(
        default=0,
        ge=0,
        le=MOST,
        description="A note is retired once this many attempts had it, and as many in its groups "
        "had none, without succeeding more often by notes.retire_gain. 0 = never. Only groups of "
        "both show that (mixed): with all nobody goes without.",
    )
    retire_gain: float = Field(
        default=0.0,
        ge=-1,
        le=1,
        description="How much more often attempts must succeed with a note for it to stay (mixed).",
    )

    @field_validator("start_from")
    @classmethod
    def _no_password(cls, source: str | None) -> str | None:
        return without_password(source)

    @model_validator(mode="after")
    def _one_place_for_notes(self) -> NotesSettings:
        problem = template_problem(self.template)
        if problem:
            raise conflict(
                "notes.template",
                what=f"notes.template {problem}",
                change=f"Write {PLACEHOLDER} exactly once, where the notes belong.",
            )
        return self

    @model_validator(mode="after")
    def _a_service_has_an_address(self) -> NotesSettings:
        problem = url_problem(self.remote) if self.remote is not None else ""
        if problem:
            raise conflict(
                "notes.remote",
                what=f"notes.remote {problem}",
                change="Write it as http://127.0.0.1:8002.",
            )
        return self


def template_problem(text: str) -> str:
    """Say what is wrong with a template; empty if nothing is. Other braces are plain text."""
    found = text.count(PLACEHOLDER)
    return "" if found == 1 else f"has {found or 'no'} places for notes"
