"""Guards: a loss or gradient that is not finite never reaches the weights."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

from recollect.canonical import canonical_json
from recollect.errors import BadFile, RecollectError, TrainingDiverged
from recollect.store import codec
from recollect.train.batch import ScoredRow


class Guard:
    """Decides whether an update may be applied; stops the run after too many in a row may not.

    The rows of a refused update are saved in `folder`, to be looked at and tried again
    (`read_bad_batch`). `in_a_row` counts the updates refused since the last one that was not.
    """

    def __init__(self, folder: Path, max_in_a_row: int) -> None:
        self._folder = folder
        self._max = max_in_a_row
        self._step = 0
        self._refused_in_step = 0
        self.in_a_row = 0

    def allows(self, step: int, loss: float, grad_norm: float, rows: Sequence[ScoredRow]) -> bool:
        """Tell whether loss and gradient norm are finite; TrainingDiverged if too often not."""
        if math.isfinite(loss) and math.isfinite(grad_norm):
            self.in_a_row = 0
            return True
        self.in_a_row += 1
        self._refused_in_step = 1 + (self._refused_in_step if step == self._step else 0)
        self._step = step
        path = self._folder / f"step_{step:06d}_{self._refused_in_step}.frames"
        _save(path, step, loss, grad_norm, rows)
        if self.in_a_row >= self._max:
            raise TrainingDiverged(step, self.in_a_row, path)
        return False


def read_bad_batch(path: Path) -> list[ScoredRow]:
    """Read the rows of a refused update back, with the advantages they had."""
    try:
        noted = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        data, at, rows = path.read_bytes(), 0, []
        for entry in noted["rows"]:
            size = int.from_bytes(data[at : at + 8], "little")
            trajectory = codec.decode(data[at + 8 : at + 8 + size])
            rows.append(ScoredRow(trajectory, float(entry["advantage"]), True))
            at += 8 + size
    except (OSError, ValueError, KeyError, TypeError, RecollectError) as error:
        raise BadFile(path, f"cannot be read as a saved batch ({error})") from error
    return rows


def _save(path: Path, step: int, loss: float, grad_norm: float, rows: Sequence[ScoredRow]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for row in rows:
            frame = codec.encode(row.trajectory)
            file.write(len(frame).to_bytes(8, "little") + frame)
    # As text, because JSON has no word for what brought us here.
    noted = {
        "step": step,
        "loss": str(loss),
        "grad_norm": str(grad_norm),
        "rows": [{"id": row.trajectory.id, "advantage": str(row.advantage)} for row in rows],
    }
    path.with_suffix(".json").write_text(canonical_json(noted), encoding="utf-8")
