"""What the calls do to the bank."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recollect.errors import BadRequest
from recollect.notes.note import Draft, NoteKind, kind_of, tasks_of
from recollect.notes.service.asked import Asked
from recollect.notes.service.calls import NoteService, ServiceRules
from recollect.notes.store_bank import StoreBank
from recollect.store import open_store
from recollect.types import NoteAction, NoteStatus

CANCEL = Draft("Look the booking up, then cancel it.", "cancel a booking")
SEAT = Draft("Use the seat tool.", "change a seat", trust=0.2)


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[StoreBank]:
    with open_store(tmp_path / "bank.db") as store:
        bank = StoreBank(store)
        bank.add([CANCEL, SEAT])
        yield bank


@pytest.fixture
def service(bank: StoreBank, tmp_path: Path) -> NoteService:
    (tmp_path / "files").mkdir()
    return NoteService(bank, ServiceRules(files=tmp_path / "files"))


def do(service: NoteService, call: str, **body: Any) -> dict[str, Any]:
    found = service.calls[call](Asked(body))
    assert found["success"] is True
    metadata = found["metadata"]
    assert isinstance(metadata, dict)
    return {"answer": found["answer"], **metadata}


def attempt(request: str, *turns: str, score: float = 1.0, **more: Any) -> dict[str, Any]:
    said = [{"role": "assistant", "content": turn} for turn in turns]
    opening = [{"role": "system", "content": "s"}, {"role": "user", "content": request}]
    return {"messages": [*opening, *said], "score": score, **more}


def test_notes_are_found_by_their_workspace_words_and_trust(service: NoteService) -> None:
    found = do(service, "retrieve_task_memory", query="please cancel my booking", top_k=5)
    assert found["answer"] == CANCEL.content
    (memory,) = found["memory_list"]
    assert memory["memory_type"] == "task"
    assert (memory["when_to_use"], memory["content"]) == (CANCEL.when_to_use, CANCEL.content)
    assert (
        do(service, "retrieve_task_memory", query="seat")["memory_list"] == []
    )  # trusted too little
    other = do(service, "retrieve_task_memory", query="cancel", workspace_id="other")
    assert (other["answer"], other["memory_list"]) == ("", [])


def test_a_summary_learns_from_what_worked(service: NoteService, bank: StoreBank) -> None:
    sent = [
        attempt("book", "look()", "book(1)", metadata={"task": "t1"}),
        attempt("book", "guess()", score=0.0, metadata={"task": "t1"}),
        attempt("pay", "pay(2)"),
        attempt("fly", "crash()", score=0.5),
    ]
    found = do(service, "summary_task_memory", trajectories=sent, workspace_id="w")
    assert (len(found["memory_list"]), found["duplicates"]) == (2, 0)
    compared, succeeded = bank.notes("w")
    assert compared.content == "Request: book\nNot: guess()\n1: look()\n2: book(1)"
    assert (kind_of(compared), tasks_of(compared)) == (NoteKind.COMPARISON, ("t1",))
    assert kind_of(succeeded) is NoteKind.SUCCESS
    assert {note.trust for note in bank.notes("w")} == {0.5}
    again = do(service, "summary_task_memory", trajectories=sent, workspace_id="w")
    assert (again["memory_list"], again["duplicates"]) == ([], 2)


def test_tool_calls_and_parts_are_turns_too(service: NoteService) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "pay", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "pay"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "done"},
        {"role": "assistant", "content": "Paid."},
    ]
    sent = [{"messages": messages, "score": 1.0}]
    (memory,) = do(service, "summary_task_memory", trajectories=sent)["memory_list"]
    assert memory["content"].startswith("Request: pay\n1: [{")
    assert memory["content"].endswith("2: Paid.")


@pytest.mark.parametrize(
    ("sent", "member"),
    [
        (None, "trajectories"),
        ([3], "trajectories[0]"),
        ([{"messages": []}], "trajectories[0].score"),
        ([{"messages": [], "score": "1"}], "trajectories[0].score"),
        ([{"messages": [], "score": 10**400}], "trajectories[0].score"),
        ([attempt("a", "b"), {"messages": ["x"], "score": 1}], "trajectories[1].messages[0]"),
        ([attempt("a", "b", metadata={"task": "no id!"})], "trajectories[0].metadata.task"),
    ],
)
def test_a_bad_trajectory_is_named_and_nothing_is_added(
    service: NoteService, bank: StoreBank, sent: Any, member: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        do(service, "summary_task_memory", trajectories=sent)
    assert caught.value.member == member
    assert len(bank.notes()) == 2


def test_uses_are_counted_and_useless_notes_retired(service: NoteService, bank: StoreBank) -> None:
    cancel = bank.notes()[0].id
    for won in (True, False, False):
        done = do(
            service, "record_task_memory", memory_dicts=[{"memory_id": cancel}], update_utility=won
        )
        assert done["recorded"] == 1
    assert (bank.credit(cancel).rows, bank.credit(cancel).wins) == (3, 1)
    listed = do(service, "vector_store", action="list")["action_result"]
    assert listed[0]["metadata"]["freq"] == 3
    assert listed[0]["metadata"]["utility"] == 1

    def forget(least: int, rate: float) -> list[str]:
        found = do(service, "delete_task_memory", freq_threshold=least, utility_threshold=rate)[
            "deleted_memory_ids"
        ]
        assert isinstance(found, list)
        return found

    assert forget(4, 0.9) == []  # not used often enough
    assert forget(3, 1 / 3) == []  # not less than that
    assert forget(0, 0.5) == [cancel]  # a note that nobody used is nobody's failure
    assert bank.status(cancel) is NoteStatus.RETIRED


def test_a_record_with_an_unknown_note_counts_nothing(
    service: NoteService, bank: StoreBank
) -> None:
    cancel = bank.notes()[0].id
    for bad in ({"memory_id": "nope"}, {}, "x"):
        with pytest.raises(BadRequest, match=r"memory_dicts\[1\]"):
            do(service, "record_task_memory", memory_dicts=[{"memory_id": cancel}, bad])
    with pytest.raises(BadRequest):  # of another workspace
        do(
            service,
            "record_task_memory",
            memory_dicts=[{"memory_id": cancel}],
            workspace_id="other",
        )
    assert bank.credit(cancel).rows == 0


def test_deleting_and_putting_back(service: NoteService, bank: StoreBank) -> None:
    cancel, seat = (note.id for note in bank.notes())
    assert do(service, "vector_store", action="dump", path="kept")["action_result"] == {"size": 2}
    gone = do(service, "vector_store", action="delete_ids", memory_ids=[cancel, cancel])
    assert gone["action_result"] == {"size": 1}
    assert do(service, "vector_store", action="delete")["action_result"] == {"size": 1}
    assert bank.notes(status=NoteStatus.LIVE) == []
    bank.mark([seat], NoteAction.BAN, "bad")
    back = do(service, "vector_store", action="load", path="kept")["action_result"]
    assert back == {"size": 1, "bad_lines": 0}
    assert [note.id for note in bank.notes(status=NoteStatus.LIVE)] == [cancel]
    copied = do(
        service, "vector_store", action="copy", src_workspace_id="default", workspace_id="w"
    )
    assert copied["action_result"] == {"size": 1}
    assert [note.content for note in bank.notes("w")] == [CANCEL.content]


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/b", ".hidden", "", "a\x00b", "x\n"])
def test_files_stay_in_their_folder(service: NoteService, path: str) -> None:
    for action in ("dump", "load"):
        with pytest.raises(BadRequest, match="plain name"):
            do(service, "vector_store", action=action, path=path)


def test_no_file_is_touched_without_a_folder_or_through_a_link(
    service: NoteService, bank: StoreBank, tmp_path: Path
) -> None:
    with pytest.raises(BadRequest, match="--files"):
        do(NoteService(bank), "vector_store", action="dump", path="x")
    (tmp_path / "files" / "link.jsonl").symlink_to(tmp_path / "target")
    with pytest.raises(BadRequest, match="elsewhere"):
        do(service, "vector_store", action="dump", path="link")
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize(
    ("path", "status"), [("nothere", 404), ("folder", 400), ("strange", 400), ("empty", 400)]
)
def test_a_file_that_cannot_be_loaded_is_the_caller_s_mistake(
    service: NoteService, bank: StoreBank, tmp_path: Path, path: str, status: int
) -> None:
    """Not the server's: a client tries again after a 5xx."""
    (tmp_path / "files" / "folder.jsonl").mkdir()
    (tmp_path / "files" / "strange.jsonl").write_text("no notes\n")
    (tmp_path / "files" / "empty.jsonl").touch()
    with pytest.raises(BadRequest) as refused:
        do(service, "vector_store", action="load", path=path)
    assert (refused.value.member, refused.value.status) == ("path", status)
    assert len(bank.notes()) == 2


def test_a_folder_is_not_written_over(service: NoteService, tmp_path: Path) -> None:
    (tmp_path / "files" / "folder.jsonl").mkdir()
    with pytest.raises(BadRequest, match="folder"):
        do(service, "vector_store", action="dump", path="folder")


def test_an_unknown_action_names_those_there_are(service: NoteService) -> None:
    with pytest.raises(BadRequest, match="list, copy, delete"):
        do(service, "vector_store", action="drop table")
