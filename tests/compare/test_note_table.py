"""The table of notes in a report: the most used ones, from the stores of the runs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from recollect.compare.arms import Arm
from recollect.compare.note_table import note_table
from recollect.note_ledger import NoteTrial
from recollect.notes.note import Draft
from recollect.notes.store_bank import StoreBank
from recollect.store import open_store


def study_of(*paths: Path) -> Any:
    """A study as far as the table looks: one arm, a run for each path."""
    runs = tuple(SimpleNamespace(path=path) for path in paths)
    return SimpleNamespace(arms=(SimpleNamespace(arm=Arm("het"), runs=runs),))


def fill(folder: Path, uses: int, wins: int) -> None:
    folder.mkdir()
    with open_store(folder / "store.db") as store:
        bank = StoreBank(store)
        used, unused = bank.add([Draft("a b c", "seats <b>"), Draft("never given", "x")]).notes
        bank.record([NoteTrial(used.id, "g", uses, wins, uses, 0)])
        assert unused


def test_the_most_used_notes_come_first(tmp_path: Path) -> None:
    fill(tmp_path / "one", 10, 5)
    fill(tmp_path / "two", 20, 20)
    table = note_table(study_of(tmp_path / "one", tmp_path / "two", tmp_path / "none"))
    assert [row[2] for row in table.rows] == ["20", "10"]
    first = table.rows[0]
    assert first[0].endswith("seats <b>"), "the page escapes what it shows"
    assert first[1:5] == ("het", "20", "100.0%", "0.0%")
    assert first[5].startswith("+100.0 [")
    assert first[6] == "100.0%"
    assert all(len(row) == len(table.titles) for row in table.rows)


def test_runs_without_notes_have_no_table(tmp_path: Path) -> None:
    assert note_table(study_of(tmp_path)).rows == ()
