"""Importing is cheap, and neither the package nor its commands on stores need torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import recollect

HEAVY = ("torch", "transformers", "peft", "accelerate", "pyarrow")
LIMIT = 0.150  # seconds of this process, so that a busy machine does not matter

TIMED = "import time; t = time.process_time(); import recollect; print(time.process_time() - t)"
RUN = """
import sys
from recollect.cli.main import main
for line in sys.argv[1:]:
    sys.argv = ["recollect", *line.split("|")]
    try:
        main()
    except SystemExit as end:
        if end.code:
            sys.exit(end.code)
print("LOADED", *(name for name in NAMES if name in sys.modules), file=sys.stderr)
"""


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "RECOLLECT_STORE"}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env=environment
    )


def test_the_package_imports_fast() -> None:
    best = min(float(python(TIMED).stdout) for _ in range(5))
    assert best < LIMIT


def loaded(names: tuple[str, ...], *commands: str) -> str:
    """Run commands, their words separated by |, in one process; which modules were loaded?"""
    code = RUN.replace("NAMES", repr(names))
    result = python(code, *commands)
    assert result.returncode == 0, result.stderr
    return result.stderr.rpartition("LOADED")[2].strip()


def test_every_public_name_is_there_and_documented() -> None:
    """And needs nothing heavy: docs/python.md promises it."""
    page = (Path(__file__).parents[1] / "docs" / "python.md").read_text(encoding="utf-8")
    names = [name for name in recollect.__all__ if name != "__version__"]
    assert sorted(names) == sorted(recollect._HOMES)
    assert [name for name in names if f"`{name}`" not in page] == []
    code = (
        "import sys, recollect; [getattr(recollect, name) for name in recollect.__all__]; "
        f"print(*(n for n in {HEAVY!r} if n in sys.modules))"
    )
    assert python(code).stdout.strip() == ""


def test_the_package_imports_nothing_heavy() -> None:
    code = f"import sys, recollect; print(*(n for n in {HEAVY!r} if n in sys.modules))"
    assert python(code).stdout.strip() == ""


def test_help_needs_not_even_numpy() -> None:
    commands = ("--help", "pool|--help", "pool|ls|--help", "env|--help", "--version")
    assert loaded((*HEAVY, "numpy", "rich", "yaml"), *commands) == ""


def test_commands_on_a_store_need_nothing_heavy(tmp_path: Path) -> None:
    from recollect.store import open_store

    store = tmp_path / "s.db"
    open_store(store).close()
    commands = ("ls", "stats", "verify", "sql|SELECT 1", "export|-", "prune|--max-rows|1")
    lines = [f"pool|{command}|--store|{store}" for command in (*commands, "migrate")]
    assert loaded((*HEAVY, "rich"), *lines) == ""


def test_public_names_can_all_be_used() -> None:
    import recollect

    for name in recollect.__all__:
        assert getattr(recollect, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        recollect.nonsense  # noqa: B018
