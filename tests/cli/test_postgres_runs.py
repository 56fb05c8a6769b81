"""Commands on the folder of a run whose store is on a server: those of its twin with a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from postgres_server import new_address
from recollect.store import open_reader
from recollect.types import RunId

from .conftest import ask_json, assert_refused, invoke

pytest.importorskip("torch")
pytest.importorskip("psycopg", reason="NOT TESTED: psycopg is not installed")

FLAGS = (
    "run.steps=3",
    "run.name=r",
    "eval.every=0",
    "checkpoint.every=1",
    "rollout.rows_per_task=3",
    "replay.modes=[mix,repair,buffer]",
    "replay.buffer_rows=2",
)


@dataclass(frozen=True)
class Twins:
    """Folders of two runs that differ in where their stores are, and the server's address."""

    file: Path
    server: Path
    url: str


@pytest.fixture(scope="module")
def twins(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    """The one on the server shares its store with a later run."""
    from train.small import make_config, run_to_end

    root = tmp_path_factory.mktemp("twins")
    with new_address() as address:
        url = f"{address.url.replace(':secret', '')}?schema={address.schema}"
        file, server = root / "file" / "r", root / "server" / "r"
        run_to_end(file, make_config(model, *FLAGS))
        run_to_end(server, make_config(model, *FLAGS, f"store.path={url}"))
        later = make_config(model, "run.steps=1", "eval.every=0", f"store.path={url}")
        run_to_end(root / "server" / "later", later)
        yield Twins(file, server, url)


def both(twins: Twins, *words: object) -> list[Any]:
    """Ask the same of both; {} stands for the folder."""
    return [
        ask_json(*(folder if word == "{}" else word for word in words))
        for folder in (twins.file, twins.server)
    ]


def test_the_pool_of_a_folder(twins: Twins) -> None:
    mine, theirs = both(twins, "pool", "ls", "--run", "r", "--limit", 100, "--store", "{}")
    assert [row["id"] for row in mine["rows"]] == [row["id"] for row in theirs["rows"]]
    assert mine["rows"]
    used = next(row["id"] for row in mine["rows"] if row["uses"])
    for command in ("show", "why"):
        mine, theirs = both(twins, "pool", command, used, "--store", "{}")
        assert _timeless(mine) == _timeless(theirs)
    stats = ask_json("pool", "stats", "--store", twins.server)
    assert stats["journal"].startswith("PostgreSQL")
    assert invoke("pool", "verify", "--store", twins.server).exit_code == 0
    query = "SELECT count(*) AS n FROM uses"
    mine, theirs = both(twins, "pool", "sql", query, "--store", "{}")
    assert mine == theirs


def _timeless(answer: Any) -> Any:
    """An answer without times, and without sizes, which depend on how times are spelt."""
    if isinstance(answer, dict):
        clocks = ("created", "began", "ended", "started", "finished", "at", "time", "bytes")
        return {k: _timeless(v) for k, v in answer.items() if not k.startswith(clocks)}
    return [_timeless(each) for each in answer] if isinstance(answer, list) else answer


def test_what_a_step_drew_is_that_of_the_folders_own_run(twins: Twins) -> None:
    mine, theirs = both(twins, "replay", "explain", "{}", 3)
    assert mine == theirs
    assert mine
    # By its address, a store's newest run is meant.
    assert_refused(invoke("replay", "explain", twins.url, 3), "later: there is no step 3")
    assert ask_json("replay", "explain", twins.url, 3, "--run", "r") == mine


def test_looking_at_the_run(twins: Twins, tmp_path: Path) -> None:
    answers = []
    for folder in (twins.file, twins.server):
        shown = invoke("doctor", folder, "--json")
        assert shown.exit_code in (0, 1), shown.output
        answers.append(json.loads(shown.stdout))
    mine, theirs = ([f["name"] for f in answer["findings"]] for answer in answers)
    slow = {"storing_is_slow"}  # which may differ
    assert [name for name in mine if name not in slow] == [n for n in theirs if n not in slow]
    listed = ask_json("runs", "ls", "--runs", twins.server.parent)
    assert {run["name"]: run["finished"] for run in listed} == {"r": True, "later": True}
    drawn = invoke("plot", twins.server, "--out", tmp_path / "curves.svg")
    assert drawn.exit_code == 0, drawn.output
    found = ask_json("replay", "simulate", "demo", twins.server, "replay.modes=[mix]", "--steps", 2)
    assert found["rows"] > 0


def test_a_copy_of_the_folders_store(twins: Twins, tmp_path: Path) -> None:
    report = ask_json("pool", "copy", twins.server, tmp_path / "copy.db")
    with open_reader(twins.url) as there, open_reader(tmp_path / "copy.db") as here:
        assert (
            report["rows"]["trajectories"]
            == there.stats().trajectories
            == here.stats().trajectories
        )
        assert here.cursor(RunId("r")) == there.cursor(RunId("r"))


def test_a_run_begins_with_the_pool_of_the_folder(twins: Twins, model: Path, here: Path) -> None:
    from train.small import settings

    flags = ["eval.every=0", "run.steps=2", "run.name=next", f"pool.start_from={twins.server}"]
    flags += ["replay.modes=[buffer]"]
    result = invoke("train", "small.yaml", *settings(model, *flags))
    assert result.exit_code == 0, result.output
    with open_reader(here / "runs" / "next" / "store.db") as reader:
        assert {run.id for run in reader.runs().values()} == {"r", "later", "next"}


def test_resuming_by_the_folder(twins: Twins) -> None:
    config = twins.server / "config.yaml"
    config.write_text(config.read_text().replace("steps: 3", "steps: 4"))
    try:
        result = invoke("resume", twins.server)
        assert result.exit_code == 0, result.output
        with open_reader(twins.url) as reader:
            cursor = reader.cursor(RunId("r"))
        assert cursor is not None
        assert cursor.step == 4
    finally:
        config.write_text(config.read_text().replace("steps: 4", "steps: 3"))


def test_a_server_that_is_gone_is_named(twins: Twins, tmp_path: Path) -> None:
    folder = tmp_path / "r"
    folder.mkdir()
    text = (twins.server / "config.yaml").read_text()
    port = twins.url.split("127.0.0.1:")[1].split("/")[0]
    (folder / "config.yaml").write_text(text.replace(port, "1"))
    assert_refused(invoke("pool", "stats", "--store", folder), "127.0.0.1", "1")
