"""Writing notes while training goes on, with a result that does not depend on when it is ready.

A question put at step s is answered by step s + delay: there the run takes the answer, waiting for
it if need be, and makes it durable before anything depends on it. An answer that is durable is
never asked for again, so a run that was killed and goes back a few steps reads what it read before.
A writer that fails, or is late beyond all patience, has answered too: "nothing".
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from recollect.canonical import Json
from recollect.errors import InvalidRecord
from recollect.note_ledger import Distillation
from recollect.notes.distill.writer import Question, Writer, WritingFailed
from recollect.notes.note import Draft

_FIRST_PAUSE = 0.5  # seconds before the second try; doubled for each further one
_LONGEST_PAUSE = 30.0
_MARGIN = 5.0  # seconds of patience beyond what a job may take
_LATE: Mapping[str, Json] = {"failed": "no answer in time", "tries": 0}


@dataclass(frozen=True, slots=True)
class Patience:
    """How hard a writer is tried: times, and seconds that one time may take."""

    tries: int = 3
    seconds: float = 60.0

    @property
    def longest(self) -> float:
        """Seconds that a question may take in all."""
        return self.tries * (self.seconds + _LONGEST_PAUSE)


@dataclass(frozen=True, slots=True)
class Harvest:
    """What came of the questions of a step: notes in order, failures, tries, seconds of waiting.

    `records` are to be committed with the notes; answers that were known already are not in them.
    """

    drafts: tuple[Draft, ...] = ()
    records: tuple[Distillation, ...] = ()
    asked: int = 0
    failed: tuple[str, ...] = ()
    tries: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class _Job:
    question: Question
    known: bool = False
    answer: dict[str, Json] = field(default_factory=lambda: {"failed": "it broke off", "tries": 0})
    ready: threading.Event = field(default_factory=threading.Event)


class Distillery:
    """Puts questions to a writer and hands the answers over at the step they are due.

    `known` looks an answer up that is durable. At most `workers` questions are with the writer at
    once. Only the thread that calls `submit` and `harvest` ever touches the store.
    """

    def __init__(
        self,
        writer: Writer,
        known: Callable[[str], Distillation | None],
        delay: int,
        workers: int = 2,
        patience: Patience = Patience(),  # noqa: B008 - frozen
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._writer = writer
        self._known = known
        self._delay = delay
        self._workers = workers
        self._patience = patience
        self._pause = pause
        self._due: dict[int, list[_Job]] = {}
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []

    def submit(self, step: int, questions: Sequence[Question]) -> list[Distillation]:
        """Put the questions of a step. Gives answers that are there already, to be made durable."""
        jobs = self._due.setdefault(step + self._delay, [])
        answered = []
        for question in questions:
            job = _Job(question)
            jobs.append(job)
            found = self._known(question.key)
            if found is not None:
                job.known, job.answer = True, dict(found.data)
                job.ready.set()
            elif self._writer.inline:
                self._work(job)
                job.known = True
                answered.append(Distillation(question.key, job.answer))
            else:
                self._hire()
                self._jobs.put(job)
        return answered

    def harvest(self, step: int) -> Harvest:
        """Take the answers that are due at a step, in the order of the questions."""
        jobs = self._due.pop(step, [])
        started = time.perf_counter()
        # Jobs stand in one line: the last has to wait for its turn, too.
        turns = -(-len(jobs) // self._workers)
        limit = turns * self._patience.longest + _MARGIN
        drafts, records, failed, tries = [], [], [], 0
        for job in jobs:
            left = limit - (time.perf_counter() - started)
            # Looked at once: a writer that is late could change it under our hands, and what is
            # used here would not be what was made durable.
            in_time = job.ready.wait(max(0.0, left))
            answer = job.answer if in_time else _LATE
            if not job.known:
                records.append(Distillation(job.question.key, answer))
            tries += _tries(answer)
            try:
                drafts.append(_read(job.question, answer))
            except (WritingFailed, InvalidRecord) as error:
                failed.append(_reason(error))
        waited = time.perf_counter() - started
        return Harvest(
            tuple(drafts), tuple(records), len(jobs), tuple(failed), tries, waited if jobs else 0.0
        )

    def close(self) -> None:
        """Let the threads end; answers that nobody took are lost, and asked for again."""
        for _ in self._threads:
            self._jobs.put(None)
        self._threads = []

    def _hire(self) -> None:
        if len(self._threads) < self._workers:
            name = f"recollect-distiller-{len(self._threads)}"
            # A daemon: a server that does not answer must not keep a finished run from ending.
            thread = threading.Thread(target=self._loop, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _loop(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._work(job)

    def _work(self, job: _Job) -> None:
        """Try until there is an answer, or no more patience."""
        pause = _FIRST_PAUSE
        try:
            for number in range(1, self._patience.tries + 1):
                if number > 1:
                    self._pause(pause)
                    pause = min(_LONGEST_PAUSE, 2 * pause)
                try:
                    job.answer = _spelt(self._writer.write(job.question), number)
                    return
                except (WritingFailed, InvalidRecord) as error:
                    job.answer = {"failed": _reason(error), "tries": number}
                    if not getattr(error, "retry", False):
                        return
        finally:  # whatever happens, the run must not wait for ever
            job.ready.set()


def _spelt(draft: Draft, tries: int) -> dict[str, Json]:
    facts: dict[str, Json] = {"content": draft.content, "when_to_use": draft.when_to_use}
    return {**facts, "author": draft.author, "tries": tries}


def _read(question: Question, answer: Mapping[str, Json]) -> Draft:
    if "failed" in answer:
        raise WritingFailed(str(answer["failed"]))
    return question.draft(
        str(answer.get("content", "")),
        str(answer.get("when_to_use", "")),
        str(answer.get("author", "")),
    )


def _tries(answer: Mapping[str, Json]) -> int:
    found = answer.get("tries")
    return found if isinstance(found, int) else 0


def _reason(error: WritingFailed | InvalidRecord) -> str:
    return error.reason if isinstance(error, WritingFailed) else error.what
