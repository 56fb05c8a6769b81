"""Rows between our pool and verl's TransferQueue: verl's custom sampler.

verl's own sampler hands finished prompts to the trainer, once. Ours lets the loop take finished
attempts out, which archives them in the pool, and puts rows in that are to train, fresh and
replayed alike, each with its recorded log-probs, its policy version and its group.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import transfer_queue as tq
from numpy.typing import NDArray
from tensordict import NonTensorStack, TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from recollect.errors import ClusterLost
from recollect.integrations.verl.asking import Played
from recollect.integrations.verl.training_row import TrainingRow, padding_row

PLAYED = "train"  # where verl's agent loop workers put what they played
ROWS = "recollect"  # where rows wait that are to train
ANSWER = "recollect"  # the field of an agent loop's output that carries what was played
_POLL_SECONDS = 0.2
_CHECK_SECONDS = 10.0


class PoolSampler(ReplayBuffer):  # type: ignore[misc]  # verl is not there when types are checked
    """All traffic with TransferQueue. Rows are known by key: nothing is matched by place."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._batches = 0
        self._published: KVBatchMeta | None = None

    # -- what was played -------------------------------------------------------------------

    def gather(
        self,
        uids: Sequence[str],
        patience: float,
        check: Callable[[], None],
        progress: Callable[[int, int], None],
    ) -> list[Played]:
        """Wait until every attempt has ended, and take all of them out of the queue.

        `check` is called now and then and raises where players are gone. ClusterLost where
        nothing ends for `patience` seconds.
        """
        found: dict[str, Played] = {}
        moved = checked = time.monotonic()
        while len(found) < len(uids):
            new = self._ended([uid for uid in uids if uid not in found])
            now = time.monotonic()
            if new:
                found.update(new)
                moved = now
                failed = sum(not played.frame for played in found.values())
                progress(len(found) - failed, failed)
                continue
            if now - moved > patience:
                left = len(uids) - len(found)
                raise ClusterLost(f"none of {left} attempts ended within {patience:.0f} s")
            if now - checked > _CHECK_SECONDS:
                check()
                checked = now
            time.sleep(_POLL_SECONDS)
        return [found[uid] for uid in uids]

    def _ended(self, uids: Sequence[str]) -> dict[str, Played]:
        tags = (tq.kv_list(PLAYED) or {}).get(PLAYED, {})
        status = {uid: tags[uid].get("status") for uid in uids if uid in tags}
        found = {
            uid: Played(where="record", reason="the agent loop failed; its worker's log says why")
            for uid, how in status.items()
            if how == "failure"
        }
        done = [uid for uid, how in status.items() if how == "finished"]
        if done:
            keys = [f"{uid}_0_0" for uid in done]
            data = tq.kv_batch_get(keys=keys, partition_id=PLAYED, select_fields=["extra_fields"])
            extra = data.pop("extra_fields").tolist()
            found |= {
                uid: Played(**fields[ANSWER]) for uid, fields in zip(done, extra, strict=True)
            }
        ended = list(found)
        if ended:
            rows = [f"{uid}_0_0" for uid in ended if f"{uid}_0_0" in tags]
            tq.kv_clear(keys=[*ended, *rows], partition_id=PLAYED)
        return found

    # -- what is to train ------------------------------------------------------------------

    def publish(self, rows: Sequence[TrainingRow], workers: int, padding: int) -> KVBatchMeta:
        """Put rows into the queue, and as many without any say as make them divisible."""
        self._batches += 1
        filled = [*rows, *([padding_row(padding)] * (-len(rows) % workers))]
        keys = [f"b{self._batches}r{place}_0_0" for place in range(len(filled))]
        tags = [
            {
                "status": "success",
                "prompt_len": int(row.prompt.size),
                "response_len": int(row.response.size),
                "seq_len": row.length,
                "min_global_steps": row.version,
                "max_global_steps": row.version,
                "trajectory": row.id,
                "group": row.group,
                "is_padding": not row.id,
            }
            for row in filled
        ]
        tq.kv_batch_put(keys=keys, partition_id=ROWS, fields=fields_of(filled), tags=tags)
        self._published = KVBatchMeta(partition_id=ROWS, keys=keys, tags=tags)
        return self._published

    def sample(
        self, global_steps: int, partition_id: str, batch_size: int
    ) -> tuple[KVBatchMeta, dict[str, float]]:
        """Give the batch that was published last: verl's side of the contract."""
        assert self._published is not None, "nothing was published"
        stored = sum(bool(tag["trajectory"]) for tag in self._published.tags)
        return self._published, {"recollect/rows": float(stored)}

    def logprobs(self, batch: KVBatchMeta) -> list[NDArray[np.float32]]:
        """Read what the workers computed for each response of a batch."""
        fields = ["log_probs", "response_mask"]
        data = tq.kv_batch_get(keys=batch.keys, partition_id=ROWS, select_fields=fields)
        return responses_of(data["log_probs"], data["response_mask"])

    def withdraw(self, batch: KVBatchMeta) -> None:
        """Take a batch out of the queue again: the pool has its rows."""
        tq.kv_clear(keys=batch.keys, partition_id=ROWS)
        self._published = None


def responses_of(whole: Any, mask: Any) -> list[NDArray[np.float32]]:
    """Cut the numbers of each response out of those of whole rows; both nested, `mask` the cut."""
    values, ends = whole.values().float(), whole.offsets()[1:].tolist()
    lengths = mask.offsets().diff().tolist()
    # The output at a place predicts the next token.
    return [
        values[end - length - 1 : end - 1].cpu().numpy().astype(np.float32)
        for end, length in zip(ends, lengths, strict=True)
    ]


def fields_of(rows: Sequence[TrainingRow]) -> TensorDict:
    """Rows as verl's workers read them: nested tensors, one entry for each row."""
    inputs = [np.concatenate((row.prompt, row.response)) for row in rows]
    mask = _nested([row.mask for row in rows])
    found = {
        "prompts": _nested([row.prompt for row in rows]),
        "responses": _nested([row.response for row in rows]),
        "response_mask": mask,
        "loss_mask": mask.clone(),
        "input_ids": _nested(inputs),
        "position_ids": _nested([np.arange(ids.size) for ids in inputs]),
        "rollout_log_probs": _nested([row.behaviour for row in rows]),
        "old_log_probs": _nested([row.old for row in rows]),
        "advantages": _nested([row.advantages for row in rows]),
        "rollout_is_weights": _nested([row.codes for row in rows]),
        "uid": NonTensorStack(*[row.group or "padding" for row in rows]),
    }
    return TensorDict(found, batch_size=[len(rows)])


def _nested(parts: Sequence[NDArray[Any]]) -> torch.Tensor:
    tensors = [torch.from_numpy(np.ascontiguousarray(part)) for part in parts]
    return torch.nested.as_nested_tensor(tensors, layout=torch.jagged)
