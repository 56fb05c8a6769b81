"""A whole run in one process: our driver, verl's worker and our CPU server, without Ray.

`python driver_process.py RUN OUT [KILL_AFTER]`. TransferQueue is a dictionary here, calls of
workers and servers are plain calls; everything else is what a cluster runs. It writes down what the
workers were given, and how far the servers' weights moved with each update.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import verl  # noqa: F401  # first of all: it loads the platform
from tensordict import NonTensorStack, TensorDict
from transfer_queue import KVBatchMeta
from verl.utils import tensordict_utils as tu

from recollect.integrations.verl import sampler as sampler_module
from recollect.integrations.verl import trainer as trainer_module
from recollect.integrations.verl.agent_loop import RecollectAgentLoop
from recollect.integrations.verl.cluster import Cluster
from recollect.integrations.verl.cpu.server import CpuServer
from recollect.integrations.verl.engine import ClusterEngine
from recollect.integrations.verl.launch import compose
from recollect.integrations.verl.mapping import verl_settings
from recollect.integrations.verl.sampler import PLAYED, PoolSampler
from recollect.integrations.verl.trainer import RecollectTrainer
from recollect.integrations.verl.worker import RatedWorker
from recollect.integrations.verl.workplace import Workplace
from recollect.telemetry.events import StepFinished
from recollect.train.folder import RunFolder
from recollect.train.loop import train
from recollect.train.session import open_session
from train.small import Recorder

LOOP = asyncio.new_event_loop()  # one for all: the server's lock belongs to it


class Queue:
    """TransferQueue's key-value calls over a dictionary."""

    def __init__(self) -> None:
        self.parts: dict[str, dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {}

    def kv_list(self, partition_id: str) -> dict[str, dict[str, Any]]:
        part = self.parts.get(partition_id, {})
        return {partition_id: {key: dict(tag) for key, (tag, _) in part.items()}}

    def kv_batch_put(
        self, keys: Any, partition_id: str, fields: Any = None, tags: Any = None
    ) -> None:
        part = self.parts.setdefault(partition_id, {})
        for place, key in enumerate(keys):
            tag, row = part.setdefault(key, ({}, {}))
            tag.update(tags[place] if tags else {})
            for name in fields.keys() if fields is not None else ():
                value = fields.get(name)
                row[name] = value[place].data if isinstance(value, NonTensorStack) else value[place]

    def kv_batch_get(self, keys: Any, partition_id: str, select_fields: Any = None) -> Any:
        rows = [self.parts[partition_id][key][1] for key in keys]
        names = select_fields or list(rows[0])
        found: dict[str, Any] = {}
        for name in names:
            values = [row[name] for row in rows]
            if isinstance(values[0], torch.Tensor):
                found[name] = torch.nested.as_nested_tensor(values, layout=torch.jagged)
            else:
                found[name] = NonTensorStack(*values)
        return TensorDict(found, batch_size=[len(rows)])

    def kv_clear(self, keys: Any, partition_id: str) -> None:
        for key in keys:
            del self.parts[partition_id][key]


class Group:
    """A worker group of one worker, which reads from the queue as verl's do."""

    world_size = 1

    def __init__(self, worker: Any, queue: Queue) -> None:
        self._worker = worker
        self._queue = queue
        self.trained: list[list[str]] = []
        self.metrics: list[dict[str, float]] = []

    def _data(self, batch: KVBatchMeta) -> Any:
        data = self._queue.kv_batch_get(batch.keys, batch.partition_id)
        data.pop("log_probs", None)
        tu.assign_non_tensor(data, **batch.extra_info)
        return data

    def compute_log_prob(self, batch: KVBatchMeta) -> None:
        output = self._worker.compute_log_prob(self._data(batch))
        self._queue.kv_batch_put(batch.keys, batch.partition_id, output.select("log_probs"))

    def update_actor(self, batch: KVBatchMeta) -> Any:
        self.trained.append([tag["trajectory"] for tag in batch.tags])
        output = self._worker.update_actor(self._data(batch))
        metrics = tu.get(output, "metrics")
        names = [name for name in metrics if "policy/" in name]
        self.metrics.append({name: float(torch.tensor(metrics[name]).mean()) for name in names})
        return {"metrics": metrics}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._worker, name)


class Servers:
    """The rollout server, its weights, and the agent loop in front of it."""

    def __init__(self, server: CpuServer, worker: Any, queue: Queue) -> None:
        self._server = server
        self._worker = worker
        self._queue = queue
        self.moves: list[float] = []

    def update_weights(self, version: int) -> None:
        parameters, _ = self._worker.actor.engine.get_per_tensor_param()
        found = {
            name: (v.full_tensor() if hasattr(v, "full_tensor") else v).detach().float().clone()
            for name, v in parameters
        }
        self.moves.append(LOOP.run_until_complete(self._server.load(found, version)))

    def sleep_replicas(self) -> None:
        pass

    def generate_sequences(self, batch: Any) -> None:
        async def generate(request_id: str, prompt_ids: Any, sampling_params: Any) -> Any:
            return await self._server.generate(request_id, prompt_ids, sampling_params)

        async def every() -> None:
            client = SimpleNamespace(generate=generate)
            loops = []
            for place in range(len(batch)):
                loop = RecollectAgentLoop(server_manager=client, name="recollect")
                loops.append(loop.run({}, order=batch["order"][place], session_id=0))
            outputs = await asyncio.gather(*loops)
            for uid, output in zip(list(batch["uid"]), outputs, strict=True):
                fields = TensorDict(
                    {"extra_fields": NonTensorStack(output.as_dict()["extra_fields"])},
                    batch_size=[1],
                )
                self._queue.kv_batch_put([f"{uid}_0_0"], PLAYED, fields, [{"status": "success"}])
                self._queue.kv_batch_put([uid], PLAYED, tags=[{"status": "finished"}])

        LOOP.run_until_complete(every())


def main(path: Path, out: Path, kill_after: int) -> None:
    folder = RunFolder(path)
    config = folder.load()
    settings = verl_settings(config, Cluster(cpu=True), path)
    Workplace(path).prepare(Cluster(cpu=True), settings)
    told = compose(settings, {})
    told.actor_rollout_ref.actor.optim.total_training_steps = config.run.steps
    queue = Queue()
    sampler_module.tq = trainer_module.tq = queue
    worker = RatedWorker(told.actor_rollout_ref, role="actor")
    worker.init_model()
    server = LOOP.run_until_complete(_server(config.model.name, config.rollout.batch_rows))
    servers, group = Servers(server, worker, queue), Group(worker, queue)
    trainer = object.__new__(RecollectTrainer)
    rows = PoolSampler("sync", {}, 8, "drop", {})
    trainer.open(told, rows)
    trainer.actor_rollout_wg, trainer.checkpoint_manager = group, servers
    trainer.agent_loop_manager = servers
    trainer.tokenizer = SimpleNamespace(eos_token_id=1)

    def watch(event: Any) -> None:
        if isinstance(event, StepFinished):
            said = {"trained": group.trained, "metrics": group.metrics, "moves": servers.moves}
            (out / "said.json").write_text(json.dumps(said))
            if event.step == kill_after:
                os.kill(os.getpid(), signal.SIGKILL)

    with open_session(folder, {"test": Recorder(watch)}, engine=ClusterEngine(trainer)) as session:
        train(session)
    assert not any(queue.parts.values()), "rows were left in the queue"


async def _server(name: str, rows: int) -> CpuServer:
    return CpuServer(name, rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
