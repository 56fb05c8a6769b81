"""A scored row as verl's workers get it: plain arrays, cut into prompt and response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect.integrations.verl.loss import DISTILLED, FRESH, STRIPPED
from recollect.train.batch import ScoredRow
from recollect.train.stripped import is_stripped

_SMALLEST = float(np.finfo(np.float32).tiny)  # a priority weight of 0 still is a replayed row's


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRow:
    """One row. `prompt` ends before the first sampled token, `response` with the last one.

    All but the prompt are as long as the response; `mask` marks what was sampled, and the numbers
    are 0 outside it. `id` and `group` are ours, `version` is that of the policy that sampled.
    """

    id: str
    group: str
    version: int
    prompt: NDArray[np.int64]
    response: NDArray[np.int64]
    mask: NDArray[np.int64]
    behaviour: NDArray[np.float32]
    old: NDArray[np.float32]
    advantages: NDArray[np.float32]
    codes: NDArray[np.float32]

    @property
    def length(self) -> int:
        """Tokens in all."""
        return int(self.prompt.size + self.response.size)


def training_row(
    row: ScoredRow, old: NDArray[np.float32] | None, distilled: bool = False
) -> TrainingRow:
    """Cut a scored row; `old` are log-probs that stand in for the recorded ones."""
    trajectory = row.trajectory
    sampled = np.flatnonzero(trajectory.sampled)
    first, end = int(sampled[0]), int(sampled[-1]) + 1
    mask = trajectory.sampled[first:end]
    recorded = trajectory.logprobs if trajectory.logprobs is not None else old
    assert recorded is not None, "rows without log-probs need some to stand in"
    return TrainingRow(
        id=trajectory.id,
        group=row.pick.group if row.pick is not None else trajectory.group,
        version=trajectory.policy_version or 0,
        prompt=trajectory.tokens[:first].astype(np.int64),
        response=trajectory.tokens[first:end].astype(np.int64),
        mask=mask.astype(np.int64),
        behaviour=_spread(recorded, mask),
        old=_spread(recorded if old is None else old, mask),
        advantages=np.where(mask, np.float32(row.advantage), np.float32(0)),
        codes=np.where(mask, np.float32(_code(row, distilled)), np.float32(0)),
    )


def padding_row(token: int) -> TrainingRow:
    """A row of two tokens without any say, which makes a batch divisible among workers."""
    one, none = np.array([token], np.int64), np.zeros(1, np.float32)
    nothing = np.zeros(1, np.int64)
    return TrainingRow("", "", 0, one, one, nothing, none, none, none, none)


def _code(row: ScoredRow, distilled: bool) -> float:
    if row.pick is not None:
        return max(row.pick.weight, _SMALLEST)
    if not is_stripped(row):
        return FRESH
    return DISTILLED if distilled else STRIPPED


def _spread(values: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[Any]:
    """Put numbers of sampled tokens where those stand."""
    found = np.zeros(mask.size, np.float32)
    found[mask] = values
    return found
