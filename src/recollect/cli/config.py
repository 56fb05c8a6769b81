"""`recollect config`: what two configurations differ in, and their schema for editors."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.output import Column, remark, say, write_json, write_table
from recollect.cli.store_option import JsonOption, examples

if TYPE_CHECKING:
    from recollect.config.schema.config import Config

app = typer.Typer(help="Configurations and how they differ.", no_args_is_help=True)
_SOURCE = "Preset, YAML file, or folder of a run."


@app.command("diff", epilog=examples("recollect config diff demo ppo"))
def diff(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help=_SOURCE)],
    after: Annotated[str, typer.Argument(metavar="AFTER", help=_SOURCE)],
    as_json: JsonOption = False,
) -> None:
    """List the settings in which two configurations differ, defaults and presets resolved."""
    from recollect.config.showing import diff as differences

    changes = differences(_load(before), _load(after))
    if as_json:
        write_json([asdict(change) for change in changes])
    elif changes:
        write_table(
            [Column("setting"), Column("before", narrow="wrap"), Column("after", narrow="wrap")],
            [(change.key, change.before or "-", change.after or "-") for change in changes],
        )
    else:
        remark("All settings are the same.")


@app.command("schema", epilog=examples("recollect config schema > recollect.schema.json"))
def schema() -> None:
    """Print the JSON Schema of configuration files, with which editors complete and check them.

    An editor with a YAML language server finds it by the file's first line:
    "# yaml-language-server: $schema=recollect.schema.json".
    """
    from recollect.config.json_schema import json_schema

    say(json.dumps(json_schema(), indent=2))


def _load(source: str) -> Config:
    from recollect.config.loading import load_config
    from recollect.train.folder import CONTINUAL, RunFolder

    folder = RunFolder(Path(source))
    if folder.config.is_file():
        return folder.load()
    journey = folder.path / CONTINUAL  # it has settings as any run has
    return load_config(journey if journey.is_file() else source).config
