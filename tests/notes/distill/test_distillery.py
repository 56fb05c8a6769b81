"""The distillery: due when it is due, tried as often as allowed, asked once and for all."""

from __future__ import annotations

import threading
import time

import pytest

from recollect.canonical import Json
from recollect.errors import InvalidRecord
from recollect.note_ledger import Distillation
from recollect.notes.distill.distillery import Distillery, Patience
from recollect.notes.distill.study import Study
from recollect.notes.distill.writer import Question, WritingFailed, ask
from recollect.notes.note import Draft

from .test_writing import BAD, GOOD, TASK


class Scripted:
    """A writer that does what a list says: text to write, or an exception to raise."""

    def __init__(self, *script: str | Exception, inline: bool = False) -> None:
        self.name = "scripted"
        self.inline = inline
        self.script = list(script)
        self.asked = 0
        self.gate = threading.Event()
        self.gate.set()

    def prompt(self, study: Study) -> str:
        return ""

    def write(self, question: Question) -> Draft:
        self.gate.wait(10)
        self.asked += 1
        said = self.script.pop(0)
        if isinstance(said, Exception):
            raise said
        return question.draft(said, "when", self.name)


def questions(writer: Scripted, count: int = 1) -> list[Question]:
    study = Study(TASK, GOOD, BAD, 0.5)
    return [Question(f"{ask(writer, study).key}-{n}", study) for n in range(count)]


def distillery(writer: Scripted, delay: int = 1, workers: int = 1, tries: int = 3) -> Distillery:
    return Distillery(
        writer, {}.get, delay, workers, Patience(tries, 1.0), pause=lambda seconds: None
    )


def test_answers_come_at_their_step_and_in_order() -> None:
    writer = Scripted("one", "two", "three")
    made = distillery(writer, delay=2)
    assert made.submit(4, questions(writer, 3)) == []
    assert made.harvest(5).asked == 0
    harvest = made.harvest(6)
    assert [draft.content for draft in harvest.drafts] == ["one", "two", "three"]
    assert (harvest.asked, harvest.tries, harvest.failed) == (3, 3, ())
    assert len(harvest.records) == 3
    assert made.harvest(6).asked == 0, "taken once"
    made.close()


def test_a_step_waits_for_its_answers() -> None:
    writer = Scripted("late")
    writer.gate.clear()
    made = distillery(writer)
    made.submit(1, questions(writer))
    threading.Timer(0.2, writer.gate.set).start()
    harvest = made.harvest(2)
    assert [draft.content for draft in harvest.drafts] == ["late"]
    assert harvest.seconds > 0.1
    made.close()


def test_what_can_be_retried_is() -> None:
    busy = WritingFailed("busy", retry=True)
    writer = Scripted(busy, busy, "at last")
    made = distillery(writer)
    made.submit(1, questions(writer))
    harvest = made.harvest(2)
    assert (harvest.tries, len(harvest.drafts), writer.asked) == (3, 1, 3)
    made.close()


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (WritingFailed("busy", retry=True), 3),
        (WritingFailed("refused"), 1),
        (InvalidRecord("note.content", "is empty"), 1),
    ],
)
def test_a_failure_is_an_answer_too(error: Exception, asked: int) -> None:
    writer = Scripted(*[error] * 5)
    made = distillery(writer)
    made.submit(1, questions(writer))
    harvest = made.harvest(2)
    assert (harvest.drafts, len(harvest.failed), writer.asked) == ((), 1, asked)
    assert "failed" in harvest.records[0].data
    made.close()


def test_what_is_durable_is_not_asked_again() -> None:
    writer = Scripted("one", WritingFailed("no"))
    first = distillery(writer)
    first.submit(1, questions(writer, 2))
    kept = {record.key: record for record in first.harvest(2).records}
    silent = Scripted()
    again = Distillery(silent, kept.get, 1)
    assert again.submit(1, questions(writer, 2)) == []
    harvest = again.harvest(2)
    assert [draft.content for draft in harvest.drafts] == ["one"]
    assert (harvest.failed, harvest.records, silent.asked) == (("no",), (), 0)
    first.close()


def test_an_inline_writer_answers_at_once_and_is_made_durable_then() -> None:
    writer = Scripted("now", inline=True)
    made = distillery(writer, delay=5)
    (record,) = made.submit(1, questions(writer))
    assert isinstance(record, Distillation)
    assert writer.asked == 1
    harvest = made.harvest(6)
    assert harvest.records == ()
    assert [draft.content for draft in harvest.drafts] == ["now"]


def test_workers_are_bounded() -> None:
    """However many questions there are, only so many are with the writer at once."""
    writer = Scripted(*"abcdefgh")
    busy, most, lock = 0, 0, threading.Lock()
    write = writer.write

    def counted(question: Question) -> Draft:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        time.sleep(0.01)
        try:
            return write(question)
        finally:
            with lock:
                busy -= 1

    writer.write = counted  # type: ignore[method-assign]
    made = distillery(writer, workers=2)
    made.submit(1, questions(writer, 8))
    assert len(made.harvest(2).drafts) == 8
    assert most == 2
    made.close()


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recollect.notes.distill.distillery._MARGIN", 0.05)
    monkeypatch.setattr("recollect.notes.distill.distillery._LONGEST_PAUSE", 0.0)
    writer = Scripted("too late")
    writer.gate.clear()
    made = Distillery(writer, {}.get, 1, 1, Patience(1, 0.01))
    made.submit(1, questions(writer))
    harvest = made.harvest(2)
    assert harvest.failed == ("no answer in time",)
    assert harvest.records[0].data["failed"] == "no answer in time"
    writer.gate.set()
    made.close()


def test_an_answer_that_comes_too_late_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may come between being recorded and being used; what is used is what was recorded."""
    writer = Scripted("too late")
    writer.gate.clear()
    made = Distillery(writer, {}.get, 1, 1, Patience(1, 0.01))
    made.submit(1, questions(writer))
    ((job,),) = made._due.values()
    monkeypatch.setattr(job.ready, "wait", lambda seconds: False)

    def recorded(key: str, data: dict[str, Json]) -> Distillation:
        job.answer = {"content": "too late", "tries": 1}  # as the writer's thread would
        return Distillation(key, data)

    monkeypatch.setattr("recollect.notes.distill.distillery.Distillation", recorded)
    harvest = made.harvest(2)
    assert harvest.failed == ("no answer in time",)
    assert harvest.drafts == ()
    writer.gate.set()
    made.close()
