"""The loop in docs/agentevolver.md, run as it stands there on a pretend host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from integrations.hosts import HostTask, row
from memory import folder_in_memory
from recollect.integrations.agentevolver import HostRow, PaddedBatch
from recollect.store import open_reader
from recollect.types import RunId

PAGE = Path(__file__).resolve().parents[2] / "docs" / "agentevolver.md"
ROWS, BATCH, STEPS, WORLD = 4, 6, 8, 4
TASKS = [HostTask(f"task-{number}") for number in range(12)]


class Host:
    """Rolls out with luck that follows from the step, and moves rows about as a trainer does."""

    def __init__(self, folder: Path, resumed_step: int) -> None:
        self.step = resumed_step
        self.replaced = 0
        self.names: dict[str, Any] = {
            "folder": folder,
            "resumed_step": resumed_step,
            "total_steps": STEPS,
            "save_freq": 1,
            "world_size": WORLD,
            "pad_token_id": 0,
            "tokenizer_fingerprint": "tok-1",
            "train_task_manager": SimpleNamespace(seed_tasks=TASKS),
            "dataloader": self.batches(),
            "rollout": self.rollout,
            "balance_batch": self.balance,
            "compute_log_prob": self.log_prob,
            "update_actor": self.update,
            "save_checkpoint": lambda step: None,
        }

    def batches(self) -> Iterator[list[HostTask]]:
        while True:
            self.step += 1
            order = np.random.default_rng(self.step).permutation(len(TASKS))
            yield [TASKS[number] for number in order[:BATCH]]

    def rollout(self, tasks: list[HostTask]) -> list[HostRow]:
        assert len({task.task_id for task in tasks}) == BATCH
        rows = []
        for slot, task in enumerate(tasks):
            rng = np.random.default_rng([self.step, slot])
            for attempt in range(ROWS - task.metadata.get("n_offpolicy_trajectories", 0)):
                success = bool(rng.random() < 0.4)
                made = row(task.task_id, attempt, success, None, log_probs=False, seed=self.step)
                rows.append(replace(made, data_id=slot))
        return rows

    def balance(self, batch: PaddedBatch) -> PaddedBatch:
        assert len(batch) % WORLD == 0
        order = np.random.default_rng(self.step).permutation(len(batch))
        columns = {name: column[order] for name, column in batch.batch.items()}
        others = {name: column[order] for name, column in batch.non_tensor_batch.items()}
        return PaddedBatch(columns, others)

    def log_prob(self, batch: PaddedBatch) -> dict[str, torch.Tensor]:
        tokens = batch.batch["responses"].double()
        return {
            "old_log_probs": -torch.sin(tokens).abs().float(),
            "entropys": torch.cos(tokens).abs().float(),
        }

    def update(self, batch: PaddedBatch, old_log_probs: torch.Tensor) -> None:
        expected = self.log_prob(batch)["old_log_probs"]  # this policy never changes
        assert torch.equal(old_log_probs, expected)
        self.replaced += int(batch.batch["exp_mask"].sum())


def run(folder: Path, resumed_step: int) -> Host:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    host = Host(folder, resumed_step)
    exec(compile(code, str(PAGE), "exec"), host.names)
    host.names["store"].close()
    return host


def story(folder: Path) -> list[object]:
    with open_reader(folder / "pool.db") as reader:
        assert not list(reader.verify())
        states = sorted((s.task, s.step, s.successes, s.rows, s.retired) for s in states_of(reader))
        return [states, reader.draws(RunId("alfworld-7b")), reader.uses(RunId("alfworld-7b"))]


def states_of(reader: Any) -> list[Any]:
    return list(reader.task_states(RunId("alfworld-7b")))


def test_the_loop_replays_and_repeats_exactly() -> None:
    with folder_in_memory() as one, folder_in_memory() as two:
        assert run(one, 0).replaced > 0
        first = story(one)
        assert len(first[1]) == len(first[2]) > 5
        run(two, 0)
        assert story(two) == first


@pytest.mark.parametrize("resumed", [0, 3, 7])
def test_the_loop_resumes_exactly(resumed: int) -> None:
    with folder_in_memory() as folder:
        run(folder, 0)
        first = story(folder)
        run(folder, resumed)
        assert story(folder) == first
