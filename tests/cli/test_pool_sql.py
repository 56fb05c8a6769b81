"""`recollect pool sql`: any question, no change."""

from __future__ import annotations

import csv
import io

import pytest

from .conftest import Filled, ask_json, assert_refused, invoke


def test_table(filled: Filled) -> None:
    ask = "SELECT domain, count(*) AS rows FROM pool GROUP BY domain"
    result = invoke("pool", "sql", ask, "--store", filled.path)
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["domain", "rows"],
        ["airline", "10"],
        ["retail", "5"],
    ]


def test_json(filled: Filled) -> None:
    ask = "SELECT 1 AS a, 2 AS a, NULL AS b, x'00ff' AS c, 9e999 AS d, 'é' AS e"
    found = ask_json("pool", "sql", ask, "--store", filled.path)
    assert found == {
        "columns": ["a", "a_2", "b", "c", "d", "e"],
        "rows": [{"a": 1, "a_2": 2, "b": None, "c": "00ff", "d": None, "e": "é"}],
        "more": False,
    }


def test_limit_says_that_there_is_more(filled: Filled) -> None:
    ask = "SELECT seq FROM pool ORDER BY seq"
    found = ask_json("pool", "sql", ask, "--limit", 2, "--store", filled.path)
    assert found["rows"] == [{"seq": 1}, {"seq": 2}]
    assert found["more"] is True
    result = invoke("pool", "sql", ask, "--limit", 2, "--store", filled.path)
    assert result.stdout.split() == ["seq", "1", "2"]
    assert "first 2 rows" in result.stderr


def test_csv_keeps_formulas_from_running(filled: Filled) -> None:
    ask = """SELECT '=HYPERLINK("http://x")' AS "=a", '+1' AS b, '-1' AS c, '@x' AS d, -1 AS e,
             'a,"b' AS f, char(9) || '=1' AS g, NULL AS h, '' AS i, x'ff' AS j"""
    result = invoke("pool", "sql", ask, "--csv", "--store", filled.path)
    header, row = list(csv.reader(io.StringIO(result.stdout)))
    assert header[:2] == ["'=a", "b"]
    assert row == [
        *('\'=HYPERLINK("http://x")', "'+1", "'-1", "'@x", "-1", 'a,"b', "'\t=1", "", "", "ff"),
    ]


def test_text_is_shown_not_obeyed(filled: Filled) -> None:
    ask = "SELECT char(27) || '[31m' || char(10) || '[red]' AS \"x\x1b[0m\""
    result = invoke("pool", "sql", ask, "--store", filled.path)
    assert result.stdout == "x\\x1b[0m\n\\x1b[31m\\n[red]\n"


@pytest.mark.parametrize(
    "ask",
    [
        "DELETE FROM trajectories",
        "UPDATE runs SET seed = 1",
        "INSERT INTO meta VALUES ('x', 1)",
        "DROP TABLE runs",
        "CREATE TABLE x (y)",
        "PRAGMA user_version = 9",
        "PRAGMA journal_mode = delete",
        "ATTACH DATABASE '/tmp/recollect-must-not-exist.db' AS other",
        "VACUUM INTO '/tmp/recollect-must-not-exist.db'",
        "SELECT load_extension('x')",
        "SELECT 1; DELETE FROM runs",
        "selec 1",
        "SELECT nothing FROM pool",
        "SELECT * FROM nowhere",
        "",
        "/* only a comment */",
        "BEGIN",
    ],
)
def test_what_is_malformed_or_writes_is_refused(filled: Filled, ask: str) -> None:
    before = filled.path.read_bytes()
    for options in ([], ["--json"], ["--csv"]):
        result = invoke("pool", "sql", ask, *options, "--store", filled.path)
        assert_refused(result, "The query was refused", "sqlite_schema")
    assert filled.path.read_bytes() == before


def test_a_refusal_is_one_sentence(filled: Filled) -> None:
    refused = invoke("pool", "sql", "SELECT 1; SELECT 2", "--store", filled.path)
    assert refused.exit_code == 2
    assert ".." not in refused.stderr


def test_csv_and_json_exclude_each_other(filled: Filled) -> None:
    result = invoke("pool", "sql", "SELECT 1", "--csv", "--json", "--store", filled.path)
    assert result.exit_code == 2
    assert "choose one" in result.stderr
