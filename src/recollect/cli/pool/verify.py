"""`recollect pool verify`: check a store against itself, and set aside what is damaged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.failure import FINDINGS
from recollect.cli.output import count, say, size, waiting, write_json
from recollect.cli.store_option import (
    DEFAULT,
    EXITS_WITH_FINDINGS,
    JsonOption,
    StoreOption,
    examples,
    store_path,
)
from recollect.cli.untrusted import visible
from recollect.errors import NotAStore, StoreDamaged, StoreError, StoreFailed, StoreLocked

if TYPE_CHECKING:
    from recollect.store.address import Place
    from recollect.store.base import StoreReader
    from recollect.store.records import Finding
    from recollect.types import TrajectoryId

EPILOG = examples(
    "recollect pool verify",
    "recollect pool verify --no-quarantine",
    "recollect pool verify --json | jq '.findings[].trajectory'",
    exits=EXITS_WITH_FINDINGS,
)


def verify(
    quarantine: Annotated[
        bool,
        typer.Option(
            "--quarantine/--no-quarantine",
            help="Set damaged trajectories aside, so that they are never drawn; or only look.",
        ),
    ] = True,
    store: StoreOption = DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Check every checksum, every derived value, and pages or tables as a whole.

    Damaged trajectories are set aside (quarantined) unless --no-quarantine is given or another
    process is writing; then, with a rollback journal, pages are checked table by table, which does
    not hold it up. A file that cannot be opened as a store is a finding too. With --json:
    {"findings": [...], "quarantined": [...], "note": "..."}.
    """
    path = store_path(store)
    checked = ""
    try:
        findings, checked = _check(path)
    except (NotAStore, StoreDamaged, StoreFailed) as error:
        if isinstance(path, Path) and path.is_dir():
            raise
        findings = [_cannot_open(error)]
    damaged = list(dict.fromkeys(f.trajectory for f in findings if f.trajectory is not None))
    aside: list[TrajectoryId] = []
    note = ""
    if damaged and quarantine:
        aside, note = _set_aside(path, damaged)
    if as_json:
        _write_json(findings, aside, note)
    else:
        for finding in findings:
            say(f"{visible(finding.where)}: {visible(finding.problem)}")
        say(_summary(path, findings, aside, checked))
        if note:
            say(visible(note))
    if findings:
        raise typer.Exit(FINDINGS)


def _check(path: Place) -> tuple[list[Finding], str]:
    from recollect.store import open_reader

    with open_reader(path) as reader:
        about = _about(reader)
        with waiting(f"checking {about or path}"):
            return list(reader.verify()), about


def _about(reader: StoreReader) -> str:
    """Say how much there is to check; a store too damaged to count is checked all the same."""
    try:
        stats = reader.stats()
    except StoreError:
        return ""
    rows = count(stats.trajectories + stats.fenced, "trajectory", "trajectories")
    return f"{rows}, {size(stats.file_bytes)}"


def _cannot_open(error: StoreError) -> Finding:
    from recollect.store.records import Finding

    what = error.what.rstrip(".")
    if isinstance(error, NotAStore):
        what += ", or the beginning of a store's file was overwritten"
    return Finding("file", what)


def _set_aside(path: Place, damaged: list[TrajectoryId]) -> tuple[list[TrajectoryId], str]:
    """Quarantine what is not yet; what keeps us from it is told, not raised."""
    from recollect.store import open_store
    from recollect.store.records import Query
    from recollect.types import Status

    try:
        with open_store(path) as writer:
            aside = [
                id_
                for id_ in damaged
                if not writer.count(Query(ids=[id_], status=Status.QUARANTINED))
                and writer.count(Query(ids=[id_], status=None))
            ]
            writer.quarantine(aside, "verify found it damaged")
    except StoreLocked as error:
        return [], f"Nothing was set aside: {error.what} Verify again when it has ended."
    except StoreError as error:
        return [], f"Nothing was set aside: {error.what} {error.hint}"
    return aside, ""


def _summary(path: Place, findings: list[Finding], aside: list[TrajectoryId], checked: str) -> str:
    if not findings:
        return f"{path} is sound ({checked})."
    text = f"{path}: {count(len(findings), 'finding')}."
    if aside:
        text += f" {count(len(aside), 'trajectory', 'trajectories')} set aside."
    return text


def _write_json(findings: list[Finding], aside: list[TrajectoryId], note: str) -> None:
    from recollect.cli.documents import document

    write_json({"findings": document(findings), "quarantined": aside, "note": note})
