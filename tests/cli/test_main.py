"""The top of the command line: help, version, exit codes, what a failure looks like."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import recollect
from recollect.cli import main
from recollect.errors import RecollectError

from .conftest import Filled, invoke, run_process


def test_no_arguments_name_three_next_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke()
    assert result.exit_code == 0
    assert result.stdout.count("  recollect ") == 3
    assert "train demo" in result.stdout


def test_no_arguments_where_there_is_a_store(filled: Filled) -> None:
    result = invoke(env={"RECOLLECT_STORE": str(filled.path)})
    assert result.stdout.count("  recollect ") == 3
    assert "pool show" in result.stdout


def test_version() -> None:
    result = invoke("--version")
    assert result.exit_code == 0
    assert result.stdout == f"recollect {recollect.__version__}\n"


@pytest.mark.parametrize("arguments", [["pool", "lss"], ["pool", "ls", "--domian", "x"], ["pol"]])
def test_misspelt_words_get_a_suggestion_or_the_way_to_help(arguments: list[str]) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert "--help" in result.stderr
    assert "Traceback" not in result.stderr


def test_pool_alone_prints_its_commands() -> None:
    result = invoke("pool")
    assert "verify" in result.output
    assert "migrate" in result.output


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> typer.Typer:
    """Build an app with the real top and one command that fails."""
    app = typer.Typer(cls=main._Commands, pretty_exceptions_enable=False, rich_markup_mode=None)

    @app.callback()
    def top() -> None: ...

    @app.command()
    def fail() -> None:
        typer.echo("before")
        raise error

    return app


@pytest.mark.parametrize(
    ("error", "code", "stderr"),
    [
        (RecollectError("It broke.", "Mend it."), 2, "error: It broke.\n  Mend it.\n"),
        (RecollectError("It broke."), 2, "error: It broke.\n"),
        (RecollectError("Odd \x1b[31mname.", ""), 2, "error: Odd \\x1b[31mname.\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (BrokenPipeError(), 141, ""),
    ],
)
def test_failures_end_in_words_and_a_code(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, stderr: str
) -> None:
    result = CliRunner().invoke(failing(monkeypatch, error), ["fail"], catch_exceptions=False)
    assert (result.exit_code, result.stderr) == (code, stderr)
    assert result.stdout == "before\n"


def test_errors_of_the_system_name_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    error = PermissionError(13, "Permission denied", "/secret")
    result = CliRunner().invoke(failing(monkeypatch, error), ["fail"], catch_exceptions=False)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: /secret: Permission denied.\n  ")


def test_errors_of_the_network_have_a_hint_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    error = ConnectionRefusedError(111, "Connection refused")
    result = CliRunner().invoke(failing(monkeypatch, error), ["fail"], catch_exceptions=False)
    assert result.stderr.startswith("error: Connection refused.\n  Check the address")


def test_a_bug_is_an_error_and_its_traceback_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    app = failing(monkeypatch, ZeroDivisionError("by postgres://u:SECRETPW@h/d"))
    result = CliRunner().invoke(app, ["fail"], catch_exceptions=False)
    (log,) = tmp_path.iterdir()
    assert (result.exit_code, result.stdout) == (2, "before\n")
    assert "This is a bug in Recollect: ZeroDivisionError: by " in result.stderr
    assert str(log) in result.stderr
    assert "Traceback" not in result.stderr
    kept = log.read_text(encoding="utf-8")
    assert kept.startswith("Traceback")
    assert "SECRETPW" not in kept + result.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [(typer.Exit(7), 7), (typer.Abort(), 1), (typer.BadParameter("no"), 2)],
)
def test_what_ends_a_command_on_purpose_is_no_bug(
    monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    result = CliRunner().invoke(failing(monkeypatch, error), ["fail"], catch_exceptions=False)
    assert result.exit_code == code
    assert "bug in Recollect" not in result.stderr


# -- as a process of its own --------------------------------------------------------------


def test_exit_codes_and_no_traceback(filled: Filled, tmp_path: Path) -> None:
    fine = run_process("pool", "ls", "--store", filled.path)
    assert (fine.returncode, fine.stderr) == (0, "")
    missing = run_process("pool", "ls", "--store", tmp_path / "none.db")
    assert missing.returncode == 2
    assert missing.stdout == ""
    assert missing.stderr.startswith("error: There is no store at ")
    assert "Traceback" not in missing.stderr


def test_a_reader_that_goes_away_is_no_error(filled: Filled) -> None:
    ask = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    command = [sys.executable, "-m", "recollect", "pool", "sql", ask, "--limit", "200000"]
    process = subprocess.Popen(
        [*command, "--store", str(filled.path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    stderr = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 141
    assert stderr == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_that_cannot_be_written_is_an_error(filled: Filled) -> None:
    with Path("/dev/full").open("w") as full:
        result = run_process(
            "pool", "ls", "--store", filled.path,
            capture_output=False, stdout=full, stderr=subprocess.PIPE,
        )  # fmt: skip
    assert result.returncode == 2
    assert result.stderr.startswith("error: No space left on device.")
    assert "Traceback" not in result.stderr
    assert "Exception ignored" not in result.stderr


def test_a_terminal_without_utf8_is_no_error(filled: Filled) -> None:
    environment = os.environ | {"PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}
    ask = "SELECT 'and so on' || char(8230) AS word"
    result = run_process("pool", "sql", ask, "--store", filled.path, env=environment)
    assert result.returncode == 0
    assert "and so on\\u2026" in result.stdout


def test_interrupted_process_leaves_130(filled: Filled) -> None:
    code = (
        "import os, signal, sys\n"
        "from recollect.store.sqlite import SqliteReader\n"
        "SqliteReader.stats = lambda self: os.kill(os.getpid(), signal.SIGINT)\n"
        "from recollect.cli.main import main\n"
        "sys.argv = ['recollect', 'pool', 'stats', '--store', sys.argv[1]]\n"
        "main()\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(filled.path)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (result.returncode, result.stderr) == (130, "interrupted\n")


def test_json_of_a_process_is_one_document(filled: Filled) -> None:
    result = run_process("pool", "stats", "--store", filled.path, "--json")
    assert json.loads(result.stdout)["trajectories"] == 15
