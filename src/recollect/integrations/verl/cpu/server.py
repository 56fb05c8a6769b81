"""A rollout server for verl on a CPU: our own sampler behind verl's interface."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput
from verl.workers.rollout.utils import ensure_async_iterator

from recollect.canonical import canonical_json
from recollect.integrations.verl.loss import RUN_VARIABLE
from recollect.integrations.verl.workplace import Workplace
from recollect.models.loading import load_policy
from recollect.randomness import stream
from recollect.rollout.sampler import Row, Sampler
from recollect.types import Sampling

_NAME = "recollect_cpu_server"
_GATHER_SECONDS = 0.05  # requests that come within are sampled together
_CONCURRENCY = 1000


@dataclass(slots=True, eq=False)
class _Waiting:
    row: Row
    sampling: Sampling
    answer: asyncio.Future[TokenOutput]


class CpuServer:
    """Samples for whoever asks, many at a time, with weights that trainers send.

    A request is answered the same whoever else is in its batch, up to rounding: its chance is its
    own, from the seed in its sampling settings. How far the weights moved with each version stands
    in `log`, where one is given.
    """

    def __init__(self, path: str, batch_rows: int, log: Path | None = None) -> None:
        torch.set_num_threads(1)
        self._policy = load_policy(path, dtype="float32", device="cpu")
        self._batch_rows = batch_rows
        self._waiting: list[_Waiting] = []
        self._busy = asyncio.Lock()
        self._version: int | None = None
        self._log = log

    async def generate(
        self,
        request_id: str,
        prompt_ids: Sequence[int],
        sampling_params: Mapping[str, Any],
        **_: Any,
    ) -> TokenOutput:
        """Sample one turn."""
        limit = int(sampling_params["max_tokens"])
        chance = stream(int(sampling_params["seed"]), "server").random(limit)
        row = Row(list(prompt_ids), chance, limit)
        sampling = Sampling(float(sampling_params["temperature"]))
        answer: asyncio.Future[TokenOutput] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(row, sampling, answer))
        stops = tuple(sampling_params["stop_token_ids"])
        await asyncio.sleep(_GATHER_SECONDS)
        async with self._busy:
            if not answer.done():
                same = [each for each in self._waiting if each.sampling == sampling]
                self._waiting = [each for each in self._waiting if each.sampling != sampling]
                self._sample(same, sampling, stops)
        return await answer

    def _sample(
        self, together: Sequence[_Waiting], sampling: Sampling, stops: Sequence[int]
    ) -> None:
        def end(rows: Sequence[Row]) -> None:
            for row in rows:
                row.done = True

        sampler = Sampler(self._policy.model, stops, self._batch_rows)
        try:
            sampler.run([each.row for each in together], sampling, end)
        except Exception as error:  # whoever asked has to hear of it
            for each in together:
                each.answer.set_exception(RuntimeError(f"the server cannot sample: {error}"))
            return
        for each in together:
            output = TokenOutput(
                token_ids=each.row.turn,
                log_probs=each.row.logprobs,
                stop_reason="completed",
                extra_fields={"global_steps": self._version},
            )
            each.answer.set_result(output)

    async def load(self, weights: Mapping[str, torch.Tensor], version: int | None) -> float:
        """Take new weights over; gives the largest change. An error for names it does not know."""
        async with self._busy:
            own = self._policy.model.state_dict()
            unknown = sorted(set(weights) - set(own))
            if unknown:
                raise KeyError(f"no such weights here: {unknown[:3]}")
            change = 0.0
            with torch.no_grad():
                for name, value in weights.items():
                    change = max(change, float((own[name] - value).abs().max()))
                    own[name].copy_(value)
            self._version = version
        if self._log is not None:
            with self._log.open("a", encoding="utf-8") as file:
                file.write(canonical_json({"version": version, "change": change}) + "\n")
        return change

    async def wake_up(self, *_: Any, **__: Any) -> None:
        """It never sleeps: there is no memory to give back."""

    async def sleep(self, *_: Any, **__: Any) -> None:
        """It never sleeps: there is no memory to give back."""


class CpuReplica(RolloutReplica):  # type: ignore[misc]  # verl is not there to be checked
    """One server for each training worker."""

    async def launch_servers(self) -> None:
        """Start it, under a name that its worker knows."""
        config = self.model_config
        path = config.path if hasattr(config, "path") else config["path"]
        log = Workplace(Path(os.environ[RUN_VARIABLE])).weights(self.replica_rank)
        server = (
            ray.remote(CpuServer)
            .options(
                num_cpus=0.1,
                name=f"{_NAME}_{self.replica_rank}",
                max_concurrency=_CONCURRENCY,
            )
            .remote(path, self.config.max_num_seqs, log)
        )
        self.servers = [server]
        self._server_handle = server
        self._server_address = f"recollect-cpu-{self.replica_rank}"


class CpuServerAdapter(BaseRollout):  # type: ignore[misc]  # verl is not there to be checked
    """The worker's end: sends its weights to its server."""

    def __init__(
        self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1, **_: Any
    ) -> None:
        super().__init__(config, model_config, device_mesh)
        self._rank = int(os.environ["RANK"]) if replica_rank == -1 else replica_rank
        self._server: Any = None
        self.sleep_level = 2

    async def resume(self, tags: list[str]) -> None:
        """There is nothing to wake."""

    async def release(self) -> None:
        """There is nothing to give back."""

    async def update_weights(
        self,
        weights: Any,
        global_steps: int | None = None,
        wire_format: str = "named_tensors",
        **_: Any,
    ) -> None:
        """Gather whole tensors and send them."""
        found: dict[str, torch.Tensor] = {}
        async for name, value in ensure_async_iterator(weights):
            whole = value.full_tensor() if hasattr(value, "full_tensor") else value
            found[name] = whole.detach().cpu().float().clone()
        if self._server is None:
            self._server = ray.get_actor(f"{_NAME}_{self._rank}")
        await self._server.load.remote(found, global_steps)
