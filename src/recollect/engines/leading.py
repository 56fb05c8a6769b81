"""Rank 0 of several: it hands work out and gathers what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import torch

from recollect.engines.link import Link
from recollect.engines.messages import (
    Apply,
    Broken,
    Compute,
    Computed,
    End,
    Gather,
    Lend,
    Open,
    Play,
    Played,
    Ready,
    Visit,
)
from recollect.engines.shares import cut
from recollect.engines.slices import LedSlices
from recollect.errors import RankFailed
from recollect.models.loading import Policy
from recollect.randomness import stream_seed
from recollect.rollout.collector import Collected, Generator
from recollect.rollout.episode import Request
from recollect.store.records import Provenance
from recollect.train.ranks import ALONE, Parameters, Work
from recollect.train.report import StepFigures
from recollect.types import Sampling

_Answer = TypeVar("_Answer", Ready, Played, Computed)


class Leader:
    """All processes of a run, for the one that leads (see `train.ranks.Ranks`)."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._signal: int | None = None
        self._firsts: list[int] = []  # of each share that is being computed
        self._busy = False
        self._slices: LedSlices | None = None

    @property
    def size(self) -> int:
        """How many processes there are."""
        return self._link.size

    def signal(self) -> int | None:
        """Name the signal that a helper was sent, if any."""
        return self._signal

    def open(self, folder: Path, checkpoint: Path | None) -> None:
        """Have the helpers load the run; they do it while we load ours."""
        self._slices = None
        order = Open(
            str(folder.resolve()), None if checkpoint is None else str(checkpoint.resolve())
        )
        self._order([order] * (self.size - 1))

    def visit(self, settings: Path, model: str) -> None:
        """Have the helpers load a model as it is; they do it while we load ours."""
        self._slices = None
        self._order([Visit(str(settings.resolve()), model)] * (self.size - 1))

    def shard(self, policy: Policy) -> LedSlices:
        """Cut a policy's weights; the helpers do the same once they have loaded theirs."""
        self._slices = LedSlices(self._link, policy, self._tell)
        return self._slices

    def share(self, collector: Generator, parameters: Parameters) -> Generator:
        """Wait until the helpers have loaded what we have, then share attempts with them."""
        shapes = {name: list(p.shape) for name, p in parameters}
        for rank, ready in enumerate(self._answers(Ready), start=1):
            if ready.shapes != shapes:
                raise RankFailed(rank, "it has loaded another model than rank 0")
        self._busy = False
        return SharedCollector(self, collector, parameters)

    def hand_out(self, work: Work, parameters: Parameters) -> Work:
        """Cut the rows by their tokens; the first share is ours."""
        shares = cut([float(row.trajectory.tokens.size) for row in work.rows], self.size)
        self._firsts = [share.start for share in shares[1:]]
        mine, *others = [
            replace(
                work,
                rows=tuple(work.rows[place] for place in share),
                old={
                    row.trajectory.id: work.old[row.trajectory.id]
                    for row in (work.rows[place] for place in share)
                    if row.trajectory.id in work.old
                },
                seed=stream_seed(work.seed, "share", number),
            )
            for number, share in enumerate(shares)
        ]
        self._order([Compute(share) for share in others])
        if self._slices is None:
            self._link.same(parameters)
        return mine

    def add_up(self, parameters: Parameters, figures: StepFigures) -> None:
        """Wait for the helpers, then add their gradients and figures to ours."""
        answers = self._answers(Computed)
        if self._slices is None:
            self._link.add_up(parameters)
        else:  # it is done, by the passes themselves
            self._slices.squares = sum(answer.squares for answer in answers)
        self._busy = False
        for first, answer in zip(self._firsts, answers, strict=True):
            figures.merge(answer.figures, first)
            self._signal = self._signal or answer.signal

    def clip(self, parameters: Sequence[torch.nn.Parameter], most: float) -> float:
        """Scale the gradient down to a norm; it is here, or in everybody's slices."""
        if self._slices is None:
            return ALONE.clip(parameters, most)
        return self._slices.clip(parameters, most)

    def apply(self, rate: float) -> None:
        """Have the helpers step, where they have anything to step."""
        if self._slices is not None:
            self._slices.apply(rate)

    def whole(self) -> AbstractContextManager[None]:
        """Have all weights here."""
        return nullcontext() if self._slices is None else self._slices.whole()

    def lend(self) -> None:
        """Have the helpers hand over what they have."""
        if self._slices is not None:
            self._slices.lend()

    def play(
        self,
        requests: Sequence[Request],
        sampling: Sampling,
        parameters: Parameters,
        own: Callable[[Sequence[Request]], Collected],
    ) -> Collected:
        """Have everybody make a share of some attempts, we by `own`; in the order of requests."""
        mine, *others = [
            tuple(requests[place] for place in share)
            for share in cut([1.0] * len(requests), self.size)
        ]
        self._order([Play(share, sampling) for share in others])
        with self._weights(parameters):
            found = [own(mine)]
        for answer in self._answers(Played):
            found.append(answer.collected)
            self._signal = self._signal or answer.signal
        self._busy = False
        return Collected(
            tuple(t for each in found for t in each.trajectories),
            tuple(f for each in found for f in each.failures),
            sum(each.turns for each in found),
        )

    def end(self, why: str | None) -> None:
        """Let the helpers go; where the run failed, or they are at work, by way of the watch."""
        if why is not None or self._busy:
            self._link.watch.tell_failure(why or "Rank 0 stopped at once.")
            return
        for rank in range(1, self.size):
            self._link.send(End(), rank)
        for rank in range(1, self.size):  # our going must not look like a loss to anybody
            self._link.receive(rank)

    @contextmanager
    def _weights(self, parameters: Parameters) -> Iterator[None]:
        """Have the weights to sample with inside, here and at the helpers."""
        if self._slices is None:
            self._link.same(parameters)
            yield
        else:
            with self._slices.together():
                yield

    def _tell(self, order: Gather | Apply | Lend) -> None:
        """Give an order that has no answer."""
        for rank in range(1, self.size):
            self._link.send(order, rank)

    def _order(self, orders: Sequence[Open | Visit | Play | Compute]) -> None:
        self._busy = True
        for rank, order in enumerate(orders, start=1):
            self._link.send(order, rank)

    def _answers(self, kind: type[_Answer]) -> list[_Answer]:
        found = []
        for rank in range(1, self.size):
            answer = self._link.receive(rank)
            if isinstance(answer, Broken):
                raise RankFailed(rank, answer.why)
            assert isinstance(answer, kind), f"rank {rank} answered {type(answer)}"
            found.append(answer)
        return found


class SharedCollector:
    """A collector that has a share of its attempts made by the other processes.

    Promises what a collector does: an attempt's chance comes from its request, so it is the same
    whoever makes it, up to rounding.
    """

    def __init__(self, leader: Leader, collector: Generator, parameters: Parameters) -> None:
        self._leader = leader
        self._collector = collector
        self._parameters = parameters

    @property
    def fingerprints(self) -> Provenance:
        """What every row carries; only rows with the same may be replayed."""
        return self._collector.fingerprints

    def close(self) -> None:
        """Let go of our own."""
        self._collector.close()

    def collect(
        self,
        requests: Sequence[Request],
        sampling: Sampling,
        progress: Callable[[int, int], None] = lambda done, failed: None,
    ) -> Collected:
        """Play all requests. `progress` hears of our own share, then of all at once."""
        found = self._leader.play(
            requests,
            sampling,
            self._parameters,
            lambda mine: self._collector.collect(mine, sampling, progress),
        )
        progress(len(found.trajectories), len(found.failures))
        return found
