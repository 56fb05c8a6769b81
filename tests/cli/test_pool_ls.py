"""`recollect pool ls`: filters, pages, both forms of output."""

from __future__ import annotations

import sqlite3
from dataclasses import fields
from pathlib import Path

import pytest

from recollect.store import open_store
from recollect.store.records import Batch, Row
from recollect.types import Origin, RunId

from .conftest import AIRLINE, RETAIL, Filled, ask_json, assert_refused, invoke, make_trajectory

LIVE = [0, 2, *range(4, 15)]


def listed(filled: Filled, *options: object) -> list[int]:
    """Positions of the rows that `ls` lists, in its order."""
    found = ask_json("pool", "ls", "--store", filled.path, "-n", 100, *options)
    position = {item.id: number for number, item in enumerate(filled.items)}
    assert found["next"] is None
    return [position[row["id"]] for row in found["rows"]]


def test_newest_first_and_live_by_default(filled: Filled) -> None:
    assert listed(filled) == LIVE[::-1]
    assert listed(filled, "--newest") == LIVE[::-1]
    assert listed(filled, "--oldest") == LIVE


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--domain", "retail"], [7, 11, 12, 13]),
        (["--domain", "nowhere"], []),
        (["--task", "air-1"], [5, 9]),
        (["--task", AIRLINE[2].key], [2, 6, 10]),
        (["--task", RETAIL[0].key[:8]], [7, 11, 12, 13]),
        (["--run", "beta"], [12, 13, 14]),
        (["--run", "al"], [0, 2, *range(4, 12)]),
        (["--origin", "demo"], [14]),
        (["--success", "--domain", "airline"], [0, 2, 4, 6, 8, 10, 14]),
        (["--failed"], [5, 7, 9, 11, 13]),
        (["--min-reward", "0.5", "--run", "beta"], [12, 14]),
        (["--max-reward", "-0"], [5, 7, 9, 11, 13]),
        (["--max-reward", "-1"], []),
        (["--min-uses", "1"], [0]),
        (["--max-uses", "0", "--task", "air-0"], [4, 8, 14]),
        (["--status", "banned"], [1]),
        (["--status", "evicted"], [3]),
        (["--status", "any", "--run", "alpha"], list(range(12))),
        (["--pinned"], [2]),
        (["--not-pinned", "--task", "air-2"], [6, 10]),
        (["--fenced"], []),
    ],
)
def test_filters(filled: Filled, options: list[str], expected: list[int]) -> None:
    assert listed(filled, "--oldest", *options) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # alpha's cursor says version 3, beta's newest step has version 41; a demo has no age.
        (["--max-age", "0"], [13]),
        (["--max-age", "1"], [8, 9, 10, 11, 12, 13]),
        (["--min-age", "3"], [0, 2]),
        (["--min-age", "1", "--max-age", "2", "--run", "alpha"], [4, 5, 6, 7, 8, 9, 10, 11]),
        (["--min-age", "1", "--run", "beta"], [12]),
    ],
)
def test_age_counts_from_the_newest_version_of_the_run(
    filled: Filled, options: list[str], expected: list[int]
) -> None:
    assert listed(filled, "--oldest", *options) == expected


def test_age_is_printed(filled: Filled) -> None:
    rows = ask_json("pool", "ls", "--store", filled.path, "--run", "beta")["rows"]
    assert [row["age"] for row in rows] == [None, 0, 1]


def test_keys_are_stable(filled: Filled) -> None:
    row = ask_json("pool", "ls", "--store", filled.path, "-n", 1)["rows"][0]
    assert set(row) == {field.name for field in fields(Row)} | {"task_id", "age"}
    assert row["origin"] == "demo"
    assert row["task_id"] == "air-0"


@pytest.mark.parametrize("options", [[], ["--oldest"], ["--max-age", "2"], ["--failed"]])
def test_pages_add_up(filled: Filled, options: list[str]) -> None:
    whole = ask_json("pool", "ls", "--store", filled.path, "-n", 100, *options)["rows"]
    paged, after = [], []
    while True:
        page = ask_json("pool", "ls", "--store", filled.path, "-n", 3, *options, *after)
        paged += page["rows"]
        if page["next"] is None:
            break
        after = ["--after", page["next"]]
    assert paged == whole


def test_fenced_rows_are_listed_apart(filled: Filled) -> None:
    with open_store(filled.path) as store:
        store.fence(RunId("alpha"), 1, "resumed")
    assert listed(filled, "--fenced", "--oldest") == [8, 9, 10, 11]
    assert 8 not in listed(filled)


def test_plain_text_has_whole_ids_and_no_escapes(filled: Filled) -> None:
    result = invoke("pool", "ls", "--store", filled.path, "-n", 3)
    header, *rows = result.stdout.splitlines()
    assert header.split()[:3] == ["id", "domain", "task"]
    assert [row.split()[0] for row in rows] == [item.id for item in filled.items[:-4:-1]]
    assert "\x1b" not in result.output
    assert "--after 13" in result.stderr


def test_nothing_found_says_what_there_is(filled: Filled) -> None:
    result = invoke("pool", "ls", "--store", filled.path, "--domain", "nowhere")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "13 live rows and 2 others" in result.stderr


@pytest.mark.parametrize("given", ["gamma", "", "%", "' OR 1=1 --"])
def test_unknown_run(filled: Filled, given: str) -> None:
    result = invoke("pool", "ls", "--store", filled.path, "--run", given)
    assert_refused(result, "No run", "alpha, beta")


@pytest.mark.parametrize("given", ["nope", "", "' OR 1=1 --"])
def test_unknown_task(filled: Filled, given: str) -> None:
    assert_refused(invoke("pool", "ls", "--store", filled.path, "--task", given), "No task")


def test_ambiguous_task(filled: Filled) -> None:
    from recollect.store.records import Batch
    from recollect.types import Task

    with open_store(filled.path) as store:
        store.commit(Batch(tasks=[Task("desk:other", "air-0")]))
    result = invoke("pool", "ls", "--store", filled.path, "--task", "air-0")
    assert_refused(result, "fits several task ids", "desk:other")


@pytest.mark.parametrize("given", ["' OR 1=1 --", "x'; DROP TABLE runs; --", "\x00"])
def test_values_are_bound_not_spliced(filled: Filled, given: str) -> None:
    before = filled.path.read_bytes()
    assert listed(filled, "--domain", given) == []
    assert filled.path.read_bytes() == before


def test_store_from_the_environment_and_from_a_folder(filled: Filled, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "store.db").write_bytes(filled.path.read_bytes())
    for store in (folder, f"{folder}/", folder / "store.db"):
        assert invoke("pool", "ls", "--store", store).exit_code == 0
        assert invoke("pool", "ls", env={"RECOLLECT_STORE": str(store)}).exit_code == 0


def test_default_is_recollect_db_here(
    filled: Filled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_refused(invoke("pool", "ls"), "recollect.db")
    filled.path.rename(tmp_path / "recollect.db")
    assert invoke("pool", "ls").exit_code == 0


def test_domain_of_control_characters_is_shown_not_obeyed(filled: Filled) -> None:
    with sqlite3.connect(filled.path) as connection:
        connection.execute("UPDATE tasks SET domain = ? WHERE id = 'ret-0'", ["\x1b[2J[red]x"])
    connection.close()
    result = invoke("pool", "ls", "--store", filled.path)
    assert "\x1b" not in result.output
    assert "\\x1b[2J[red]x" in result.stdout


def test_a_demo_in_the_newest_step_takes_no_ages_away(filled: Filled) -> None:
    """Ages count from the newest version that sampled, wherever it stands among the steps."""
    with open_store(filled.path) as store:
        demo = make_trajectory(99, RETAIL[0], "beta", 50, origin=Origin.DEMO, policy_version=None,
                               logprobs=None, entropies=None, sampling=None)  # fmt: skip
        store.commit(Batch(trajectories=[demo]))
    rows = ask_json("pool", "ls", "--store", filled.path, "--run", "beta")["rows"]
    assert [row["age"] for row in rows] == [None, None, 0, 1]
