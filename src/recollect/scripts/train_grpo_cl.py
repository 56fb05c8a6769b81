"""Seed 001's command: `python -m recollect.scripts.train_grpo_cl`, alone or under torchrun.

All of its flags are understood, in both spellings; what they mean here is in docs/continual.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from recollect.cli.continual import run_journey
from recollect.cli.failure import failures_reported
from recollect.cli.output import remark, say
from recollect.cli.train import require_training
from recollect.engines.launch import together
from recollect.scripts.flags import given_flags, parser, settings_of
from recollect.train.folder import CONTINUAL
from recollect.train.ranks import Ranks

# Less would be taken for no flag at all, or for 1, and nobody would be told.
_FROM_ONE = ("batch_size_per_gpu", "gradient_accumulation_steps", "max_new_tokens",
             "max_tasks_per_domain", "log_interval")  # fmt: skip
# What a run that goes on may be shown and written as; all else it was begun with.
_RESUMED = ("resume_from", "verbose", "log_interval", "use_progress_bar", "save_trajectory_logs",
            "trajectory_log_interval")  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; gives its exit code."""
    flags = parser().parse_args(arguments)
    try:
        with failures_reported():
            if flags.resume_from is not None:
                _refuse_others(given_flags(arguments))
            require_training()
            together(lambda ranks: _run(flags, ranks))
    except typer.Exit as end:
        return end.exit_code
    return 0


def _run(flags: argparse.Namespace, ranks: Ranks) -> None:
    _check(flags)
    _remark(flags)
    from recollect.config.loading import load_config
    from recollect.continual.runner import create_journey, open_journey

    if flags.resume_from is not None:
        journey = open_journey(_folder_of(flags.resume_from))
    else:
        loaded = load_config("domains", settings_of(flags, ranks.size))
        journey = create_journey(flags.log_dir, loaded.config)
    run_journey(journey, ranks, flags.use_progress_bar, flags.verbose, flags.log_interval)
    if flags.save_trajectory_logs:
        _write_logs(journey.path, flags.trajectory_log_interval)
    say("Training completed successfully!")


def _refuse_others(given: Sequence[str]) -> None:
    """Refuse flags that a run which goes on would not heed."""
    from recollect.errors import BadContinual

    ignored = [name for name in given if name not in _RESUMED]
    if not ignored:
        return
    named = ", ".join("key=value" if name == "settings" else f"--{name}" for name in ignored)
    raise BadContinual(
        "--resume_from goes on with the settings of that run",
        f"Leave {named} out, or use: recollect resume FOLDER",
    )


def _check(flags: argparse.Namespace) -> None:
    from recollect.errors import BadContinual

    if flags.gamma != 1.0:
        raise BadContinual(f"--gamma {flags.gamma} cannot be had", "GRPO does not discount: use 1.")
    if not 0 < flags.train_split < 1:
        raise BadContinual(
            f"--train_split {flags.train_split} leaves nothing on one side",
            "Give a share between 0 and 1, such as 0.8.",
        )
    for name in _FROM_ONE:
        value = getattr(flags, name)
        if value is not None and value < 1:
            raise BadContinual(f"--{name} {value} cannot be had", "Give a whole number from 1.")
    if not flags.user_model and (flags.user_model_url or flags.user_model_temperature is not None):
        raise BadContinual(
            "--user_model_url and --user_model_temperature are of a model that is not named",
            "Name the model that plays the user with --user_model.",
        )
    if flags.save_trajectory_logs and flags.trajectory_log_interval < 1:
        raise BadContinual(
            f"--trajectory_log_interval {flags.trajectory_log_interval} names no steps to log",
            "Give a whole number from 1, or leave --save_trajectory_logs out.",
        )


def _remark(flags: argparse.Namespace) -> None:
    """Say which flags cannot do here what their names promise."""
    if flags.environment.startswith("desk") and (flags.user_model or flags.use_local_user_model):
        remark("users of the desk are scripted: --user_model and its kin change nothing")
    if flags.use_local_user_model and not flags.environment.startswith("desk"):
        remark("a model that plays the user runs in a server of its own: give --user_model_url")
    if flags.verbose and flags.use_flash_attention:
        remark("attention is packed and computed by recollect; --use_flash_attention adds nothing")


def _folder_of(path: Path) -> Path:
    """Find the continual run that a path lies in: its folder, or a checkpoint below it."""
    for folder in (path, *path.resolve().parents):
        if (folder / CONTINUAL).is_file():
            return folder
    return path


def _write_logs(folder: Path, interval: int) -> None:
    """Export the conversations of every interval-th step, as JSON lines of messages."""
    from recollect.store import open_reader
    from recollect.store.exporting import export_file
    from recollect.store.records import Query
    from recollect.types import RunId

    target = folder / "trajectory_logs"
    target.mkdir(exist_ok=True)
    for stage in sorted((folder / "stages").iterdir()):
        file = target / f"{stage.name}.jsonl"
        with open_reader(stage / "store.db") as reader, file.open("wb") as sink:
            steps = {row[0] for row in reader.sql("SELECT DISTINCT step FROM groups", 10**9)[1]}
            for step in sorted(int(str(step)) for step in steps):
                if step % interval == 0:
                    query = Query(run=RunId(stage.name), min_step=step, max_step=step)
                    export_file(
                        reader, None, format="messages", query=query, stream=sink, tokens=False
                    )


if __name__ == "__main__":
    sys.exit(main())
