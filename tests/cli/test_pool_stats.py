"""`recollect pool stats`."""

from __future__ import annotations

from pathlib import Path

from recollect.store import open_store

from .conftest import Filled, ask_json, invoke


def test_text(filled: Filled) -> None:
    result = invoke("pool", "stats", "--store", filled.path)
    assert result.exit_code == 0
    for words in (
        "trajectories  15 (1 banned, 1 evicted, 13 live)",
        "origin        1 demo, 14 fresh",
        "from          2 runs, 4 tasks",
        "reuse         2 uses of 2 draws",
    ):
        assert words in result.stdout
    table = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines()[-4:-1]}
    assert table["airline"][:4] == ["3", "9", "77.8%", "0.7778"]
    assert table["retail"][:4] == ["1", "4", "25.0%", "0.25"]


def test_json(filled: Filled) -> None:
    found = ask_json("pool", "stats", "--store", filled.path)
    assert found["by_status"] == {"live": 13, "banned": 1, "evicted": 1}
    assert found["uses"] == found["draws"] == 2
    assert [domain["domain"] for domain in found["domains"]] == ["airline", "retail"]
    assert found["file_bytes"] == filled.path.stat().st_size


def test_empty_store(tmp_path: Path) -> None:
    open_store(tmp_path / "empty.db").close()
    result = invoke("pool", "stats", "--store", tmp_path / "empty.db")
    assert result.exit_code == 0
    assert "trajectories  0" in result.stdout
    assert invoke("pool", "ls", "--store", tmp_path / "empty.db").exit_code == 0
    assert invoke("pool", "verify", "--store", tmp_path / "empty.db").exit_code == 0
