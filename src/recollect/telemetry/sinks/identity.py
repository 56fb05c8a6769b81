"""Who a run is to experiment trackers: an id of its own, and a name that a person knows again."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path

FILE = "tracker.json"
_LENGTH = 21  # as long as swanlab's own ids are
_BETWEEN = "stages"  # stands between a continual run and the runs of its domains


def tracker_id(folder: Path) -> str:
    """Give a run's id: made once, kept in its folder, the same when the run is resumed.

    The folder's name would not do: both arms of a comparison have a `seed-0`, and a tracker that
    is told the same id twice draws two runs as one. It comes from the system's chance, so no
    stream of the run is touched.
    """
    file = folder / FILE
    known = _read(file)
    if known is not None:
        return known
    folder.mkdir(parents=True, exist_ok=True)
    made = uuid.uuid4().hex[:_LENGTH]
    draft = folder / f".{FILE}.{made}"
    draft.write_text(json.dumps({"id": made}) + "\n", encoding="utf-8")
    os.replace(draft, file)
    return made


def tracker_name(folder: Path) -> str:
    """Name a run by its last folders: twin/seed-0, domains-1/00-airline."""
    parts = folder.resolve().parts[1:]
    own, above = parts[-1:], [part for part in parts[:-1] if part != _BETWEEN]
    return "/".join([*above[-1:], *own])


def _read(file: Path) -> str | None:
    """Read the id that was kept; None where there is none that can be used."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    id_ = found.get("id") if isinstance(found, dict) else None
    return id_ if isinstance(id_, str) and id_ else None
