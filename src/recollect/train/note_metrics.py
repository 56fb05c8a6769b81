"""What a step's notes say of themselves, under the names of `telemetry.names`."""

from __future__ import annotations

from collections.abc import Sequence

from recollect.train.batch import Batch, ScoredRow
from recollect.train.metrics import mean
from recollect.train.noting import Notebook
from recollect.train.report import UpdateReport
from recollect.trajectory import Trajectory


def note_metrics(
    notes: Notebook | None, rows: Sequence[Trajectory], batch: Batch, report: UpdateReport
) -> dict[str, float]:
    """Gather the figures of a step's notes; nothing at all where there are none.

    A run without notes of its own can still replay rows that lose theirs: those it tells.
    """
    if notes is None:
        return _stripped(batch, report) if any(row.stripped for row in _rows(batch)) else {}
    return {
        "notes/live": float(len(notes.live())),
        "notes/added": float(notes.added),
        "notes/retired": float(notes.retired),
        "notes/questions": float(notes.harvest.asked),
        "notes/unwritten": float(len(notes.harvest.failed)),
        "notes/tries": float(notes.harvest.tries),
        "notes/wait": notes.harvest.seconds,
        **_remote(notes),
        **_guided(rows),
        **_stripped(batch, report),
    }


def _remote(notes: Notebook) -> dict[str, float]:
    """Say how a service answered, where one is asked."""
    if notes.remote is None:
        return {}
    found, reporter = notes.remote.search.figures, notes.remote.reporter
    figures = {
        "notes/remote_asked": float(found.asked),
        "notes/remote_failed": float(found.failed),
        "notes/remote_tries": float(found.tries),
        "notes/remote_refused": float(found.refused),
        "notes/remote_wait": found.seconds,
    }
    if reporter is not None:
        figures |= {
            "notes/remote_sent": float(reporter.sent),
            "notes/remote_lost": float(reporter.lost),
        }
    return figures


def _guided(rows: Sequence[Trajectory]) -> dict[str, float]:
    """Compare attempts with notes and without, in the groups that have some with."""
    groups = {row.group for row in rows if row.notes}
    guided = [row.success for row in rows if row.notes]
    bare = [row.success for row in rows if not row.notes and row.group in groups]
    figures = {"notes/guided": float(len(guided))}
    if guided:
        figures["notes/success"] = mean(guided)
    if bare:
        figures["notes/bare_success"] = mean(bare)
    if guided and bare:
        figures["notes/gain"] = mean(guided) - mean(bare)
    return figures


def _stripped(batch: Batch, report: UpdateReport) -> dict[str, float]:
    count = sum(row.stripped for row in _rows(batch))
    figures = {"notes/stripped": float(count)}
    found = report.stripped
    if found is not None:
        figures |= {
            "notes/distilled": float(found.distilled),
            "notes/loss": found.loss,
            "notes/ratio_mean": found.ratios.mean,
            "notes/ratio_p50": found.ratios.p50,
            "notes/ratio_p99": found.ratios.p99,
            "notes/ratio_max": found.ratios.max,
            "notes/ess": found.ratios.ess,
            "notes/clip_share": found.clip_share,
        }
    return figures


def _rows(batch: Batch) -> list[ScoredRow]:
    """List all rows that carry gradient, those of extra updates too."""
    return [*batch.training, *(row for update in batch.extra for row in update)]
