"""Finding notes at a service, such that the run can be repeated without it.

What the service answers (also "nothing", and that it did not answer at all) is made durable before
any attempt is guided by it, and is never asked for again in that step. So a run that was killed and
goes back some steps is guided as before, whatever the service says now. Notes that come are kept in
the run's own bank, under the step that first saw them: there they have their credit, there they can
be banned.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from recollect.canonical import Json, digest
from recollect.errors import InvalidRecord
from recollect.note_ledger import Distillation
from recollect.notes.bank import Found
from recollect.notes.note import WORKSPACE, Draft
from recollect.notes.remote.client import MemoryClient
from recollect.notes.service.memory import draft_of_memory
from recollect.notes.store_bank import StoreBank
from recollect.types import NoteId, NoteStatus, RunId, TaskKey

_CALL = "retrieve_task_memory"


@dataclass(slots=True)
class RemoteFigures:
    """What a step's questions to a service came to."""

    asked: int = 0
    failed: int = 0
    tries: int = 0
    refused: int = 0  # notes that were given and not taken
    seconds: float = 0.0
    reasons: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RemoteRules:
    """Where notes come from, how far they are trusted, and the tasks they must not know."""

    url: str
    trust: float
    evaluated: frozenset[TaskKey] = frozenset()


class RemoteSearch:
    """Asks a service once for each question of a step; `begin` starts the next step.

    Promises of `recollect.notes.bank.NoteSearch`, but for this: the answer is a function of what
    the service said in this step of this run, for good.
    """

    def __init__(
        self,
        client: MemoryClient,
        bank: StoreBank,
        run: RunId,
        rules: RemoteRules,
        known: Callable[[str], Distillation | None],
        keep: Callable[[Distillation], object],
    ) -> None:
        self._client = client
        self._bank = bank
        self._run = run
        self._rules = rules
        self._known = known
        self._keep = keep
        self._step = 0
        self._answers: dict[str, Mapping[str, Json]] = {}
        self.figures = RemoteFigures()

    def begin(self, step: int) -> None:
        """Start a step: its questions are asked anew."""
        self._step = step
        self._answers = {}
        self.figures = RemoteFigures()

    def search(
        self,
        question: str,
        count: int,
        workspace: str = WORKSPACE,
        min_trust: float = 0.0,
        without: Sequence[NoteId] = (),
    ) -> list[Found]:
        """Find at most `count` notes; [] where the service has none, or does not answer."""
        answer = self._answer(question, count, workspace)
        if "failed" in answer:
            return []
        drafts, refused = _drafts(answer, self._rules)
        self.figures.refused += refused
        notes = {draft.note(workspace, self._run, self._step).id: draft for draft in drafts}
        if notes:
            self._bank.add(list(notes.values()), workspace, self._run, self._step)
        found = [self._bank.get(id_) for id_ in notes if id_ not in without]
        usable = [n for n in found if n.trust >= min_trust and self._is_live(n.id)]
        return [Found(note, float(-place)) for place, note in enumerate(usable[:count])]

    def _is_live(self, note: NoteId) -> bool:
        return self._bank.status(note) is NoteStatus.LIVE

    def _answer(self, question: str, count: int, workspace: str) -> Mapping[str, Json]:
        """Give the answer that this step has, or ask for it and write it down."""
        url = self._rules.url
        key = digest("retrieval", url, workspace, self._run, self._step, count, question)
        if key in self._answers:
            return self._answers[key]
        recorded = self._known(key)
        if recorded is not None:
            answer = recorded.data
        else:
            answer = self._ask(question, count, workspace)
            self._keep(Distillation(key, answer))
        self._answers[key] = answer
        self._count(answer)
        return answer

    def _ask(self, question: str, count: int, workspace: str) -> dict[str, Json]:
        asked: dict[str, Json] = {"query": question, "top_k": count, "workspace_id": workspace}
        reply = self._client.call(_CALL, asked)
        self.figures.seconds += reply.seconds
        if reply.failed:
            return {"failed": reply.failed, "tries": reply.tries}
        try:
            memories = memories_of(reply.answer)
        except InvalidRecord as error:
            return {"failed": error.what, "tries": reply.tries}
        return {"memories": memories[:count], "tries": reply.tries}

    def _count(self, answer: Mapping[str, Json]) -> None:
        figures, tries = self.figures, answer.get("tries")
        figures.asked += 1
        figures.tries += tries if isinstance(tries, int) else 0
        if "failed" in answer:
            figures.failed += 1
            figures.reasons.append(str(answer["failed"]))


def memories_of(answer: Json) -> list[Json]:
    """Take the notes out of an answer: its list of memories, or its text where it has no list.

    Only what we use is kept, in our spelling. InvalidRecord where no such service would say that.
    """
    if not isinstance(answer, dict) or answer.get("success") is False:
        raise InvalidRecord("answer", "the service says that it failed")
    metadata = answer.get("metadata")
    listed = metadata.get("memory_list") if isinstance(metadata, dict) else None
    if isinstance(listed, list) and listed:
        return [_plain(memory) for memory in listed]
    text = answer.get("answer")
    if not isinstance(text, str):
        raise InvalidRecord("answer", "the service gave neither memories nor a text")
    return [{"content": text, "when_to_use": ""}] if text.strip() else []


def _plain(memory: Json) -> Json:
    """Keep of a memory what a note is made of; the rest could be anything."""
    try:
        draft = draft_of_memory(memory, "", 1.0)
    except InvalidRecord as error:
        return {"refused": error.what}
    return {
        "content": draft.content,
        "when_to_use": draft.when_to_use,
        "metadata": {"trust": draft.trust, "tasks": [*draft.tasks]},
    }


def _drafts(answer: Mapping[str, Json], rules: RemoteRules) -> tuple[list[Draft], int]:
    """Read a recorded answer; notes learnt from tasks that are evaluated on are not taken."""
    memories = answer.get("memories")
    drafts = []
    given: Collection[Json] = memories if isinstance(memories, list) else ()
    for memory in given:
        try:
            draft = draft_of_memory(memory, rules.url, rules.trust)
        except InvalidRecord:
            continue
        if not rules.evaluated.intersection(draft.tasks):
            drafts.append(draft)
    return drafts, len(given) - len(drafts)
