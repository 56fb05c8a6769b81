"""Who writes notes: the seam, and the rules that need no model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from recollect.canonical import digest
from recollect.config.schema.distill import FAILURE_TRUST
from recollect.notes.distill.study import Study, turns_of
from recollect.notes.note import MOST_CHARS, Draft, NoteKind
from recollect.notes.wording import example, first_difference, warning
from recollect.types import TaskKey, TrajectoryId

# A lesson that a success proves is trusted.
_TRUST = {
    NoteKind.COMPARISON: 1.0,
    NoteKind.SUCCESS: 1.0,
    NoteKind.FAILURE: FAILURE_TRUST,
}


@dataclass(frozen=True, slots=True)
class Question:
    """One group to be distilled. Its key names the question and who is asked, for good."""

    key: str
    study: Study
    prompt: str = ""  # for a writer that is a model

    @property
    def sources(self) -> tuple[TrajectoryId, ...]:
        """The attempts that a note would be learnt from."""
        return tuple(row.id for row in self.study.rows)

    def draft(self, content: str, when_to_use: str, author: str) -> Draft:
        """Make a draft of what was written; InvalidRecord where it is no note."""
        return Draft(
            content=content,
            when_to_use=when_to_use[:MOST_CHARS],  # a long request is no reason to learn nothing
            kind=self.study.kind,
            author=author,
            trust=_TRUST[self.study.kind],
            sources=self.sources,
            tasks=(TaskKey(self.study.task.key),),
        )


class WritingFailed(Exception):
    """No note was written; `retry` says whether asking again may help."""

    def __init__(self, reason: str, retry: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry = retry


class Writer(Protocol):
    """Somebody who turns a study into a note.

    `name` goes into the note and into the question's key: two writers with one name must write the
    same. `prompt` is what a study is put to it as; empty for one that needs none. `inline` means
    that it is asked at once, by the training process, and never by another thread.
    """

    @property
    def name(self) -> str:
        """Who writes."""

    @property
    def inline(self) -> bool:
        """Whether it is asked by the training process itself."""

    def prompt(self, study: Study) -> str:
        """Put a study as a question."""

    def write(self, question: Question) -> Draft:
        """Write a note; WritingFailed or InvalidRecord if it does not come to one."""


def ask(writer: Writer, study: Study) -> Question:
    """Make the question that a writer is asked about a study."""
    prompt = writer.prompt(study)
    sources = [str(row.id) for row in study.rows]
    return Question(digest("distillation", writer.name, prompt, *sources), study, prompt)


class RuleWriter:
    """Writes worked examples by comparing the best attempt with the worst; needs no model."""

    name = "rules"
    inline = False

    def prompt(self, study: Study) -> str:
        """Put the attempts themselves: the key then changes with what was said in them."""
        return "\n".join(turn for row in study.rows for turn in turns_of(row))

    def write(self, question: Question) -> Draft:
        """Write down the turns that worked and the first one that did not."""
        study = question.study
        best = turns_of(study.best) if study.best else []
        worst = turns_of(study.worst) if study.worst else []
        if study.best is None:
            text = warning(study.request, worst)
        else:
            text = example(study.request, best, first_difference(worst, best))
        if not (best or worst):
            raise WritingFailed("the attempts say nothing")
        return question.draft(text, study.request, self.name)
