"""`recollect pool import`: bring trajectories into a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.failure import FINDINGS
from recollect.cli.output import count, remark, say, waiting, write_json
from recollect.cli.store_option import (
    DEFAULT,
    EXITS_WITH_FINDINGS,
    JsonOption,
    StoreOption,
    examples,
    store_path,
)
from recollect.cli.untrusted import visible
from recollect.errors import BadFile, RecollectError

if TYPE_CHECKING:
    from recollect.store.address import Place
    from recollect.store.base import Store
    from recollect.store.foreign.sampler import SampledBy
    from recollect.store.importing import ImportReport

EPILOG = examples(
    "recollect pool import trajectories.jsonl",
    "recollect pool import chats.jsonl --environment helpdesk --default-reward 1",
    "recollect pool import pool.parquet --store runs/new/ --strict",
    "recollect pool import rollouts/5.jsonl --format verl --environment gsm8k",
    exits=EXITS_WITH_FINDINGS,
)


class Format(str, Enum):
    """What a file can hold."""

    AUTO = "auto"
    JSONL = "jsonl"
    MESSAGES = "messages"
    PARQUET = "parquet"
    TRL = "trl"
    VERL = "verl"
    TAU2 = "tau2"
    VERIFIERS = "verifiers"


def import_(
    file: Annotated[Path, typer.Argument(help="The file to read.", metavar="FILE")],
    format_: Annotated[
        Format,
        typer.Option(
            "--format",
            help="Recollect's JSON lines, OpenAI messages (one conversation per line) or Parquet, "
            "which auto tells apart; TRL's completions, verl's rollout dumps, tau2's results.json, "
            "verifiers' results or traces.",
        ),
    ] = Format.AUTO,
    environment: Annotated[
        str | None,
        typer.Option(
            help="Environment that conversations belong to; else imported.", metavar="NAME"
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            help="Run that conversations are filed under, unless they say it; else imported.",
            metavar="RUN",
        ),
    ] = None,
    default_reward: Annotated[
        float | None,
        typer.Option(help="Reward of conversations that carry none.", metavar="X"),
    ] = None,
    success_threshold: Annotated[
        float | None,
        typer.Option(
            help="Reward from which such a conversation is a success; else 1.", metavar="X"
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Model that sampled the tokens of verifiers' rollouts: its tokenizer and chat "
            "template are theirs. Without it they come in as demos.",
            metavar="NAME",
        ),
    ] = None,
    policy_version: Annotated[
        int | None,
        typer.Option(
            help="With --model: its optimiser steps at the time; else 0.", metavar="N", min=0
        ),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(
            help="With --model: the temperature they were sampled at; else 1.", metavar="X"
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Import nothing if one line is bad.")
    ] = False,
    store: StoreOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Bring trajectories from a file into the store.

    The store is made if there is none. All good lines arrive in one transaction; bad lines are
    reported with line, field and reason. Importing a file twice changes nothing. Environment,
    run, reward and threshold are for messages, which need not say those themselves; all but the
    reward also for files of other projects.
    """
    sampled = _sampled_by(model, policy_version, temperature)
    from recollect.store.importing import import_file
    from recollect.types import RunId

    path = store_path(store)
    with _store_or_nothing(path) as writer, waiting(f"importing {file}"):
        report = import_file(
            writer,
            file,
            format=format_.value,
            run=None if run is None else RunId(run),
            environment=environment,
            strict=strict,
            default_reward=default_reward,
            success_threshold=success_threshold,
            sampled=sampled,
        )
    if as_json:
        _write_json(path, report)
    else:
        _write(path, report)
    if report.bad_total:
        raise typer.Exit(FINDINGS)


def _sampled_by(
    model: str | None, version: int | None, temperature: float | None
) -> SampledBy | None:
    """Say who sampled the tokens: needs the model's tokenizer, so the extra train."""
    if model is None:
        for name, value in (("--policy-version", version), ("--temperature", temperature)):
            if value is not None:
                raise typer.BadParameter(f"{name} goes with --model")
        return None
    from recollect.cli.train import require_training
    from recollect.store.foreign.sampler import SampledBy

    require_training()
    from recollect.models.loading import load_chat

    return SampledBy(
        load_chat(model).fingerprint, version or 0, 1.0 if temperature is None else temperature
    )


@contextmanager
def _store_or_nothing(path: Place) -> Iterator[Store]:
    """Open the store; one that had to be made for a failing import is taken away again.

    Whether it was there is asked before we hold its lock, so another process may have made and
    filled it in between: only an empty one is removed.
    """
    from recollect.store import open_store

    is_new = isinstance(path, Path) and not path.exists()
    with open_store(path) as writer:
        try:
            yield writer
        except BaseException as error:
            if isinstance(error, BadFile):
                error.hint = error.hint or "See what can be read: recollect pool import --help"
            if is_new and isinstance(path, Path) and _is_empty(writer):  # under our lock
                for end in ("", "-journal", "-wal", "-shm", ".lock"):
                    with suppress(OSError):
                        path.with_name(path.name + end).unlink(missing_ok=True)
            raise


def _is_empty(writer: Store) -> bool:
    from recollect.store.tables.writer import TableStore

    try:
        return isinstance(writer, TableStore) and writer.is_empty()
    except RecollectError:  # it cannot be told, so it stays
        return False


def _write(path: Place, report: ImportReport) -> None:
    for bad in report.bad:
        remark(
            f"{visible(str(report.path))}, line {bad.line}: {visible(f'{bad.field}: {bad.reason}')}"
        )
    if report.bad_total > len(report.bad):
        remark(f"... and {report.bad_total - len(report.bad):,} more bad lines.")
    added = count(report.added, "trajectory", "trajectories")
    known = f", {report.known:,} known already" if report.known else ""
    left = f", {count(report.bad_total, 'bad line')} left out" if report.bad_total else ""
    say(f"{added} imported into {path}{known}{left}.")


def _write_json(path: Place, report: ImportReport) -> None:
    from recollect.cli.documents import document

    write_json({"store": str(path), "report": document(report)})
