"""What the workers of a run were given, and answered: RUN/verl/updates.jsonl.

    {"step": 4, "version": 7, "loss": 0.1, "grad_norm": 0.8,
     "workers": {"actor/off_policy/ratio_std": 0.02, ...},
     "rows": [{"id": "...", "version": 2, "weight": 1.0}, ...]}

A line for each optimiser step that was applied; `version` is that of the weights after it, that of
a row is the one that sampled it, and `weight` is null where the row was fresh. The store's ledger
says what the loop decided and measured; the two can be held against each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from recollect.canonical import Json, canonical_json
from recollect.integrations.verl.training_row import TrainingRow
from recollect.telemetry.finite import finite, finite_metrics
from recollect.telemetry.sinks.jsonl import truncate_after

FILE_NAME = "updates.jsonl"


class Journal:
    """The updates of one run, in the order in which they were applied.

    `done` is the step that the run goes on from: what was written after it is computed again.
    """

    def __init__(self, folder: Path, done: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / FILE_NAME
        truncate_after(self._path, done)

    def add(
        self,
        step: int,
        version: int,
        rows: Sequence[TrainingRow],
        loss: float,
        grad_norm: float,
        workers: Mapping[str, float],
    ) -> None:
        """Append an update; a kill leaves whole lines and at most one torn tail."""
        line: dict[str, Json] = {
            "step": step,
            "version": version,
            "loss": finite(loss),
            "grad_norm": finite(grad_norm),
            "workers": dict(finite_metrics(workers)),
            "rows": [_row(row) for row in rows],
        }
        with self._path.open("ab", buffering=0) as file:
            file.write(canonical_json(line).encode() + b"\n")


def _row(row: TrainingRow) -> Json:
    weight = float(row.codes.max(initial=0.0))
    return {"id": row.id, "version": row.version, "weight": weight if weight > 0 else None}
