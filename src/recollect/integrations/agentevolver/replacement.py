"""Old log-probs of a mixed batch: recorded ones for replayed tokens, current ones for the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from recollect.integrations.agentevolver.failures import RowMismatch

if TYPE_CHECKING:
    from torch import Tensor


class TensorColumns(Protocol):
    """Tensors by name: a dict, a TensorDict, the `batch` of a `DataProto`."""

    def __getitem__(self, name: str, /) -> Tensor:
        """Return a column."""


@dataclass(frozen=True, slots=True, eq=False)
class Replacement:
    """Old log-probs [B, R], and how many replayed tokens got a recorded one, and how many none."""

    old_log_probs: Tensor
    replaced: int
    missing: int


def replace_recorded_old_log_probs(
    batch: TensorColumns,
    current_old_log_prob: Tensor,
    missing: Literal["current", "refuse"] = "current",
) -> Replacement:
    """Put the recorded log-prob where a token is replayed and one was recorded.

    `current_old_log_prob` [B, R] has its rows in the batch's order. Everywhere else the current
    value stays, bit for bit; a replayed token without a recorded one is counted as missing (its
    policy ratio begins at 1), or refused. Never is anything made up.
    """
    import torch

    recorded, known = batch["recorded_old_log_probs"], batch["recorded_mask"].bool()
    if current_old_log_prob.shape != recorded.shape:
        shapes = f"{list(current_old_log_prob.shape)} for {list(recorded.shape)}"
        raise RowMismatch("(all)", f"current old log-probs have shape {shapes} recorded ones")
    replayed = batch["exp_mask"][:, -recorded.shape[1] :].bool()
    lacking = int((replayed & ~known).sum())
    if lacking and missing == "refuse":
        hint = "Leave such rows out (missing_log_probs='drop'), or allow missing='current'."
        raise RowMismatch("(all)", f"{lacking} replayed tokens have no recorded log-prob", hint)
    here = replayed & known
    values = recorded.to(current_old_log_prob)
    old = torch.where(here, values, current_old_log_prob)
    return Replacement(old, int(here.sum()), lacking)
