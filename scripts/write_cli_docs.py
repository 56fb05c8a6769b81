"""Write docs/cli.md from the commands themselves: python scripts/write_cli_docs.py."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import typer
from typer.testing import CliRunner

from recollect.cli.main import app

TARGET = Path(__file__).resolve().parents[1] / "docs" / "cli.md"

_PREFACE = """\
# The command line

This page is written by `python scripts/write_cli_docs.py` from what `--help` prints.

- **Store.** Commands on a store take `--store PATH` (short `-s`), else `$RECOLLECT_STORE`, else
  `./recollect.db`. A run's folder stands for that run's store, wherever it is; any other folder for
  the `store.db` in it.
- **Ids.** Every trajectory id, run id and task key can be shortened to a unique prefix.
- **Output.** Tables on a terminal, plain aligned text with whole ids in a pipe (or with
  `RECOLLECT_PLAIN=1`), JSON with `--json`. Remarks and errors go to stderr. Control characters
  in stored text are shown as escapes such as `\\x1b`, never sent to the terminal.
- **Age.** The newest policy version of a row's run minus the version that sampled the row. Rows
  that no policy sampled (demos) have none.
- **Exit codes.** 0 fine, 1 findings (damage found, bad lines left out), 2 an error: one sentence
  and the next step on stderr, nothing changed. 3 training diverged, 130 or 143 interrupted, 141
  nobody read the output.
"""


def commands(group: typer.Typer, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Walk all groups and commands, depth first, in the order they are listed in help."""
    yield path
    for command in group.registered_commands:
        assert command.callback is not None
        yield (*path, command.name or command.callback.__name__)
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from commands(inner.typer_instance, (*path, str(inner.name)))


def help_of(path: tuple[str, ...]) -> str:
    """Return what `--help` prints, 80 columns wide, whatever this terminal is."""
    runner = CliRunner(env={name: None for name in os.environ if name.startswith("RECOLLECT_")})
    result = runner.invoke(app, [*path[1:], "--help"], prog_name=path[0], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout.rstrip()


def reference() -> str:
    """Build the page."""
    parts = [_PREFACE]
    for path in commands(app, ("recollect",)):
        parts.append(f"## {' '.join(path)}\n\n```text\n{help_of(path)}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(reference(), encoding="utf-8")
