"""`recollect pool copy`, and the other commands on a PostgreSQL store."""

from __future__ import annotations

from pathlib import Path

from recollect.store import open_reader
from recollect.store.address import PostgresAddress
from recollect.store.records import Query

from .conftest import Filled, ask_json, assert_refused, invoke
from .test_pool_verify import damage


def spelt(address: PostgresAddress) -> str:
    return f"{address.url}?schema={address.schema}"


def test_there_and_back(filled: Filled, address: PostgresAddress, tmp_path: Path) -> None:
    report = ask_json("pool", "copy", filled.path, spelt(address))
    assert report["rows"]["trajectories"] == 15
    assert report["findings"] == []
    assert "secret" not in str(report)
    result = invoke("pool", "copy", spelt(address), tmp_path / "back.db")
    assert result.exit_code == 0
    assert "15 trajectories" in result.stdout
    assert "equal to the source, sound" in result.stdout
    ids = [item.id for item in filled.items]
    with open_reader(tmp_path / "back.db") as back:
        assert back.get(ids) == filled.items
    assert_refused(
        invoke("pool", "copy", filled.path, spelt(address)), "is not empty", "Name a new place"
    )


def test_every_command_takes_an_address(filled: Filled, address: PostgresAddress) -> None:
    """The same answers from both stores, and the same changes to both."""
    ask_json("pool", "copy", filled.path, spelt(address))
    id_ = filled.items[5].id
    commands: list[tuple[object, ...]] = [
        ("ls",),
        ("ls", "--max-age", 1, "--success"),
        ("show", id_),
        ("why", id_),
        ("ban", id_),
        ("ban", id_),
        ("pin", filled.items[6].id),
        ("sql", "SELECT id, run, uses, pinned FROM pool ORDER BY seq"),
        ("prune", "--max-rows", 6, "--yes"),
        ("verify",),
    ]
    for words in commands:
        answers = [
            ask_json("pool", *words, "--store", place) for place in (filled.path, spelt(address))
        ]
        for answer in answers:
            answer.pop("store", None) if isinstance(answer, dict) else None
        assert answers[0] == answers[1], words
    stats = ask_json("pool", "stats", "--store", spelt(address))
    assert stats["journal"].startswith("PostgreSQL")
    assert "secret" not in str(stats)
    found = ask_json("pool", "migrate", "--store", spelt(address))
    assert found["from"] == found["to"]


def test_import_and_export(filled: Filled, address: PostgresAddress, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    ask_json("pool", "export", target, "--store", filled.path)
    report = ask_json("pool", "import", target, "--store", spelt(address))["report"]
    assert (report["added"], report["bad_total"]) == (13, 0)
    again = ask_json("pool", "import", target, "--store", spelt(address))["report"]
    assert (again["added"], again["known"]) == (0, 13)
    back = tmp_path / "back.jsonl"
    ask_json("pool", "export", back, "--store", spelt(address))
    assert back.read_bytes() == target.read_bytes()


def test_what_is_wrong_is_said(filled: Filled, address: PostgresAddress) -> None:
    assert_refused(invoke("pool", "ls", "--store", spelt(address)), "There is no store")
    assert_refused(
        invoke("pool", "ls", "--store", "postgres://127.0.0.1:1/x"), "cannot be reached", "Start"
    )
    assert_refused(
        invoke("pool", "ls", "--store", "postgres://x/y?schema=A-B"), "address cannot be read"
    )
    damage(filled, 0)
    result = invoke("pool", "copy", filled.path, spelt(address))
    assert result.exit_code == 1
    with open_reader(address) as reader:
        assert reader.count(Query(status=None)) == 15


def test_every_value_of_postgres_has_its_json(filled: Filled, address: PostgresAddress) -> None:
    ask_json("pool", "copy", filled.path, spelt(address))
    query = "SELECT now() AS a, 1.5::numeric AS b, ARRAY[1, 2] AS c, gen_random_uuid() AS d"
    limit = ["--limit", "9" * 30]
    (row,) = ask_json("pool", "sql", query, *limit, "--store", spelt(address))["rows"]
    assert (row["b"], row["c"], len(row["d"])) == (1.5, [1, 2], 36)
    assert row["a"].startswith("20")
