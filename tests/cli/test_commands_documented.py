"""Every command: help with examples that run, exit codes, --json, a place in docs/cli.md."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from recollect.cli.main import app as whole_app
from recollect.cli.pool.app import app

from .conftest import Filled, invoke

COMMANDS = [
    command.name or command.callback.__name__
    for command in app.registered_commands
    if command.callback is not None
]
# What serves until it is stopped, and what goes on with a run, has no answer to print; a schema is
# JSON anyway.
WITHOUT_JSON = ("resume", "notes serve", "serve policy", "config schema")


def every_command(group: typer.Typer, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Name all commands of a group, and of the groups in it."""
    for command in group.registered_commands:
        assert command.callback is not None
        yield " ".join((*path, command.name or command.callback.__name__))
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from every_command(inner.typer_instance, (*path, str(inner.name)))


EVERY = list(every_command(whole_app))
DOCS = Path(__file__).parents[2] / "docs" / "cli.md"


def help_of(command: str) -> str:
    result = invoke("pool", command, "--help")
    assert result.exit_code == 0
    return result.stdout


def examples_of(command: str) -> list[str]:
    _, _, tail = help_of(command).partition("Examples:\n")
    return [line.strip() for line in tail.split("\n\n")[0].splitlines()]


@pytest.mark.parametrize("command", EVERY)
def test_all_commands_are_alike(command: str) -> None:
    """Examples of its own (tests/docs/test_pages.py runs them), exit codes, --json, help."""
    text = invoke(*command.split(), "--help").stdout
    assert f"Examples:\n    recollect {command}" in text
    assert " ".join(text.split()).count("Exit codes: 0 ") == 1
    assert ("--json" in text) == (command not in WITHOUT_JSON)
    group = typer.main.get_command(whole_app)
    for name in command.split():
        group = group.commands[name]  # type: ignore[attr-defined]
    assert [each.name for each in group.params if not each.help] == []  # type: ignore[attr-defined]


def test_all_promised_commands_are_there() -> None:
    promised = "ls show why stats verify export import copy prune sql migrate"
    promised += " ban unban release pin unpin"
    assert sorted(promised.split()) == sorted(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_complete(command: str) -> None:
    text = help_of(command)
    assert "--json" in text
    assert ("{SRC} {DST}" if command == "copy" else "--store") in text
    assert "RECOLLECT_STORE" in text or command == "copy"
    assert "Exit codes: 0 fine" in text
    assert examples_of(command)
    assert all(line.startswith("recollect pool ") for line in examples_of(command))


@pytest.mark.parametrize("command", COMMANDS)
def test_command_is_in_the_reference(command: str) -> None:
    assert f"## recollect pool {command}\n" in DOCS.read_text(encoding="utf-8")


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_run(
    command: str,
    filled: Filled,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(tmp_path)
    short = {"3f2a": filled.items[4].id[:8], "9c01": filled.items[5].id[:8]}
    store = {"RECOLLECT_STORE": str(filled.path)}
    for folder in (tmp_path / "runs" / "demo", tmp_path / "old"):
        folder.mkdir(parents=True)
        (folder / "store.db").write_bytes(filled.path.read_bytes())
    if command == "import":
        attempt = {"input": "2 + 2?", "output": "4", "score": 1.0, "step": 5}
        (tmp_path / "rollouts").mkdir()
        (tmp_path / "rollouts" / "5.jsonl").write_text(json.dumps(attempt) + "\n")
        for target in ("trajectories.jsonl", "pool.parquet", "chats.jsonl"):
            options = ["--format", "messages"] if target == "chats.jsonl" else []
            assert invoke("pool", "export", target, *options, env=store).exit_code == 0
    for line in examples_of(command):
        words = shlex.split(line.partition(" | ")[0])[1:]
        if words[-1].startswith("postgres://"):
            address = request.getfixturevalue("address")
            words[-1] = f"{address.url}?schema={address.schema}"
        result = invoke(*(short.get(word, word) for word in words), env=store)
        assert result.exit_code == 0, f"{line}\n{result.output}"
