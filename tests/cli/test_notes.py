"""`recollect notes`: from the first note to the last ban, through the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from factories import FakeRun
from recollect.note_ledger import NoteTrial
from recollect.notes.store_bank import StoreBank
from recollect.store import open_reader, open_store
from recollect.types import NoteId

from .conftest import ask_json, assert_refused, invoke

FAKE = FakeRun(seed=3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bank.db"


def add(path: Path, *arguments: str) -> str:
    (note,) = ask_json("notes", "add", *arguments, "--store", path)["added"]
    return str(note)


def test_from_add_to_ban(path: Path) -> None:
    note = add(path, "Use the seat tool.", "--when", "change a seat", "--author", "me")
    again = ask_json("notes", "add", "Use the SEAT tool!", "--when", "change a seat", "-s", path)
    assert again == {"added": [], "duplicates": 1}
    (found,) = ask_json("notes", "search", "a window seat", "-s", path)
    assert found["note"]["id"] == note
    banned = ask_json("notes", "ban", note[:8], "--reason", "wrong", "-s", path)
    assert banned["changed"] == [note]
    assert ask_json("notes", "search", "seat", "-s", path) == []
    assert ask_json("notes", "ls", "-s", path) == []
    (listed,) = ask_json("notes", "ls", "--status", "any", "-s", path)
    assert (listed["id"], listed["status"], listed["author"]) == (note, "banned", "me")
    twice = ask_json("notes", "ban", note, "-s", path)
    assert twice["left_alone"] == {note: "it is banned"}
    assert "wrong (by hand)" in invoke("notes", "show", note[:8], "-s", path).stdout


def test_show_tells_credit_sources_and_what_was_guided(path: Path) -> None:
    with open_store(path) as store:
        store.commit(FAKE.setup())
        for step in range(3):
            store.commit(FAKE.step(step))
        note = NoteId(FAKE.note_id(0))
        StoreBank(store).record([NoteTrial(note, "g", 69, 56, 77, 46)])
    text = invoke("notes", "show", note, "-s", path).stdout
    assert "with it     80.0% of 70 attempts (69.2% to 87.7%)" in text
    assert "without     60.0% of 80 attempts" in text
    assert "gain        +20 points (+5 to +33)" in text
    guided = invoke("notes", "show", note, "--guided", "-s", path).stdout.split()
    assert guided == [FAKE.row_id(1, FAKE.rows - 1)]
    assert ask_json("notes", "show", note, "--guided", "-s", path) == guided
    shown = ask_json("notes", "show", note, "-s", path)
    assert shown["sources"] == [FAKE.row_id(0, 0)]
    assert shown["credit"]["gain"] == pytest.approx(0.2)
    listed = ask_json("notes", "ls", "--sort", "gain", "--status", "any", "-s", path)
    assert listed[0]["id"] == note


def test_retire_and_revive(path: Path) -> None:
    note = add(path, "x y z")
    assert ask_json("notes", "retire", note, "-s", path)["changed"] == [note]
    assert ask_json("notes", "unban", note, "-s", path)["changed"] == []
    assert ask_json("notes", "revive", note, "-s", path)["changed"] == [note]
    with open_reader(path) as reader:
        assert len(reader.note_marks()) == 2


def test_export_and_import(path: Path, tmp_path: Path) -> None:
    add(path, "one lesson", "-w", "a")
    add(path, "another one", "-w", "b")
    file, other = tmp_path / "n.jsonl", tmp_path / "other.db"
    assert invoke("notes", "export", file, "-s", path).exit_code == 0
    done = ask_json("notes", "import", file, "-s", other, "--trust", "0.5")
    assert done == {"added": 2, "duplicates": 0, "bad_lines": []}
    again = ask_json("notes", "import", file, "-s", other)
    assert again["duplicates"] == 2
    listed = ask_json("notes", "ls", "-s", other)
    assert {(n["workspace"], n["trust"]) for n in listed} == {("a", 0.5), ("b", 0.5)}
    file.write_text(file.read_text() + "{}\n")
    assert invoke("notes", "import", file, "-s", other).exit_code == 1


def test_nothing_hidden_reaches_the_terminal(path: Path) -> None:
    note = add(path, "\x1b[31mred\u202e", "--when", "\x07bell")
    for command in (("ls",), ("show", note), ("search", "red bell")):
        shown = invoke("notes", *command, "-s", path).stdout
        assert not {"\x1b", "\u202e", "\x07"} & set(shown)


def test_unknown_ids_and_missing_stores(path: Path) -> None:
    assert_refused(invoke("notes", "ls", "-s", path))
    add(path, "x")
    assert_refused(invoke("notes", "show", "zz", "-s", path), "notes ls")


def test_search_passes_over_what_rollouts_would(path: Path) -> None:
    """They leave out what is trusted less than half, unless somebody asks for it."""
    add(path, "Ring the red bell.", "--trust", "0.4")
    assert ask_json("notes", "search", "red bell", "-s", path) == []
    told = invoke("notes", "search", "red bell", "-s", path)
    assert "trusted at least 0.5" in told.stderr
    assert len(ask_json("notes", "search", "red bell", "--min-trust", "0.4", "-s", path)) == 1


def test_a_shelf_needs_a_name_and_trust_is_a_share(path: Path, tmp_path: Path) -> None:
    add(path, "x")
    refused = invoke("notes", "add", "y", "-w", "", "-s", path)
    assert refused.exit_code == 2
    assert "note.workspace: is empty" in refused.stderr
    file = tmp_path / "n.jsonl"
    assert invoke("notes", "export", file, "-s", path).exit_code == 0
    refused = invoke("notes", "import", file, "-w", "", "-s", path)
    assert refused.exit_code == 2
    assert "note.workspace: is empty" in refused.stderr
    assert invoke("notes", "search", "x", "--min-trust", "7", "-s", path).exit_code == 2
    assert len(ask_json("notes", "ls", "-s", path)) == 1
