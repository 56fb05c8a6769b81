"""Rules of notes that span sections: shares that are nobody, notes that nobody would ever read.

Each takes a whole configuration and raises the conflict it finds, with the arithmetic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recollect.config.schema.distill import FAILURE_TRUST
from recollect.config.schema.notes import share_of
from recollect.config.schema.section import conflict

if TYPE_CHECKING:
    from recollect.config.schema.config import Config


def check_shares(config: Config) -> None:
    """Refuse a share of rows, or of tasks, that rounds down to none."""
    notes, rollout = config.notes, config.rollout
    for mode, name, count in (
        (notes.rollout, "rollout.rows_per_task", rollout.rows_per_task),
        (notes.evaluation, "eval.rows", config.eval.rows),
    ):
        if mode == "mixed" and notes.share and share_of(count, notes.share) == 0:
            raise conflict(
                "notes.share",
                name,
                what=f"notes.share = {notes.share} of {name} = {count} rounds down to no "
                "guided row at all",
                change=f"Raise notes.share or {name}, or choose all (or both, in evaluation).",
            )
    kept, tasks = notes.keep_share, rollout.tasks_per_step
    hybrid = notes.train == "hybrid" and notes.rollout != "bare"
    if hybrid and kept and share_of(tasks, kept) == 0:
        raise conflict(
            "notes.keep_share",
            "rollout.tasks_per_step",
            what=f"notes.keep_share = {kept} of rollout.tasks_per_step = {tasks} rounds down to "
            "no task that keeps its notes: notes.train = hybrid would be strip",
            change="Raise notes.keep_share or rollout.tasks_per_step, or set notes.train=strip.",
        )


def check_places(config: Config) -> None:
    """Refuse notes that are written, or brought along, where nobody looks for any."""
    notes, distill = config.notes, config.distill
    if distill.every and (notes.remote is None) == (distill.by == "remote"):
        elsewhere = notes.remote is not None
        raise conflict(
            "distill.by",
            "notes.remote",
            what=f"distill.by = {distill.by} writes notes where nobody looks for them: "
            + ("notes.remote is asked for them" if elsewhere else "there is no notes.remote"),
            change="Set distill.by=remote, or distill.every=0."
            if elsewhere
            else "Set notes.remote, or another distill.by.",
        )
    if notes.remote is None or not (_guides(config) or distill.every):
        return
    if notes.start_from is not None:
        raise conflict(
            "notes.start_from",
            "notes.remote",
            what="notes.start_from fills the run's own bank, and with notes.remote nobody looks "
            "there: the service is asked",
            change="Set notes.start_from=none and put those notes into the service's bank, or "
            "notes.remote=none.",
        )
    if notes.retrieval == "embedding":
        raise conflict(
            "notes.retrieval",
            "notes.remote",
            what="notes.retrieval = embedding says how the run's own bank is searched, and with "
            "notes.remote nobody searches it: the service is asked",
            change="Set notes.retrieval=text, or notes.remote=none.",
        )


def check_trust(config: Config) -> None:
    """Refuse a trust that no note would ever have."""
    notes, distill = config.notes, config.distill
    if not _guides(config):
        return
    if notes.remote is not None and notes.min_trust > config.remote.trust:
        raise conflict(
            "notes.min_trust",
            "remote.trust",
            what=f"no note would ever reach a prompt: those of notes.remote are trusted "
            f"remote.trust = {config.remote.trust:g} at most, and notes.min_trust = "
            f"{notes.min_trust:g}",
            change="Lower notes.min_trust, or raise remote.trust.",
        )
    # A bank that is not the run's alone may hold other notes.
    alone = notes.start_from is None and config.store.path is None and notes.remote is None
    failures = bool(distill.every) and set(distill.kinds) == {"failure"}
    if alone and failures and notes.min_trust > FAILURE_TRUST:
        raise conflict(
            "notes.min_trust",
            "distill.kinds",
            what=f"no note would ever reach a prompt: with distill.kinds = [failure] all are "
            f"trusted {FAILURE_TRUST:g}, and notes.min_trust = {notes.min_trust:g}",
            change=f"Set notes.min_trust to {FAILURE_TRUST:g} or less, or add other distill.kinds.",
        )


def _guides(config: Config) -> bool:
    """Tell whether any attempt may get notes."""
    return config.notes.rollout != "bare" or config.notes.evaluation != "bare"
