"""`recollect pool prune`: what goes, what stays, and that nothing goes unasked."""

from __future__ import annotations

from typing import Any

import pytest

from recollect.cli.byte_size import parse_size
from recollect.store import open_reader, open_store
from recollect.store.records import Query
from recollect.types import RunId

from .conftest import Filled, ask_json, assert_refused, invoke


def plan(filled: Filled, *options: object) -> dict[str, Any]:
    """Ask twice: a dry run, which must change nothing, then for real, which must agree."""
    before = filled.path.read_bytes()
    found: dict[str, Any] = ask_json("pool", "prune", "--store", filled.path, *options)
    assert found["done"] is False
    assert filled.path.read_bytes() == before
    done: dict[str, Any] = ask_json("pool", "prune", "--store", filled.path, *options, "--yes")
    assert done == found | {"done": True}
    return found


def numbers(filled: Filled, found: dict[str, Any]) -> list[int]:
    position = {item.id: number for number, item in enumerate(filled.items)}
    return [position[id_] for id_ in found["ids"]]


def left(filled: Filled) -> list[int]:
    with open_reader(filled.path) as reader:
        rows = reader.rows(Query(status=None), limit=100).rows
        assert list(reader.verify()) == []
    position = {item.id: number for number, item in enumerate(filled.items)}
    return [position[row.id] for row in rows]


@pytest.mark.parametrize(
    ("options", "expected", "pinned"),
    [
        (["--max-rows", "10"], [0, 4, 5], 1),
        (["--max-rows", "1"], [0, *range(4, 15)], 1),
        (["--max-rows", "13"], [], 0),
        (["--max-age", "2"], [0], 1),
        (["--max-age", "0"], [0, *range(4, 13)], 1),
        (["--older-than-version", "2"], [0, 4, 5, 6, 7], 1),
        (["--max-age", "2", "--max-rows", "11"], [0, 4], 1),
        (["--domain", "retail"], [7, 11, 12, 13], 0),
        (["--domain", "retail", "--max-rows", "1"], [7, 11, 12], 0),
        (["--domain", "airline", "--failed"], [5, 9], 0),
        (["--status", "banned"], [1], 0),
        (["--status", "any", "--task", "air-1"], [1, 5, 9], 0),
        (["--evicted"], [], 0),
        (["--min-uses", "1"], [0], 0),
    ],
)
def test_filters_and_limits(
    filled: Filled, options: list[str], expected: list[int], pinned: int
) -> None:
    found = plan(filled, *options)
    assert numbers(filled, found) == expected
    assert found["pinned_kept"] == pinned
    assert found["evicted_before"] == 1
    assert found["rows"] == len(expected) + 1
    assert left(filled) == [n for n in range(15) if n != 3 and n not in expected]


def test_max_bytes(filled: Filled) -> None:
    with open_reader(filled.path) as reader:
        total = sum(row.bytes for row in reader.rows(Query(), limit=100).rows)
    assert plan(filled, "--max-bytes", total)["ids"] == []
    assert numbers(filled, plan(filled, "--max-bytes", f"{total - 1}B")) == [0]


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("500MB", 500_000_000), ("2GiB", 2 * 2**30), ("1.5 kb", 1500), ("7B", 7)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MB", "-1", "1XB", "1e9", "two"])
def test_wrong_sizes(filled: Filled, text: str) -> None:
    result = invoke("pool", "prune", "--max-bytes", text, "--store", filled.path)
    assert result.exit_code == 2
    assert "500MB or 2GiB" in " ".join(result.stderr.split())


def test_fenced_rows_go_only_when_asked(filled: Filled) -> None:
    with open_store(filled.path) as store:
        store.fence(RunId("alpha"), 1, "resumed")
    assert plan(filled, "--max-rows", "100")["fenced"] == 0
    found = plan(filled, "--fenced")
    assert (found["fenced"], found["rows"], found["ids"]) == (4, 4, [])
    with open_reader(filled.path) as reader:
        assert reader.count(Query(fenced=True, status=None)) == 0


def test_pinned_rows_never_go(filled: Filled) -> None:
    invoke("pool", "pin", filled.items[3].id, "--store", filled.path)
    plan(filled, "--status", "any", "--max-rows", "0")
    assert left(filled) == [2, 3]


def test_compact_shrinks_the_file(filled: Filled) -> None:
    before = filled.path.stat().st_size
    invoke("pool", "prune", "--status", "any", "--yes", "--store", filled.path)
    assert filled.path.stat().st_size == before
    result = invoke("pool", "prune", "--compact", "--yes", "--store", filled.path)
    assert result.exit_code == 0
    assert filled.path.stat().st_size <= before


def test_compact_alone_removes_no_rows(filled: Filled) -> None:
    found = plan(filled, "--compact")
    assert (found["rows"], found["evicted_before"]) == (0, 0)
    assert left(filled) == list(range(15))


def test_text_of_a_dry_run(filled: Filled) -> None:
    result = invoke("pool", "prune", "--domain", "retail", "--failed", "--store", filled.path)
    assert result.exit_code == 0
    assert "Chosen: domain retail, failed." in result.stdout
    assert "This would remove 4 rows" in result.stdout
    assert "Nothing was changed. To do it, give the same command with --yes." in result.stdout


def test_text_of_the_real_thing(filled: Filled) -> None:
    result = invoke("pool", "prune", "--max-rows", "10", "--yes", "--store", filled.path)
    assert "1 pinned row was due, and is kept." in result.stdout
    assert "Removed 4 rows" in result.stdout
    assert "--compact" in result.stdout


def test_nothing_chosen(filled: Filled) -> None:
    result = invoke("pool", "prune", "--yes", "--store", filled.path)
    assert_refused(result, "Nothing was chosen", "--max-rows")
