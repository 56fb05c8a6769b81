"""One of verl's training workers without Ray: `python worker_process.py RUN OUT` under RANK.

It is told what the driver would tell it, for its share of the rows, and writes what it answers.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

RATE, UPDATES = 0.003, 2


def sample_rows(run: Path) -> list[Any]:
    """The same rows in every process: fresh ones, and some as if an older policy had sampled."""
    from recollect.integrations.verl.training_row import training_row
    from recollect.train.folder import RunFolder
    from train.replays import batch_of, stored
    from train.small import collect_rows, load_small

    config = RunFolder(run).load()
    fresh = collect_rows(load_small(Path(config.model.name)), config)
    picks = [stored(row, n, weight=0.5 + 0.2 * n) for n, row in enumerate(fresh[4:7])]
    return [training_row(row, None) for row in batch_of(fresh[:4], picks).rows]


def answer(run: Path, out: Path) -> None:
    """Load, score, train twice, save."""
    from verl.utils import tensordict_utils as tu

    from recollect.integrations.verl.cluster import Cluster
    from recollect.integrations.verl.launch import compose
    from recollect.integrations.verl.mapping import verl_settings
    from recollect.integrations.verl.sampler import fields_of, responses_of
    from recollect.integrations.verl.training_row import padding_row
    from recollect.integrations.verl.worker import RatedWorker
    from recollect.train.folder import RunFolder

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    settings = verl_settings(RunFolder(run).load(), Cluster(gpus=size, cpu=True), run)
    config = compose(settings, {})
    config.actor_rollout_ref.actor.optim.total_training_steps = 10
    worker = RatedWorker(config.actor_rollout_ref, role="actor")
    worker.init_model()
    rows = sample_rows(run)
    filled = [*rows, *([padding_row(1)] * (-len(rows) % size))]
    share = len(filled) // size
    mine = filled[rank * share : (rank + 1) * share]

    def told(**more: Any) -> Any:
        data = fields_of(mine)
        tu.assign_non_tensor(data, temperature=1.0, calculate_entropy=False, **more)
        return data

    found = worker.compute_log_prob(told(compute_loss=False))
    scores = responses_of(found["log_probs"], fields_of(mine)["response_mask"])
    said: dict[str, Any] = {"logprobs": [each.tolist() for each in scores], "updates": []}
    for _ in range(UPDATES):
        worker.set_learning_rate(RATE)
        output = worker.update_actor(
            told(
                distillation_use_topk=False,
                distillation_only=False,
                global_batch_size=len(rows),
                mini_batch_size=len(filled),
                epochs=1,
                seed=0,
                dataloader_kwargs={"shuffle": False},
            )
        )
        metrics = tu.get(output, "metrics")
        said["updates"].append({k: _plain(v) for k, v in metrics.items() if _is_number(v)})
    worker.save_checkpoint(str(out / "saved"), None, 0, max_ckpt_to_keep=None)
    (out / f"rank{rank}.json").write_text(json.dumps(said))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or (isinstance(value, list) and bool(value))


def _plain(value: Any) -> float:
    import numpy as np

    return float(np.mean(value))


if __name__ == "__main__":
    answer(Path(sys.argv[1]), Path(sys.argv[2]))
