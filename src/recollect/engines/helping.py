"""Every rank but the first: it carries out orders until it is let go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from recollect.config.loading import load_config
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
from recollect.engines.slices import Slices
from recollect.envs.registry import load_environment
from recollect.errors import RankFailed, RankLost, RecollectError
from recollect.models.columns import route
from recollect.models.loading import Policy
from recollect.rollout.collector import Collector
from recollect.train.checkpoint import load_checkpoint
from recollect.train.folder import RunFolder
from recollect.train.guards import Guard
from recollect.train.interrupts import Interrupts
from recollect.train.learner import Learner
from recollect.train.parts import (
    critic_from,
    load_as_is,
    make_collector,
    make_reference,
    policy_from,
)
from recollect.train.ranks import Parameters, Work
from recollect.train.sharding import sum_of_squares


@dataclass(slots=True)
class _Loaded:
    """What a helper works with: a run that trains, or a model that is only played with.

    Its guard never writes; its learner steps only with `slices`.
    """

    policy: Policy
    collector: Collector
    learner: Learner | None = None
    slices: Slices | None = None

    @property
    def parameters(self) -> Parameters:
        return () if self.learner is None else self.learner.parameters

    @property
    def trains(self) -> Learner:
        assert self.learner is not None, "an order to train a model that is only played with"
        return self.learner


def help_out(link: Link) -> None:
    """Carry out the leader's orders until it says that there are no more.

    A signal is passed on to the leader, who decides. What goes wrong here is told to the leader
    and ends the run.
    """
    loaded: _Loaded | None = None
    with Interrupts() as interrupts:
        while True:
            order = link.receive(0)
            if isinstance(order, End):
                link.watch.stop()
                link.send(End(), 0)
                break
            try:
                if isinstance(order, Open | Visit):
                    if loaded is not None:
                        loaded.collector.close()
                    loaded = _load(order, link) if isinstance(order, Open) else _visit(order)
                    shapes = {name: list(p.shape) for name, p in loaded.parameters}
                    link.send(Ready(shapes), 0)
                else:
                    assert loaded is not None, "an order before there is anything to work with"
                    _carry_out(link, order, loaded, lambda: interrupts.signal)
            except RankLost:
                raise
            # The boundary of a process: whatever it was, the others must hear of it.
            except Exception as error:
                why = error.what if isinstance(error, RecollectError) else repr(error)
                _tell(link, loaded, why)
                raise RankFailed(link.rank, why) from error
    if loaded is not None:
        loaded.collector.close()


def _tell(link: Link, loaded: _Loaded | None, why: str) -> None:
    """Let the leader know that we have failed.

    Where weights are cut it may be waiting for us in the middle of a pass, and not listen.
    """
    if loaded is not None and loaded.slices is not None:
        link.watch.tell_failure(RankFailed(link.rank, why).what)
    else:
        link.send(Broken(why), 0)


def _carry_out(
    link: Link,
    order: Play | Compute | Gather | Apply | Lend,
    loaded: _Loaded,
    signal: Callable[[], int | None],
) -> None:
    if isinstance(order, Play):
        if loaded.learner is None:
            _route(loaded.policy, order)
        with _weights(link, loaded):
            found = loaded.collector.collect(order.requests, order.sampling)
        link.send(Played(found, signal()), 0)
    elif isinstance(order, Compute):
        _compute(link, order.work, loaded, signal)
    elif isinstance(order, Gather):
        with _weights(link, loaded):
            pass
    elif isinstance(order, Apply):
        loaded.trains.follow(order.rate, order.scale)
    else:
        with link.passing():
            loaded.trains.lend()


def _route(policy: Policy, order: Play) -> None:
    """Go through the column of a domain; an examination asks for one domain after the other."""
    if policy.columns is not None and order.requests:
        route(policy.model, policy.columns, order.requests[0].task.domain)


def _compute(link: Link, work: Work, loaded: _Loaded, signal: Callable[[], int | None]) -> None:
    """Compute a share of a gradient, and add it to the others'."""
    if loaded.slices is None:
        link.same(loaded.parameters)
    with torch.random.fork_rng():
        torch.manual_seed(work.seed)
        figures = loaded.trains.gradients(work)
    if loaded.slices is None:
        link.send(Computed(figures, signal()), 0)
        link.add_up(loaded.parameters)
    else:
        squares = sum_of_squares(p for _, p in loaded.parameters)
        link.send(Computed(figures, signal(), squares), 0)


@contextmanager
def _weights(link: Link, loaded: _Loaded) -> Iterator[None]:
    """Have the leader's weights inside: as it sends them, or gathered from all slices."""
    if loaded.slices is None:
        link.same(loaded.parameters)
        yield
    else:
        with loaded.slices.whole():
            yield


def _load(order: Open, link: Link) -> _Loaded:
    folder = RunFolder(Path(order.folder))
    config = folder.load()
    checkpoint = None if order.checkpoint is None else load_checkpoint(Path(order.checkpoint))
    environment = load_environment(config.environment.name, **config.environment.options)
    policy = policy_from(config, checkpoint)
    guard = Guard(folder.bad_batches, config.train.max_bad_steps)
    critic, reference = critic_from(config, policy), make_reference(config, policy, checkpoint)
    slices = Slices(link, policy) if config.train.parallel == "fsdp2" else None
    learner = Learner(policy, config, guard, reference, critic, shards=slices)
    if slices is not None and checkpoint is not None:
        learner.restore(checkpoint.folder, 0)  # a helper counts no versions
    return _Loaded(policy, make_collector(config, environment, policy), learner, slices)


def _visit(order: Visit) -> _Loaded:
    config = load_config(Path(order.settings)).config
    environment = load_environment(config.environment.name, **config.environment.options)
    policy = load_as_is(config, order.model)
    policy.model.eval()
    return _Loaded(policy, make_collector(config, environment, policy))
