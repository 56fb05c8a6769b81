"""The five calls of ReMe's task memory, answered from our bank.

    retrieve_task_memory   query, top_k, workspace_id          notes for a question
    summary_task_memory    trajectories, workspace_id          lessons of conversations
    vector_store           action, workspace_id, ...           list, copy, delete, dump, load
    record_task_memory     memory_dicts, update_utility        what notes did
    delete_task_memory     freq_threshold, utility_threshold   notes that do not help

What ReMe deletes is retired here: nothing is lost, and `recollect notes revive` takes it back.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from recollect.canonical import Json
from recollect.errors import BadFile, BadRequest, InvalidRecord, UnknownId
from recollect.ledger import Note
from recollect.note_ledger import NoteTrial
from recollect.notes.credit import Credit
from recollect.notes.files import read_notes, write_notes
from recollect.notes.inject import SEPARATOR
from recollect.notes.note import Draft, draft_of
from recollect.notes.service.asked import Asked
from recollect.notes.service.lessons import lessons, read_attempts
from recollect.notes.service.memory import memory_of
from recollect.notes.store_bank import StoreBank
from recollect.types import NoteAction, NoteId, NoteStatus

_MOST_FOUND = 100  # notes in one answer
_MOST_IDS = 100_000
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}\Z")
_AUTHOR = "service"
_ALL = 2**31 - 1

Answer = dict[str, Json]


@dataclass(frozen=True, slots=True)
class ServiceRules:
    """What a service keeps to.

    Notes below `min_trust` are not given out; lessons that are sent in are trusted `trust`;
    `threshold` is the score from which an attempt is a success; files are written and read in
    `files` only (None: not at all).
    """

    min_trust: float = 0.5
    trust: float = 0.5
    threshold: float = 1.0
    files: Path | None = None


RULES = ServiceRules()


class NoteService:
    """Answers calls; safe to share between threads. What it says is done is durable."""

    def __init__(self, bank: StoreBank, rules: ServiceRules = RULES) -> None:
        self._bank = bank
        self._rules = rules
        self._changing = threading.Lock()  # one change at a time: each looks before it writes
        self._actions: Mapping[str, Callable[[Asked, str], Json]] = {
            "list": self._list,
            "copy": self._copy,
            "delete": self._delete_all,
            "delete_ids": self._delete_ids,
            "dump": self._dump,
            "load": self._load,
        }
        self.calls: Mapping[str, Callable[[Asked], Answer]] = {
            "retrieve_task_memory": self.retrieve,
            "summary_task_memory": self.summarise,
            "vector_store": self.manage,
            "record_task_memory": self.record,
            "delete_task_memory": self.forget,
        }

    def retrieve(self, asked: Asked) -> Answer:
        """Find notes for a question."""
        query = asked.text("query")
        count = asked.whole("top_k", 3, 1, _MOST_FOUND)
        workspace = asked.workspace()
        found = self._bank.search(query, count, workspace, self._rules.min_trust)
        memories: list[Json] = [memory_of(each.note, each.score) for each in found]
        return _answer(SEPARATOR.join(each.note.content for each in found), memory_list=memories)

    def summarise(self, asked: Asked) -> Answer:
        """Learn from conversations with their scores."""
        rules = self._rules
        workspace = asked.workspace()
        try:
            drafts = lessons(read_attempts(asked), rules.threshold, rules.trust, _AUTHOR)
        except InvalidRecord as error:
            raise BadRequest("trajectories", f"make no note: {error.what}") from error
        with self._changing:
            added = self._bank.add(drafts, workspace)
        memories: list[Json] = [memory_of(note) for note in added.notes]
        return _answer("", memory_list=memories, duplicates=added.duplicates)

    def record(self, asked: Asked) -> Answer:
        """Write down that notes were used, and whether it went well."""
        workspace, won = asked.workspace(), asked.flag("update_utility")
        named = asked.items("memory_dicts", _MOST_IDS)
        ids = [m.get("memory_id") if isinstance(m, dict) else None for m in named]
        with self._changing:
            notes = [self._note(f"memory_dicts[{n}]", id_, workspace) for n, id_ in enumerate(ids)]
            if notes:
                self._bank.record([NoteTrial(note.id, "", 1, int(won)) for note in notes])
        return _answer("", recorded=len(notes))

    def forget(self, asked: Asked) -> Answer:
        """Retire notes that were used often enough and did not help often enough."""
        workspace = asked.workspace()
        least = asked.whole("freq_threshold", None, 0, _ALL)
        rate = asked.number("utility_threshold")
        with self._changing:
            credits_ = self._bank.credits()
            live = self._bank.notes(workspace, NoteStatus.LIVE)
            useless = [
                note.id
                for note in live
                if _is_useless(credits_.get(note.id, Credit()), least, rate)
            ]
            self._retire(useless, f"won less than {rate:g} of {least} uses or more")
        return _answer("", deleted_memory_ids=[*useless])

    def manage(self, asked: Asked) -> Answer:
        """Do something to a workspace."""
        action, workspace = asked.text("action"), asked.workspace()
        if action not in self._actions:
            raise BadRequest("action", f"must be one of {', '.join(self._actions)}")
        return _answer("", action_result=self._actions[action](asked, workspace))

    # -- actions on a workspace ------------------------------------------------------------------

    def _list(self, asked: Asked, workspace: str) -> Json:
        credits_ = self._bank.credits()
        live = self._bank.notes(workspace, NoteStatus.LIVE)
        return [memory_of(note, credit=credits_.get(note.id, Credit())) for note in live]

    def _copy(self, asked: Asked, workspace: str) -> Json:
        source = asked.workspace("src_workspace_id")
        notes = self._bank.notes(source, NoteStatus.LIVE)
        return {"size": self._take([draft_of(note) for note in notes], workspace)}

    def _delete_all(self, asked: Asked, workspace: str) -> Json:
        with self._changing:
            live = [note.id for note in self._bank.notes(workspace, NoteStatus.LIVE)]
            self._retire(live, "deleted with its workspace")
        return {"size": len(live)}

    def _delete_ids(self, asked: Asked, workspace: str) -> Json:
        ids = asked.items("memory_ids", _MOST_IDS)
        with self._changing:
            found = [self._note(f"memory_ids[{n}]", id_, workspace).id for n, id_ in enumerate(ids)]
            live = [id_ for id_ in dict.fromkeys(found) if self._is_live(id_)]
            self._retire(live, "deleted by its id")
        return {"size": len(live)}

    def _dump(self, asked: Asked, workspace: str) -> Json:
        path = self._file(asked)
        live = self._bank.notes(workspace, NoteStatus.LIVE)
        return {"size": write_notes(live, path, overwrite=True)}

    def _load(self, asked: Asked, workspace: str) -> Json:
        path = self._file(asked)
        if not path.exists():
            raise BadRequest("path", f"there is no file {path.name}", 404)
        try:
            found = read_notes(path, self._rules.trust)
        except BadFile as error:
            raise BadRequest("path", f"cannot be used ({error.what.rstrip('.')})") from error
        size = self._take([draft for _, draft in found.drafts], workspace)
        return {"size": size, "bad_lines": len(found.bad)}

    def _take(self, drafts: Sequence[Draft], workspace: str) -> int:
        """Put whole notes into a workspace; those that were deleted there come back."""
        with self._changing:
            known = [draft.note(workspace).id for draft in drafts]
            every = {note.id for note in self._bank.notes(workspace, NoteStatus.RETIRED)}
            back = [id_ for id_ in dict.fromkeys(known) if id_ in every]
            if back:
                self._bank.mark(back, NoteAction.REVIVE, "put back through the service")
            return len(back) + len(self._bank.add(drafts, workspace).notes)

    def _file(self, asked: Asked) -> Path:
        name = asked.text("path")
        if self._rules.files is None:
            raise BadRequest("path", "this server was started without --files", 403)
        if not _FILE.match(name):
            # A path from the network could lead anywhere.
            raise BadRequest("path", "must be a plain name: letters, digits and _ . -")
        path = self._rules.files / (name if name.endswith(".jsonl") else f"{name}.jsonl")
        if path.is_symlink():
            raise BadRequest("path", "leads elsewhere", 403)
        if path.is_dir():
            raise BadRequest("path", "is the name of a folder")
        return path

    # -- notes by id -----------------------------------------------------------------------------

    def _note(self, where: str, id_: Json, workspace: str) -> Note:
        try:
            if not isinstance(id_, str):
                raise BadRequest(where, "names no memory_id")
            note = self._bank.get(NoteId(id_))
        except UnknownId:
            note = None
        if note is None or note.workspace != workspace:
            raise BadRequest(where, f"there is no such note in workspace {workspace!r}", 404)
        return note

    def _is_live(self, note: NoteId) -> bool:
        return self._bank.status(note) is NoteStatus.LIVE

    def _retire(self, notes: Sequence[NoteId], reason: str) -> None:
        if notes:
            self._bank.mark(notes, NoteAction.RETIRE, reason)


def _is_useless(credit: Credit, least: int, rate: float) -> bool:
    """ReMe's rule: used `least` times or more, of which less than `rate` went well."""
    return credit.rate is not None and credit.rows >= least and credit.rate < rate


def _answer(text: str, **metadata: Json) -> Answer:
    return {"answer": text, "success": True, "metadata": dict(metadata)}
