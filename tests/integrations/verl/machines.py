"""A cluster in this process: workers and players as verl has them, without verl.

Workers get rows as verl's do, cut among them and padded, and call the registered loss as verl
does: on a microbatch, with the counts of the whole step, gradients averaged over workers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from recollect.config.schema.config import Config
from recollect.envs.registry import load_environment
from recollect.integrations.verl.asking import Order, Played
from recollect.integrations.verl.learner import Applied
from recollect.integrations.verl.loss import make_policy_loss
from recollect.integrations.verl.playing import Said, lay_table
from recollect.integrations.verl.training_row import TrainingRow, padding_row
from recollect.models.attention import Span, packed
from recollect.models.loading import Policy
from recollect.randomness import stream
from recollect.rollout.sampler import Row, Sampler
from recollect.train.learner import OPTIMIZER
from recollect.train.optimizer import load_optimizer, make_optimizer, save_optimizer
from recollect.train.parts import make_collector, policy_from
from recollect.types import Sampling


def token_logprobs(policy: Policy, row: TrainingRow, temperature: float) -> torch.Tensor:
    """Log-probs of a response's tokens, by one pass over the row alone."""
    ids = torch.from_numpy(np.concatenate((row.prompt, row.response)))[None]
    with packed([Span(0, ids.shape[1])]):
        logits = policy.model(input_ids=ids, use_cache=False).logits[0].float() / temperature
    first = row.prompt.size
    every = torch.log_softmax(logits[first - 1 : -1], dim=-1)
    return every.gather(1, torch.from_numpy(row.response)[:, None])[:, 0]


class LocalMachines:
    """`workers` training workers that take turns, and a collector in the players' place."""

    def __init__(self, config: Config, workers: int = 1) -> None:
        self.config = config
        self.policy = policy_from(config, None)
        self.workers = workers
        self.losses: list[float] = []
        self.metrics: list[dict[str, float]] = []
        self.trained: list[list[TrainingRow]] = []
        self._loss = make_policy_loss(lambda: config)
        self._parameters = self.policy.trainable()
        self._optimizer = make_optimizer(self._parameters, config.train)

    def play(
        self, orders: Sequence[Order], progress: Callable[[int, int], None]
    ) -> Sequence[Played]:
        environment = load_environment(
            self.config.environment.name, **self.config.environment.options
        )
        collector = make_collector(self.config, environment, self.policy)
        asked = [Order.read(order.text()) for order in orders]  # as if they had travelled
        try:
            found = collector.collect([order.request for order in asked], asked[0].sampling)
        finally:
            collector.close()
        results = {t.id: t for t in found.trajectories}
        lost = {f.request.id: f for f in found.failures}
        turns = [found.turns, *([0] * (len(orders) - 1))]
        return [
            Played.of(results.get(order.request.id) or lost[order.request.id], count)
            for order, count in zip(orders, turns, strict=True)
        ]

    @torch.no_grad()
    def logprobs(self, rows: Sequence[TrainingRow]) -> list[NDArray[np.float32]]:
        temperature = self.config.rollout.temperature
        return [token_logprobs(self.policy, row, temperature).numpy() for row in rows]

    def train(self, rows: Sequence[TrainingRow], rate: float) -> Applied:
        self.trained.append(list(rows))
        filled = [*rows, *([padding_row(1)] * (-len(rows) % self.workers))]
        tokens = float(sum(int(row.mask.sum()) for row in filled))
        info = {
            "dp_size": self.workers,
            "batch_num_tokens": tokens,
            "global_batch_size": len(rows),
        }
        self._optimizer.zero_grad(set_to_none=True)
        total, begun = 0.0, len(self.metrics)
        for worker in range(self.workers):
            for micro in _pairs(filled[worker :: self.workers]):
                loss, told = self._micro(micro, SimpleNamespace(global_batch_info=info))
                (loss / self.workers).backward()
                total += float(loss.detach()) / self.workers
                self.metrics.append(told)
        norm = float(
            torch.nn.utils.clip_grad_norm_(
                [p for _, p in self._parameters], self.config.train.max_grad_norm
            )
        )
        if np.isfinite(norm):
            for group in self._optimizer.param_groups:
                group["lr"] = rate
            self._optimizer.step()
        self.losses.append(total)
        names = self.metrics[-1] if filled else {}
        said = {
            name: float(np.mean([told[name] for told in self.metrics[begun:]])) for name in names
        }
        return Applied(total, norm, said)

    def save(self, folder: Path) -> None:
        self.policy.save(folder)
        save_optimizer(self._optimizer, self._parameters, folder / OPTIMIZER)

    def load(self, folder: Path) -> None:
        from safetensors.torch import load_file

        self.policy.model.load_state_dict(load_file(folder / "model.safetensors"))
        load_optimizer(self._optimizer, self._parameters, folder / OPTIMIZER)

    def _micro(self, rows: Sequence[TrainingRow], config: Any) -> tuple[torch.Tensor, Any]:
        width = max(row.response.size for row in rows)
        temperature = self.config.rollout.temperature

        def padded(parts: Sequence[Any]) -> torch.Tensor:
            tensors = [torch.as_tensor(part) for part in parts]
            return torch.stack(
                [torch.nn.functional.pad(t, (0, width - t.numel())) for t in tensors]
            )

        return self._loss(
            old_log_prob=padded([row.old for row in rows]),
            log_prob=padded([token_logprobs(self.policy, row, temperature) for row in rows]),
            advantages=padded([row.advantages for row in rows]),
            response_mask=padded([row.mask for row in rows]).bool(),
            loss_agg_mode="token-mean",
            config=config,
            rollout_is_weights=padded([row.codes for row in rows]),
        )


class TableMachines(LocalMachines):
    """Players who play at a table, with a server of their own, as verl's agent loop does."""

    def play(
        self, orders: Sequence[Order], progress: Callable[[int, int], None]
    ) -> Sequence[Played]:
        table = lay_table(self.config)

        async def speak(prompt: list[int], settings: dict[str, Any]) -> Said:
            chance = stream(settings["seed"], "server").random(settings["max_tokens"])
            row = Row(prompt, chance, settings["max_tokens"])
            sampler = Sampler(self.policy.model, settings["stop_token_ids"], 4)
            sampling = Sampling(settings["temperature"])
            sampler.run([row], sampling, lambda rows: [setattr(r, "done", True) for r in rows])
            return Said(row.turn, row.logprobs, orders[0].weights)

        async def every() -> list[Played]:
            return [await table.play(order, speak) for order in orders]

        try:
            return asyncio.run(every())
        finally:
            table.close()


def _pairs(rows: Sequence[TrainingRow]) -> list[Sequence[TrainingRow]]:
    return [rows[first : first + 2] for first in range(0, len(rows), 2)]
