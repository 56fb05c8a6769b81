"""The connection between the processes of a run: messages, weights, sums of gradients."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from recollect.engines import wire
from recollect.engines.watch import Watch
from recollect.errors import RankLost
from recollect.train.ranks import Parameters

# The watch notices who is gone; waiting for somebody who works is no mistake.
_FOREVER = timedelta(days=30)
_JOINING = timedelta(minutes=10)
_BUCKET = 1 << 24  # numbers that travel together
_BROKEN = re.compile(r"gloo|nccl|connection (closed|reset|refused)|broken pipe", re.IGNORECASE)


class Link:
    """One process's end of the connection. RankLost where another process is gone."""

    def __init__(self, patience: float = 60.0) -> None:
        self.rank = int(os.environ["RANK"])
        self.size = int(os.environ["WORLD_SIZE"])
        backend = "gloo"
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", self.rank)))
            backend = "cpu:gloo,cuda:nccl"
        store, _, _ = next(iter(rendezvous("env://", timeout=_JOINING)))
        others = tuple(range(1, self.size)) if self.rank == 0 else (0,)
        self.watch = Watch(store, self.rank, others, patience=patience)
        with self.talking("everybody"):
            dist.init_process_group(
                backend, store=store, rank=self.rank, world_size=self.size, timeout=_FOREVER
            )
        self.watch.start()

    def close(self) -> None:
        """Leave, without waiting for anybody."""
        self.watch.stop()
        if dist.is_initialized():
            dist.destroy_process_group()

    def send(self, record: object, to: int) -> None:
        """Send a record to one process."""
        message = torch.frombuffer(bytearray(wire.encode(record)), dtype=torch.uint8)
        with self.talking(f"rank {to}"):
            dist.send(torch.tensor([message.numel()]), to)
            dist.send(message, to)

    def receive(self, sender: int) -> Any:
        """Wait for a record from one process."""
        size = torch.zeros(1, dtype=torch.int64)
        with self.talking(f"rank {sender}"):
            dist.recv(size, sender)
            message = torch.empty(int(size), dtype=torch.uint8)
            dist.recv(message, sender)
        return wire.decode(message.numpy().tobytes())

    @torch.no_grad()
    def same(self, parameters: Parameters) -> None:
        """Give everybody the leader's weights."""
        for bucket in _buckets([p for _, p in parameters]):
            flat = torch.cat([p.detach().reshape(-1) for p in bucket])
            with self.talking("another rank"):
                dist.broadcast(flat, 0)
            if self.rank:
                for p, part in _parts(bucket, flat):
                    p.copy_(part)

    @torch.no_grad()
    def add_up(self, parameters: Parameters) -> None:
        """Add everybody's gradients up for the leader, in float32.

        A parameter that nobody has a gradient of has none afterwards either.
        """
        device = parameters[0][1].device
        having = torch.tensor([float(p.grad is not None) for _, p in parameters], device=device)
        with self.talking("another rank"):
            dist.reduce(having, 0)
        for bucket in _buckets([p for _, p in parameters]):
            grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket]
            flat = torch.cat([grad.reshape(-1).float() for grad in grads])
            with self.talking("another rank"):
                dist.reduce(flat, 0)
            if self.rank == 0:
                for p, part in _parts(bucket, flat):
                    p.grad = part.to(p.dtype).clone()
        if self.rank == 0:
            for (_, p), count in zip(parameters, having.tolist(), strict=True):
                if not count:
                    p.grad = None

    @contextmanager
    def talking(self, whom: str) -> Iterator[None]:
        """Name who is lost where a connection breaks inside."""
        try:
            yield
        except RuntimeError as error:  # torch has no narrower class for a closed connection
            raise RankLost(self.rank, whom, self.watch.failure() or _short(error)) from error

    @contextmanager
    def passing(self) -> Iterator[None]:
        """As `talking`, around a pass that has collective operations in it: other errors stay."""
        try:
            yield
        except RuntimeError as error:
            if not _is_lost(error):
                raise
            why = self.watch.failure() or _short(error)
            raise RankLost(self.rank, "another rank", why) from error

    def most(self, count: int) -> int:
        """Tell the largest of everybody's counts."""
        found = torch.tensor([count])
        with self.talking("another rank"):
            dist.all_reduce(found, dist.ReduceOp.MAX)
        return int(found)


def _is_lost(error: RuntimeError) -> bool:
    """Tell a broken connection from anything else that goes wrong in a pass."""
    return isinstance(error, dist.DistError) or bool(_BROKEN.search(str(error)))


def _short(error: RuntimeError) -> str:
    """What happened, without the place in torch's source and without its advice."""
    first = str(error).strip().splitlines()[0]
    return re.sub(r"^\[[^]]*\]\s*", "", first).split(". ")[0].rstrip(".") + "."


def _buckets(parameters: Sequence[torch.nn.Parameter]) -> Iterator[list[torch.nn.Parameter]]:
    """Put neighbours of one kind together, up to a size: few large messages are quick."""
    bucket: list[torch.nn.Parameter] = []
    for p in parameters:
        full = sum(each.numel() for each in bucket) + p.numel() > _BUCKET
        if bucket and (full or p.dtype != bucket[0].dtype or p.device != bucket[0].device):
            yield bucket
            bucket = []
        bucket.append(p)
    if bucket:
        yield bucket


def _parts(
    bucket: Sequence[torch.nn.Parameter], flat: torch.Tensor
) -> Iterator[tuple[torch.nn.Parameter, torch.Tensor]]:
    at = 0
    for p in bucket:
        yield p, flat[at : at + p.numel()].view_as(p)
        at += p.numel()
