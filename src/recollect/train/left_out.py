"""Stored rows that a step drew and could not read: told, and written down."""

from __future__ import annotations

from collections.abc import Mapping

from recollect.ledger import Event
from recollect.store.address import Place
from recollect.telemetry.events import Warned
from recollect.types import RunId

_MOST = 3  # rows that are named; the event names all


def lost_event(run: RunId, step: int, lost: Mapping[str, str]) -> list[Event]:
    """Write down which rows were left out, and why; nothing where there were none."""
    return [Event(run, step, "rows_left_out", {"why": dict(lost)})] if lost else []


def lost_warning(step: int, lost: Mapping[str, str], store: Place) -> list[Warned]:
    """Say it once: what is damaged is quarantined, what is gone left the pool."""
    if not lost:
        return []
    shown = "; ".join(f"{id_}: {why}" for id_, why in list(lost.items())[:_MOST])
    more = f" and {len(lost) - _MOST} more" if len(lost) > _MOST else ""
    rows = "1 stored row" if len(lost) == 1 else f"{len(lost)} stored rows"
    return [
        Warned(
            f"step {step}: {rows} could not be read, and the step goes without: {shown}{more}. "
            "Damaged ones are quarantined. See what else is hurt with: "
            f"recollect pool verify --store {store}"
        )
    ]
