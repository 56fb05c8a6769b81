"""The bank in the store: notes, marks and trials as records, an index of them in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

from recollect.errors import AmbiguousId, InvalidRecord, StoreReadOnly, UnknownId
from recollect.ledger import Note
from recollect.note_ledger import NoteMark, NoteTrial
from recollect.notes.bank import Added, Found
from recollect.notes.credit import Credit, CreditBook
from recollect.notes.note import WORKSPACE, Draft, source_links
from recollect.notes.retrieve import Retriever, TextRetriever, similarity
from recollect.store.base import Store, StoreReader
from recollect.store.records import Batch, NoteVersion
from recollect.types import NoteAction, NoteId, NoteStatus, RunId

_STATUS_AFTER = {
    NoteAction.BAN: NoteStatus.BANNED,
    NoteAction.RETIRE: NoteStatus.RETIRED,
    NoteAction.REVIVE: NoteStatus.LIVE,
}
_NEIGHBOURS = 8  # notes that a draft is compared with
_HINT = "List what is there with: recollect notes ls"


class StoreBank:
    """Notes in a store, what became of them, and what they did. Safe to share between threads.

    - **Durable**: what `add`, `mark` and `record` were given survives kill -9 when they return.
    - **Once**: a draft that says what a note of its workspace says already (live, retired or
      banned) is not added; a banned lesson does not come back under another id.
    - **Nothing is deleted**: `mark` takes notes out of `search`, and can take them back in.
    - Run and step, where they are given, make a change part of that step: fencing undoes it.

    Over a reader it can be asked and not changed (StoreReadOnly). `max_similarity` is the share of
    words in common (see `similarity`) above which a draft counts as known. `retriever` makes the
    index of one workspace. What other processes write is seen at the next call.
    """

    def __init__(
        self,
        store: StoreReader,
        *,
        retriever: Callable[[], Retriever] = TextRetriever,
        max_similarity: float = 0.8,
    ) -> None:
        self._store = store
        self._make_retriever = retriever
        self._max_similarity = max_similarity
        self._lock = threading.RLock()
        self._version: NoteVersion | None = None
        self._notes: dict[NoteId, Note] = {}
        self._status: dict[NoteId, NoteStatus] = {}
        self._live: dict[str, Retriever] = {}  # by workspace: what can be found
        self._all: dict[str, TextRetriever] = {}  # by workspace: what a draft is compared with

    # -- asking ---------------------------------------------------------------------------

    def search(
        self,
        question: str,
        count: int,
        workspace: str = WORKSPACE,
        min_trust: float = 0.0,
        without: Sequence[NoteId] = (),
    ) -> list[Found]:
        """Find at most `count` live notes for a question, best first; [] where none fits."""
        with self._lock:
            self._refresh()
            index = self._live.get(workspace)
            if index is None or count < 1:
                return []
            barred = {*without, *self._distrusted(workspace, min_trust)}
            ranked = index.search(question, count + len(barred))
            found = [Found(self._notes[id_], score) for id_, score in ranked if id_ not in barred]
            return found[:count]

    def _distrusted(self, workspace: str, min_trust: float) -> list[NoteId]:
        if min_trust <= 0:
            return []
        every = self._notes.values()
        return [n.id for n in every if n.workspace == workspace and n.trust < min_trust]

    def get(self, note: NoteId) -> Note:
        """Return a note, whatever its status; UnknownId if it is not there."""
        with self._lock:
            self._refresh()
            if note not in self._notes:
                raise UnknownId(self._store.path, "note", note, _HINT)
            return self._notes[note]

    def resolve(self, prefix: str) -> NoteId:
        """Complete a shortened id; UnknownId or AmbiguousId if that fails."""
        with self._lock:
            self._refresh()
            found = sorted(id_ for id_ in self._notes if prefix and id_.startswith(prefix))
        if not found:
            raise UnknownId(self._store.path, "note", prefix, _HINT)
        if len(found) > 1 and prefix not in found:
            raise AmbiguousId(self._store.path, "note", prefix, found[:3])
        return NoteId(prefix) if prefix in found else found[0]

    def notes(self, workspace: str | None = None, status: NoteStatus | None = None) -> list[Note]:
        """List notes, oldest first, of one workspace and status or of any."""
        with self._lock:
            self._refresh()
            return [
                note
                for note in self._notes.values()
                if workspace in (None, note.workspace) and status in (None, self._status[note.id])
            ]

    def status(self, note: NoteId) -> NoteStatus:
        """Tell whether a note may be used."""
        with self._lock:
            return self._status[self.get(note).id]

    def credit(self, note: NoteId) -> Credit:
        """Tell what a note has done so far."""
        return self.credits().get(note, Credit())

    def credits(self) -> dict[NoteId, Credit]:
        """Tell what all notes have done that were ever used; shares are within a workspace."""
        with self._lock:
            self._refresh()
            shelves: dict[str, list[NoteTrial]] = {}
            for trial in self._store.note_trials():
                if trial.note in self._notes:
                    shelves.setdefault(self._notes[trial.note].workspace, []).append(trial)
        found: dict[NoteId, Credit] = {}
        for trials in shelves.values():
            found |= CreditBook(trials).credits()
        return found

    # -- changing -------------------------------------------------------------------------

    def add(
        self,
        drafts: Sequence[Draft],
        workspace: str = WORKSPACE,
        run: RunId | None = None,
        step: int | None = None,
    ) -> Added:
        """Take new lessons up, in order, all in one transaction; InvalidRecord without a shelf."""
        if not workspace.strip():
            raise InvalidRecord("note.workspace", "is empty: a shelf needs a name to be found by")
        with self._lock:
            self._refresh()
            new: dict[NoteId, Note] = {}
            for draft in drafts:
                note = draft.note(workspace, run, step)
                if note.id not in new and not self._is_known(note, list(new.values())):
                    new[note.id] = note
            notes = list(new.values())
            if notes:
                links = [link for note in notes for link in source_links(note)]
                self._writer().commit(Batch(notes=notes, links=links))
            return Added(tuple(notes), len(drafts) - len(notes))

    def mark(
        self,
        notes: Sequence[NoteId],
        action: NoteAction,
        reason: str,
        run: RunId | None = None,
        step: int | None = None,
    ) -> None:
        """Ban, unban, retire or revive notes; UnknownId if one of them is not there."""
        with self._lock:
            marks = [NoteMark(note, action, reason, run, step) for note in notes]
            self._writer().commit(Batch(note_marks=marks))

    def record(self, trials: Sequence[NoteTrial]) -> None:
        """Write down what notes did."""
        with self._lock:
            self._writer().commit(Batch(note_trials=trials))

    def _writer(self) -> Store:
        if not hasattr(self._store, "commit"):
            raise StoreReadOnly(self._store.path, "it was opened for reading")
        return self._store  # type: ignore[return-value]

    def _is_known(self, note: Note, coming: Sequence[Note]) -> bool:
        if note.id in self._notes:
            return True
        text = _said(note)
        index = self._all.get(note.workspace)
        near = index.search(text, _NEIGHBOURS) if index is not None else []
        others = [*(self._notes[id_] for id_, _ in near), *coming]
        return any(similarity(text, _said(other)) > self._max_similarity for other in others)

    # -- following the store ----------------------------------------------------------------

    def _refresh(self) -> None:
        """Read again what changed since the last time; all of it if steps were set aside."""
        version = self._store.note_version()
        if version == self._version:
            return
        if self._version is None or version.fence != self._version.fence:
            self._notes, self._status, self._live, self._all = {}, {}, {}, {}
        status = _statuses(self._store.note_marks())
        for note in self._store.notes():
            now = status.get(note.id, NoteStatus.LIVE)
            if note.id not in self._notes:
                self._notes[note.id] = note
                self._all.setdefault(note.workspace, TextRetriever()).add([note])
            self._place(note, self._status.get(note.id), now)
            self._status[note.id] = now
        self._version = version

    def _place(self, note: Note, before: NoteStatus | None, now: NoteStatus) -> None:
        """Put a note into the index of what can be found, or take it out."""
        if note.workspace not in self._live:
            self._live[note.workspace] = self._make_retriever()
        was, is_ = before is NoteStatus.LIVE, now is NoteStatus.LIVE
        if is_ and not was:
            self._live[note.workspace].add([note])
        if was and not is_:
            self._live[note.workspace].remove([note.id])


def _statuses(marks: Iterable[NoteMark]) -> dict[NoteId, NoteStatus]:
    """Replay marks, oldest first; the end of a ban brings back the status before it."""
    status: dict[NoteId, NoteStatus] = {}
    before_ban: dict[NoteId, NoteStatus] = {}
    for mark in marks:
        now = status.get(mark.note, NoteStatus.LIVE)
        if mark.action is NoteAction.UNBAN:
            status[mark.note] = before_ban.pop(mark.note, now)
            continue
        if mark.action is NoteAction.BAN:
            before_ban.setdefault(mark.note, now)
        else:
            before_ban.pop(mark.note, None)
        status[mark.note] = _STATUS_AFTER[mark.action]
    return status


def _said(note: Note) -> str:
    return f"{note.when_to_use}\n{note.content}"
