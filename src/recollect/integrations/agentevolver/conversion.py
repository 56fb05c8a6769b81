"""From samples to the padded tensors that a verl-style trainer takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from recollect.errors import InvalidRecord
from recollect.integrations.agentevolver.sample import Sample

if TYPE_CHECKING:
    import torch

PADDING = ""  # the row id of a line that is nobody's row


@dataclass(frozen=True, slots=True, eq=False)
class PaddedBatch:
    """Columns by name, as a `DataProto` has them: `DataProto.from_dict(batch, non_tensor_batch)`.

    Prompts [B, P] are padded on the left, responses [B, R] on the right.

    - `prompts`, `responses`, `input_ids`, `attention_mask`, `position_ids`: as usual, int64;
    - `loss_mask` int64[B, P+R]: 1 = a token of the policy, and it trains;
    - `response_mask` int64[B, R]: 1 = a response token, those of the environment included;
    - `exp_mask` int64[B, P+R]: 1 = a token of the policy in a replayed row;
    - `recorded_old_log_probs` float32[B, R]: log-probs recorded when the token was sampled, NaN
      (never 0.0) where there is none; `recorded_mask` bool[B, R]: where there is one;
    - `group_ids` int64[B], `reward_scores` float32[B].

    Beside them, as object arrays [B]: `row_ids` (carry them wherever rows go; "" is padding),
    `uid` (the group, for advantages), `task_ids`, and `extras`, one dict for each row.
    """

    batch: dict[str, torch.Tensor]
    non_tensor_batch: dict[str, NDArray[np.object_]]

    def __len__(self) -> int:
        return len(self.non_tensor_batch["row_ids"])


def get_extra(sample: Sample) -> dict[str, Any]:
    """What a row carries beside its tensors."""
    return {
        "row_id": sample.id,
        "task_id": sample.task.id,
        "uid": sample.uid,
        "is_experience_replay": sample.is_experience_replay,
        "policy_version": sample.policy_version,
        "entropy": sample.entropy,
        "has_old_log_probs": sample.logprobs is not None,
    }


def samples_to_dataproto(
    samples: Sequence[Sample],
    pad_token_id: int,
    *,
    max_prompt_length: int | None = None,
    max_response_length: int | None = None,
    multiple_of: int = 1,
    participation: Literal["train", "baseline"] = "train",
) -> PaddedBatch:
    """Pad samples, fresh and replayed alike, into one batch.

    A prompt beyond its limit is refused, a response is cut there, log-probs with it. Lines of
    padding (row id "", nothing trains, a group of their own) fill up to `multiple_of` rows, so
    that no row need be deleted for a world size. With `participation` = "baseline", replayed
    rows count in their group and train nothing (seed 004's position, see docs/agentevolver.md).
    """
    if not samples:
        raise InvalidRecord("samples", "are none: there is no batch to make")
    rows = [_Line.of(s, max_prompt_length, max_response_length, participation) for s in samples]
    rows += [rows[0].as_padding()] * (-len(rows) % multiple_of)
    width_p = max_prompt_length or max(row.prompt.size for row in rows)
    width_r = max_response_length or max(row.response.size for row in rows)
    columns = _columns(rows, width_p, width_r, pad_token_id)
    ids = [row.id for row in rows]
    extras = [*(get_extra(sample) for sample in samples), *({} for _ in ids[len(samples) :])]
    others: dict[str, Sequence[object]] = {
        "row_ids": ids,
        "uid": [row.group for row in rows],
        "task_ids": [*(sample.task.id for sample in samples), *ids[len(samples) :]],
        "extras": extras,
    }
    return PaddedBatch(columns, {name: _objects(column) for name, column in others.items()})


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """One line of a batch before padding; masks and log-probs are over the response."""

    id: str
    group: str
    prompt: NDArray[np.int32]
    response: NDArray[np.int32]
    loss: NDArray[np.bool_]
    replayed: NDArray[np.bool_]
    recorded: NDArray[np.float32]
    reward: float

    @classmethod
    def of(
        cls, sample: Sample, max_prompt: int | None, max_response: int | None, participation: str
    ) -> _Line:
        if max_prompt is not None and sample.prompt_length > max_prompt:
            problem = f"has {sample.prompt_length} tokens, more than {max_prompt}"
            raise InvalidRecord("prompt", problem, sample.id)
        response, mask = sample.response_ids[:max_response], sample.loss_mask[:max_response]
        recorded = np.full(response.size, np.nan, np.float32)
        if sample.logprobs is not None:
            recorded[mask] = sample.logprobs[: int(np.count_nonzero(mask))]
        silent = sample.is_experience_replay and participation == "baseline"
        return cls(
            id=sample.id,
            group=sample.group,
            prompt=sample.prompt_ids,
            response=response,
            loss=np.zeros_like(mask) if silent else mask,
            replayed=mask if sample.is_experience_replay else np.zeros_like(mask),
            recorded=recorded,
            reward=sample.reward,
        )

    def as_padding(self) -> _Line:
        """Make a line that the model can read and nothing learns from."""
        nothing = np.zeros_like(self.loss)
        unknown = np.full(self.recorded.size, np.nan, np.float32)
        tokens = (self.prompt, self.response)
        return _Line(PADDING, "padding", *tokens, nothing, nothing, unknown, 0.0)


def _columns(
    rows: Sequence[_Line], width_p: int, width_r: int, pad: int
) -> dict[str, torch.Tensor]:
    import torch

    prompts = _left([row.prompt for row in rows], width_p, pad)
    responses = _right([row.response for row in rows], width_r, pad)
    seen_p = _left([np.ones(row.prompt.size) for row in rows], width_p, 0)
    seen_r = _right([np.ones(row.response.size) for row in rows], width_r, 0)
    attention = np.concatenate((seen_p, seen_r), axis=1)
    nothing = np.zeros_like(seen_p)
    loss = _right([row.loss for row in rows], width_r, 0)
    replayed = _right([row.replayed for row in rows], width_r, 0)
    recorded = np.full((len(rows), width_r), np.nan, np.float32)
    for line, row in enumerate(rows):
        recorded[line, : row.recorded.size] = row.recorded
    columns: dict[str, NDArray[Any]] = {
        "prompts": prompts,
        "responses": responses,
        "input_ids": np.concatenate((prompts, responses), axis=1),
        "attention_mask": attention,
        "position_ids": np.clip(np.cumsum(attention, axis=1) - 1, 0, None),
        "loss_mask": np.concatenate((nothing, loss), axis=1),
        "response_mask": seen_r,
        "exp_mask": np.concatenate((nothing, replayed), axis=1),
        "recorded_old_log_probs": recorded,
        "recorded_mask": ~np.isnan(recorded),
        "group_ids": np.array([_group_number(row.group) for row in rows], np.int64),
        "reward_scores": np.array([row.reward for row in rows], np.float32),
    }
    return {name: torch.from_numpy(column) for name, column in columns.items()}


def _group_number(group: str) -> int:
    """Number a group the same way in every process; equal numbers mean equal groups."""
    return -1 if group == "padding" else int(group, 16) >> 65


def _left(parts: Sequence[NDArray[Any]], width: int, fill: int) -> NDArray[np.int64]:
    found = np.full((len(parts), width), fill, np.int64)
    for line, part in enumerate(parts):
        found[line, width - part.size :] = part
    return found


def _right(parts: Sequence[NDArray[Any]], width: int, fill: int) -> NDArray[np.int64]:
    found = np.full((len(parts), width), fill, np.int64)
    for line, part in enumerate(parts):
        found[line, : part.size] = part
    return found


def _objects(values: Sequence[object]) -> NDArray[np.object_]:
    found = np.empty(len(values), np.object_)
    found[:] = values
    return found
