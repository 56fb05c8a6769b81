"""`recollect pool stats`: what a store holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recollect.cli.output import Column, count, decimal, say, size, write_json, write_table
from recollect.cli.store_option import DEFAULT, JsonOption, StoreOption, examples, store_path

if TYPE_CHECKING:
    from recollect.store.records import Stats

EPILOG = examples("recollect pool stats", "recollect pool stats --store runs/demo --json")


def stats(store: StoreOption = DEFAULT, as_json: JsonOption = False) -> None:
    """Count what the store holds.

    Rows by status, origin and domain, bytes, tasks, runs, notes, and how often rows were reused.
    """
    from recollect.cli.documents import document
    from recollect.store import open_reader

    with open_reader(store_path(store)) as reader:
        found = reader.stats()
    if as_json:
        write_json(document(found))
    else:
        _write(found)


def _write(found: Stats) -> None:
    mean_uses = found.uses / found.trajectories if found.trajectories else 0.0
    facts = [
        ("store", f"{found.path} (schema {found.schema})"),
        ("size", f"{size(found.file_bytes)} on disk, {size(found.payload_bytes)} of trajectories"),
        ("trajectories", f"{found.trajectories:,}{_breakdown(found.by_status)}"),
        ("origin", _breakdown(found.by_origin).strip(" ()") or "-"),
        ("fenced", count(found.fenced, "row")),
        ("from", f"{count(found.runs, 'run')}, {count(found.tasks, 'task')}"),
        ("reuse", f"{count(found.uses, 'use')} of {count(found.draws, 'draw')}, "
                  f"{mean_uses:.2f} uses per trajectory"),
        ("notes", f"{found.notes:,}"),
    ]  # fmt: skip
    for name, text in facts:
        say(f"{name:<13} {text}")
    if not found.domains:
        return
    say()
    columns = [Column("domain", narrow="cut")] + [
        Column(title, right=True)
        for title in ("tasks", "rows", "success", "reward", "tokens", "bytes", "uses", "version")
    ]
    write_table(
        columns,
        [
            (
                *(row.domain, f"{row.tasks:,}", f"{row.trajectories:,}"),
                f"{100 * row.successes / row.trajectories:.1f}%",
                *(decimal(row.mean_reward), f"{row.tokens:,}", size(row.bytes)),
                f"{row.mean_uses:.2f}",
                "-" if row.newest_version is None else str(row.newest_version),
            )
            for row in found.domains
        ],
    )
    say("(live rows; success, reward and uses are means, version is the newest)")


def _breakdown(counts: dict[str, int]) -> str:
    parts = [f"{number:,} {name}" for name, number in sorted(counts.items())]
    return f" ({', '.join(parts)})" if parts else ""
