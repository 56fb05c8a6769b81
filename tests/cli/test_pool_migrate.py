"""`recollect pool migrate`."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from recollect.store.tables import migrations
from recollect.store.tables.schema import SCHEMA

from .conftest import Filled, ask_json, assert_refused, invoke


def test_nothing_to_do(filled: Filled) -> None:
    before = filled.path.read_bytes()
    result = invoke("pool", "migrate", "--store", filled.path)
    assert result.exit_code == 0
    assert f"has schema {SCHEMA} already" in result.stdout
    assert filled.path.read_bytes() == before


def test_an_older_store_is_brought_up_to_date(
    filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add_table(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE later (x)")

    newer = SCHEMA + 1
    monkeypatch.setattr(migrations, "SCHEMA", newer)
    monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, add_table))
    result = invoke("pool", "ls", "--store", filled.path)
    assert_refused(result, f"has schema {SCHEMA}", "recollect pool migrate")
    found = ask_json("pool", "migrate", "--store", filled.path)
    assert found == {"store": str(filled.path), "from": SCHEMA, "to": newer}
    assert invoke("pool", "ls", "--store", filled.path).exit_code == 0


def test_a_missing_store_is_not_made(tmp_path: Path) -> None:
    assert_refused(invoke("pool", "migrate", "--store", tmp_path / "new.db"), "There is no store")
    assert list(tmp_path.iterdir()) == []
