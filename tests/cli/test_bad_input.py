"""Wrong files and wrong places: one sentence, the next step, exit code 2, nothing changed."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recollect.store import open_store
from recollect.store.sqlite import writer

from .conftest import Filled, assert_refused, invoke

# Every command, with arguments that would work on a good store (ID stands for a stored id).
READING = [
    ["ls"],
    ["show", "ID"],
    ["stats"],
    ["export", "-"],
    ["sql", "SELECT 1"],
    ["prune", "--max-rows", "1"],
]
WRITING = [
    ["prune", "--max-rows", "1", "--yes"],
    ["ban", "ID"],
    ["unpin", "PINNED"],
    ["migrate"],
]


def run(command: list[str], store: Path, filled: Filled) -> Any:
    names = {"ID": filled.items[4].id, "PINNED": filled.items[2].id}
    return invoke("pool", *(names.get(word, word) for word in command), "--store", store)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def name(command: list[str]) -> str:
    return "-".join(command[:1] + command[-1:])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "place"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("command", READING + WRITING, ids=name)
def test_no_store(command: list[str], filled: Filled, place: Path) -> None:
    assert_refused(run(command, place / "none.db", filled), "There is no store at", "--store")
    assert contents(place) == {}


@pytest.mark.parametrize("command", [*READING, *WRITING, ["import", "FILE"]], ids=name)
@pytest.mark.parametrize("kind", ["text", "json", "foreign", "half"])
def test_wrong_file(
    command: list[str], kind: str, filled: Filled, place: Path, tmp_path: Path
) -> None:
    store = place / "file.db"
    if kind == "foreign":
        connection = sqlite3.connect(store)
        connection.execute("CREATE TABLE mine (x)")
        connection.close()
    else:
        texts = {"text": "hello\n", "json": '{"a": 1}\n', "half": "SQLite format"}
        store.write_text(texts[kind], encoding="utf-8")
    (tmp_path / "in.jsonl").write_text('{"messages": []}\n', encoding="utf-8")
    command = [str(tmp_path / "in.jsonl") if word == "FILE" else word for word in command]
    before = contents(place)
    assert_refused(run(command, store, filled), "is not a Recollect store", "Nothing was changed")
    assert contents(place) == before


@pytest.mark.parametrize("content", [b"hello\n", b"SQLite format 3\0", b"SQLite format 3\0" * 99])
def test_verify_takes_a_wrong_file_for_a_damaged_one(place: Path, content: bytes) -> None:
    (place / "file.db").write_bytes(content)
    result = invoke("pool", "verify", "--store", place / "file.db")
    assert result.exit_code == 1, result.output
    assert "file: " in result.stdout
    assert "Traceback" not in result.output
    assert contents(place) == {"file.db": content}


@pytest.mark.parametrize("command", [*READING, *WRITING], ids=name)
def test_newer_schema(command: list[str], filled: Filled) -> None:
    connection = sqlite3.connect(filled.path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = contents(filled.path.parent)
    assert_refused(run(command, filled.path, filled), "has schema 99", "Update Recollect")
    assert contents(filled.path.parent) == before


@pytest.mark.parametrize("command", WRITING, ids=name)
def test_second_writer(command: list[str], filled: Filled) -> None:
    with open_store(filled.path):
        before = filled.path.read_bytes()
        result = run(command, filled.path, filled)
        assert_refused(result, "is being written by process", "Reading works meanwhile")
        assert filled.path.read_bytes() == before
        for reading in READING:
            assert run(reading, filled.path, filled).exit_code == 0


@pytest.mark.parametrize("command", [c for c in WRITING if c != ["migrate"]], ids=name)
def test_full_disk(command: list[str], filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's own limit on pages stands for the disk: it is the same error."""
    real = writer.connect_writer
    big = "INSERT INTO payloads VALUES (NULL, randomblob(10000000))"

    def connect(path: Path, journal: str) -> sqlite3.Connection:
        connection = real(path, journal)
        connection.execute("PRAGMA max_page_count = 1")  # no page beyond those there are
        connection.execute(f"CREATE TEMP TRIGGER f AFTER INSERT ON main.marks BEGIN {big}; END")
        return connection

    before = filled.path.read_bytes()
    monkeypatch.setattr(writer, "connect_writer", connect)
    assert_refused(run(command, filled.path, filled), "No room left on the disk", "Free some space")
    assert filled.path.read_bytes() == before


@pytest.fixture
def powerless(filled_once: Filled) -> Iterator[Filled]:
    """A store in a folder that may not be written, seen by somebody for whom that counts."""
    folder = Path(tempfile.mkdtemp(prefix="recollect-"))
    store = folder / "pool.db"
    store.write_bytes(filled_once.path.read_bytes())
    store.chmod(0o444)
    folder.chmod(0o555)
    was_root = os.geteuid() == 0
    if was_root:
        os.seteuid(65534)
    try:
        yield Filled(store, filled_once.items)
    finally:
        if was_root:
            os.seteuid(0)
        folder.chmod(0o755)
        shutil.rmtree(folder)


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="needs POSIX permissions")
def test_read_only_folder(filled: Filled, powerless: Filled) -> None:
    before = contents(powerless.path.parent)
    for command in READING:
        assert run(command, powerless.path, powerless).exit_code == 0, command
    for command in WRITING:
        assert_refused(run(command, powerless.path, powerless), "cannot be written", "permissions")
    assert_refused(
        run(["import", __file__], powerless.path.parent / "new.db", powerless),
        "cannot be written",
        "permissions",
    )
    assert contents(powerless.path.parent) == before


@pytest.mark.parametrize(
    ("words", "input", "why"),
    [
        (["notes", "add", "-"], b"caf\xe9", "not UTF-8"),
        (["pool", "ban", "-"], b"\xff\xfe", "not UTF-8"),
        (["env", "play", "desk"], b"caf\xe9\n", "not UTF-8"),
        (["env", "ls", "desk", "--set", "a=2001-13-45"], None, "a=2001-13-45"),
        (["pool", "prune", "--max-bytes", "9" * 400], None, "larger than any disk"),
        (["notes", "serve", "--token-file", "binary"], None, "a token has"),
    ],
)
def test_odd_input_is_refused_in_words(
    filled: Filled, monkeypatch: pytest.MonkeyPatch, words: list[str], input: Any, why: str
) -> None:
    monkeypatch.chdir(filled.path.parent)
    Path("binary").write_bytes(b"\xff\xfe\x00" * 20)
    result = invoke(*words, input=input, env={"RECOLLECT_STORE": str(filled.path)})
    assert result.exit_code == 2, result.output
    assert why in " ".join(result.stderr.split())


def test_a_limit_may_be_as_large_as_one_likes(filled: Filled) -> None:
    result = invoke("pool", "sql", "SELECT 1", "--limit", "9" * 30, "--store", filled.path)
    assert (result.exit_code, result.stderr) == (0, "")
