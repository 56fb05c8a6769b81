"""`recollect pool verify`: what it finds, what it sets aside, and when it only looks."""

from __future__ import annotations

import json
import random
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from factories import FakeRun
from recollect.store import open_reader, open_store
from recollect.types import Status

from .conftest import Filled, assert_refused, invoke


def damage(filled: Filled, number: int) -> None:
    """Change one byte of a stored frame, as a bad disk would."""
    connection = sqlite3.connect(filled.path)
    id_ = filled.items[number].id
    seq, frame = connection.execute(
        "SELECT t.seq, p.frame FROM trajectories t JOIN payloads p USING (seq) WHERE t.id = ?",
        [id_],
    ).fetchone()
    changed = frame[:-40] + bytes([frame[-40] ^ 1]) + frame[-39:]
    connection.execute("UPDATE payloads SET frame = ? WHERE seq = ?", [changed, seq])
    connection.commit()
    connection.close()


def status(filled: Filled, number: int) -> Status:
    with open_reader(filled.path) as reader:
        return reader.row(filled.items[number].id).status


def found(filled: Filled, *options: str) -> dict[str, Any]:
    result = invoke("pool", "verify", "--store", filled.path, "--json", *options)
    assert result.exit_code == 1
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def test_a_sound_store(filled: Filled) -> None:
    before = filled.path.read_bytes()
    result = invoke("pool", "verify", "--store", filled.path)
    assert result.exit_code == 0
    assert "is sound (15 trajectories" in result.stdout
    result = invoke("pool", "verify", "--store", filled.path, "--json")
    assert json.loads(result.stdout) == {"findings": [], "quarantined": [], "note": ""}
    assert filled.path.read_bytes() == before


def test_damage_is_named_and_set_aside(filled: Filled) -> None:
    damage(filled, 5)
    result = invoke("pool", "verify", "--store", filled.path)
    assert result.exit_code == 1
    assert f"trajectory {filled.items[5].id}: " in result.stdout
    assert "1 finding. 1 trajectory set aside." in result.stdout
    assert status(filled, 5) is Status.QUARANTINED
    assert status(filled, 6) is Status.LIVE
    # The others are still readable, and this one says what is wrong with it.
    assert invoke("pool", "show", filled.items[6].id, "--store", filled.path).exit_code == 0
    result = invoke("pool", "show", filled.items[5].id, "--store", filled.path)
    assert_refused(result, "Damaged trajectory", "recollect pool verify")


def test_set_aside_once(filled: Filled) -> None:
    damage(filled, 5)
    assert found(filled)["quarantined"] == [filled.items[5].id]
    before = filled.path.read_bytes()
    again = found(filled)
    assert (len(again["findings"]), again["quarantined"]) == (1, [])
    assert again["findings"][0]["trajectory"] == filled.items[5].id
    with open_reader(filled.path) as reader:
        assert len(reader.marks(filled.items[5].id)) == 1
    assert len(filled.path.read_bytes()) == len(before)


def test_removing_what_was_set_aside_makes_the_store_sound(filled: Filled) -> None:
    damage(filled, 5)
    found(filled)
    result = invoke("pool", "prune", "--status", "quarantined", "--yes", "--store", filled.path)
    assert result.exit_code == 0, result.output
    assert invoke("pool", "verify", "--store", filled.path).exit_code == 0


def test_looking_only(filled: Filled) -> None:
    damage(filled, 5)
    before = filled.path.read_bytes()
    assert found(filled, "--no-quarantine")["quarantined"] == []
    assert filled.path.read_bytes() == before
    assert status(filled, 5) is Status.LIVE


def test_without_a_package_nothing_is_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pool.db"
    run = FakeRun(seed=4, rows=2, tokens=12)
    with open_store(path, compress=True) as store:
        store.commit(run.setup())
        store.commit(run.step(0))
    before = path.read_bytes()
    monkeypatch.setitem(sys.modules, "zstandard", None)
    result = invoke("pool", "verify", "--store", path)
    assert_refused(result, "A compressed frame needs a package", "zstd")
    assert path.read_bytes() == before


def test_while_a_run_is_writing_it_only_reports(filled: Filled) -> None:
    damage(filled, 5)
    with open_store(filled.path):
        document = found(filled)
        result = invoke("pool", "verify", "--store", filled.path)
    assert document["quarantined"] == []
    assert "is being written by process" in document["note"]
    assert "Nothing was set aside: " in result.stdout
    assert status(filled, 5) is Status.LIVE


@pytest.mark.parametrize("offset", [0, 18, 68, 100])
def test_a_file_that_cannot_be_opened(filled: Filled, offset: int) -> None:
    data = bytearray(filled.path.read_bytes())
    data[offset : offset + 16] = b"\xff" * 16
    filled.path.write_bytes(data)
    result = invoke("pool", "verify", "--store", filled.path)
    assert result.exit_code == 1, result.output
    assert "finding" in result.stdout
    assert "Traceback" not in result.output
    assert found(filled)["findings"]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_file_cut_short(filled: Filled, share: float) -> None:
    data = filled.path.read_bytes()
    filled.path.write_bytes(data[: int(len(data) * share)])
    result = invoke("pool", "verify", "--store", filled.path)
    assert result.exit_code == (1 if share else 2), result.output  # an empty file is no store
    assert "Traceback" not in result.output


def test_a_missing_store_is_an_error_not_a_finding(tmp_path: Path) -> None:
    assert_refused(invoke("pool", "verify", "--store", tmp_path / "none.db"), "There is no store")
    (tmp_path / "folder").mkdir()
    result = invoke("pool", "verify", "--store", tmp_path / "folder")
    assert_refused(result, "There is no store")


def test_any_flipped_byte_gives_words_never_a_traceback(filled: Filled) -> None:
    """Every command survives a damaged file; verify finds the damage."""
    rng = random.Random(3)
    data = filled.path.read_bytes()
    used = [i for i, byte in enumerate(data) if byte]  # most of a small file is empty pages
    for _ in range(20):
        place = rng.choice(used)
        broken = bytearray(data)
        broken[place] ^= 1 << rng.randrange(8)
        filled.path.write_bytes(broken)
        verified = invoke("pool", "verify", "--no-quarantine", "--store", filled.path)
        assert verified.exit_code in (1, 2), f"byte {place} went unnoticed"
        for command in (["ls", "--status", "any"], ["stats"], ["show", filled.items[4].id]):
            result = invoke("pool", *command, "--store", filled.path)
            assert result.exit_code in (0, 2), f"byte {place}: {result.output}"
