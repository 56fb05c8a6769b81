"""`recollect pool export` and `import`, from one store into another and back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from recollect import store as store_room
from recollect.store import open_reader
from recollect.store.records import Query

from .conftest import Filled, ask_json, assert_refused, invoke, run_process
from .test_pool_verify import damage

LIVE = [0, 2, *range(4, 15)]


def ids_in(store: Path) -> list[str]:
    with open_reader(store) as reader:
        return [row.id for row in reader.rows(Query(), limit=100).rows]


@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet"])
def test_there_and_back_is_exact(filled: Filled, tmp_path: Path, name: str) -> None:
    target, other = tmp_path / name, tmp_path / "other.db"
    found = ask_json("pool", "export", target, "--store", filled.path)
    assert found["report"]["rows"] == 13
    assert found["report"]["bytes"] == target.stat().st_size
    report = ask_json("pool", "import", target, "--store", other)["report"]
    assert (report["added"], report["known"], report["bad_total"]) == (13, 0, 0)
    with open_reader(other) as reader:
        ids = [filled.items[n].id for n in LIVE]
        assert reader.get(ids) == [filled.items[n] for n in LIVE]
    again = ask_json("pool", "import", target, "--store", other)["report"]
    assert (again["added"], again["known"]) == (0, 13)
    ask_json("pool", "export", tmp_path / f"2{name}", "--store", other)
    if name.endswith("jsonl"):
        assert (tmp_path / f"2{name}").read_bytes() == target.read_bytes()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--domain", "retail", "--success"], [12]),
        (["--max-age", "0"], [13]),
        (["--max-age", "1"], [8, 9, 10, 11, 12, 13]),
        (["--status", "any", "--run", "alpha", "--failed"], [1, 3, 5, 7, 9, 11]),
        (["--origin", "guided", "--max-age", "9"], []),
        (["--pinned"], [2]),
    ],
)
def test_filters_are_those_of_ls(
    filled: Filled, tmp_path: Path, options: list[str], expected: list[int]
) -> None:
    target = tmp_path / "out.jsonl"
    assert invoke("pool", "export", target, "--store", filled.path, *options).exit_code == 0
    lines = [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]
    found = [line["id"] for line in lines if line.get("type") == "trajectory"]
    assert found == [filled.items[n].id for n in expected]


def test_stdout_holds_only_the_rows(filled: Filled) -> None:
    result = invoke("pool", "export", "-", "--store", filled.path, "--json")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert sum(line.get("type") == "trajectory" for line in lines) == 13
    assert json.loads(result.stderr)["report"]["rows"] == 13
    result = invoke("pool", "export", "-", "--store", filled.path)
    assert "13 trajectories written to -" in result.stderr


def test_nobody_reads_the_export(filled: Filled) -> None:
    command = [sys.executable, "-m", "recollect", "pool", "export", "-", "-s", str(filled.path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert (process.stderr.read(), process.wait(60)) == (b"", 141)
    process.stderr.close()


def test_show_and_export_spell_a_trajectory_alike(filled: Filled, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    invoke("pool", "export", target, "--store", filled.path)
    lines = [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]
    line = next(line for line in lines if line.get("type") == "trajectory")
    found = ask_json("pool", "show", line["id"], "--store", filled.path)["trajectory"]
    assert {"type": "trajectory", **found} == line


def test_messages_come_back_as_demos_without_tokens(filled: Filled, tmp_path: Path) -> None:
    target, other = tmp_path / "chats.jsonl", tmp_path / "other.db"
    export = ["pool", "export", target, "--format", "messages", "--no-tokens"]
    assert invoke(*export, "--store", filled.path).exit_code == 0
    first = json.loads(target.read_text(encoding="utf-8").splitlines()[0])
    assert [message["role"] for message in first["messages"]][:2] == ["system", "user"]
    result = invoke("pool", "import", target, "--store", other, "--environment", "helpdesk")
    assert result.exit_code == 0, result.output
    rows = ask_json("pool", "ls", "--store", other)["rows"]
    assert {row["origin"] for row in rows} == {"demo"}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--environment", "helpdesk"], "Leave the environment out"),
        (["--default-reward", "1"], "Leave the default reward out"),
        (["--success-threshold", "0.5"], "Leave the success threshold out"),
        (["--policy-version", "3"], "--policy-version goes with --model"),
        (["--temperature", "0.7"], "--temperature goes with --model"),
        (["--model", "tiny"], "Leave the model out"),
    ],
)
@pytest.mark.parametrize("name", ["own.jsonl", "own.parquet"])
def test_options_that_would_do_nothing_are_refused(
    filled: Filled, tmp_path: Path, name: str, options: list[str], why: str
) -> None:
    target, other = tmp_path / name, tmp_path / "other.db"
    assert invoke("pool", "export", target, "--store", filled.path).exit_code == 0
    result = invoke("pool", "import", target, "--store", other, *options)
    assert result.exit_code == 2
    assert why in result.stderr
    assert not other.exists()


def test_nobody_has_to_say_who_sampled_messages(filled: Filled, tmp_path: Path) -> None:
    target, other = tmp_path / "chats.jsonl", tmp_path / "other.db"
    export = ["pool", "export", target, "--format", "messages", "--no-tokens"]
    assert invoke(*export, "--store", filled.path).exit_code == 0
    result = invoke("pool", "import", target, "--store", other, "--model", "tiny")
    assert_refused(result, "in the format messages", "Leave the model out")


def test_an_existing_file_is_kept_unless_asked(filled: Filled, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("precious", encoding="utf-8")
    result = invoke("pool", "export", target, "--store", filled.path)
    assert_refused(result, "already there", "--overwrite")
    assert target.read_text(encoding="utf-8") == "precious"
    result = invoke("pool", "export", target, "--store", filled.path, "--overwrite")
    assert result.exit_code == 0
    assert target.stat().st_size > 1000


def test_damaged_rows_are_left_out_and_named(filled: Filled, tmp_path: Path) -> None:
    damage(filled, 5)
    result = invoke("pool", "export", tmp_path / "out.jsonl", "--store", filled.path)
    assert result.exit_code == 1
    assert f"left out {filled.items[5].id}" in result.stderr
    assert "12 trajectories written" in result.stdout
    assert "1 left out" in result.stdout


def test_bad_lines_are_reported_and_good_ones_kept(filled: Filled, tmp_path: Path) -> None:
    source, other = tmp_path / "in.jsonl", tmp_path / "other.db"
    invoke("pool", "export", source, "--store", filled.path)
    lines = source.read_text(encoding="utf-8").splitlines()
    number = next(i for i, line in enumerate(lines) if '"type":"trajectory"' in line)
    bad: dict[str, Any] = json.loads(lines[number])
    bad["reward"] = "\x1b[31mlots"
    lines[number] = json.dumps(bad)
    source.write_text("\n".join(lines) + "\nnot json\n", encoding="utf-8")

    strict = invoke("pool", "import", source, "--store", other, "--strict")
    assert strict.exit_code == 2
    assert "\x1b" not in strict.output
    assert not other.exists()

    result = invoke("pool", "import", source, "--store", other)
    assert result.exit_code == 1
    assert f"line {number + 1}: reward: " in result.stderr
    assert f"line {len(lines) + 1}: " in result.stderr
    assert "12 trajectories imported" in result.stdout
    assert "2 bad lines left out" in result.stdout
    assert "\x1b" not in result.output
    assert len(ids_in(other)) == 12

    result = invoke("pool", "import", source, "--store", tmp_path / "json.db", "--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)["report"]
    assert report["bad_total"] == 2
    assert report["bad"][0]["line"] == number + 1
    assert report["bad"][0]["field"] == "reward"


@pytest.mark.parametrize(
    "content", [None, b"", b"\x00\xff\xfe", b"SQLite format 3\0", b"PAR1junk", b"\x1f\x8bzip"]
)
@pytest.mark.parametrize("options", [[], ["--format", "jsonl"], ["--format", "parquet"]])
def test_unusable_files_change_nothing(
    tmp_path: Path, filled: Filled, content: bytes | None, options: list[str]
) -> None:
    source = tmp_path / "in.bin"
    if content is not None:
        source.write_bytes(content)
    before = filled.path.read_bytes()
    for store in (filled.path, tmp_path / "new" / "store.db"):
        result = invoke("pool", "import", source, "--store", store, *options)
        assert_refused(result, "in.bin")
    assert filled.path.read_bytes() == before
    assert not list((tmp_path / "new").rglob("*.db*"))


def test_the_store_itself_is_no_input(filled: Filled) -> None:
    before = filled.path.read_bytes()
    assert_refused(invoke("pool", "import", filled.path, "--store", filled.path), "SQLite")
    assert filled.path.read_bytes() == before


def test_import_from_a_process_tells_findings_by_its_exit_code(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    chat = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]}
    source.write_text(json.dumps(chat | {"reward": 1}) + "\n{}\n", encoding="utf-8")
    result = run_process("pool", "import", source, "--store", tmp_path / "s.db")
    assert result.returncode == 1, result.stderr
    assert "line 2: " in result.stderr
    assert "Traceback" not in result.stderr
    assert "1 trajectory imported" in result.stdout


def test_a_failing_import_leaves_a_store_that_others_filled_meanwhile(
    filled: Filled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, opened = tmp_path / "late.db", store_room.open_store

    def filled_before_opening(place: Any) -> Any:
        target.write_bytes(filled.path.read_bytes())
        return opened(place)

    monkeypatch.setattr(store_room, "open_store", filled_before_opening)
    result = invoke("pool", "import", tmp_path / "missing.jsonl", "--store", target)
    assert_refused(result, "no such file")
    assert len(ids_in(target)) == len(ids_in(filled.path))
