"""Stored rows that a run or one of its steps could not read: told, and written down."""

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
    return [
        Warned(
            f"step {step}: {_rows(lost)} could not be read, and the step goes without: "
            f"{_named(lost)}. Damaged ones are quarantined. {_hint(store)}"
        )
    ]


def left_behind(lost: Mapping[str, str], source: str) -> str:
    """Say which rows of an earlier run's pool could not be taken over."""
    told = f"{_rows(lost)} could not be read and stay behind: {_named(lost)}"
    return f"pool.start_from: {told}. {_hint(source)}"


def not_studied(lost: Mapping[str, str], store: Place) -> str:
    """Say which rows of the last steps no notes are made of when a run goes on."""
    told = f"{_rows(lost)} could not be read, and no notes are made of them: {_named(lost)}"
    return f"{told}. {_hint(store)}"


def _rows(lost: Mapping[str, str]) -> str:
    return "1 stored row" if len(lost) == 1 else f"{len(lost):,} stored rows"


def _named(lost: Mapping[str, str]) -> str:
    shown = "; ".join(f"{id_}: {why}" for id_, why in list(lost.items())[:_MOST])
    return shown + (f" and {len(lost) - _MOST:,} more" if len(lost) > _MOST else "")


def _hint(store: Place | str) -> str:
    return f"See what else is hurt with: recollect pool verify --store {store}"
