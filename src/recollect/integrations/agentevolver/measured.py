"""Values that a pass over a padded batch found, given back to the rows they belong to: by id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.integrations.agentevolver.failures import RowMismatch
from recollect.integrations.agentevolver.sample import Sample
from recollect.trajectory import Floats, Mask


class Measured:
    """Columns [rows, width] over response tokens, and the id of the row in each line.

    Lines may stand in any order. A line with the id "" is padding; of lines that repeat an id
    the first counts; a row without a line was dropped on the way, and its values stay unknown.
    Columns are arrays or tensors of any device and float type.
    """

    def __init__(
        self,
        row_ids: Sequence[str],
        *,
        old_log_probs: Any = None,
        entropys: Any = None,
        response_mask: Any = None,
        responses: Any = None,
    ) -> None:
        self._lines: dict[str, int] = {}
        for line, id_ in enumerate(row_ids):
            if id_:
                self._lines.setdefault(str(id_), line)
        self._log_probs = _column("old_log_probs", old_log_probs, len(row_ids))
        self._entropies = _column("entropys", entropys, len(row_ids))
        self._mask = _column("response_mask", response_mask, len(row_ids))
        self._responses = _column("responses", responses, len(row_ids))

    def fill(self, sample: Sample) -> Sample:
        """Give a sample what was measured of it; RowMismatch where the line is another row's."""
        line = self._lines.get(sample.id)
        if line is None:
            return sample
        self._check(sample, line)
        return sample.with_values(
            _sampled(self._log_probs, line, sample.loss_mask),
            _sampled(self._entropies, line, sample.loss_mask),
        )

    def _check(self, sample: Sample, line: int) -> None:
        """Compare what can be compared: token ids, and that the policy's tokens are no padding."""
        if self._responses is not None:
            width = min(self._responses.shape[1], sample.response_ids.size)
            if not np.array_equal(self._responses[line, :width], sample.response_ids[:width]):
                raise RowMismatch(sample.id, "its line in `responses` holds other tokens")
        if self._mask is not None:
            width = min(self._mask.shape[1], sample.loss_mask.size)
            if not self._mask[line, :width][sample.loss_mask[:width]].all():
                raise RowMismatch(sample.id, "`response_mask` leaves out tokens that it sampled")


def _column(name: str, given: Any, rows: int) -> NDArray[Any] | None:
    if given is None:
        return None
    if hasattr(given, "detach"):  # a tensor; numpy has no bfloat16
        given = given.detach().cpu()
        given = (given.float() if given.is_floating_point() else given).numpy()
    found = np.asarray(given)
    if found.ndim != 2 or found.shape[0] != rows:
        problem = f"`{name}` has shape {list(found.shape)} for {rows} row ids"
        raise RowMismatch("(all)", problem)
    return found


def _sampled(column: NDArray[Any] | None, line: int, mask: Mask) -> Floats | None:
    """Pick the values of sampled tokens; None where the batch was cut before the last of them."""
    if column is None or mask[column.shape[1] :].any():
        return None
    width = min(column.shape[1], mask.size)
    return column[line, :width][mask[:width]].astype(np.float32)
