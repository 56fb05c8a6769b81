"""Every rank but the first: it carries out orders until it is let go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from recollect.engines.link import Link
from recollect.engines.messages import Broken, Compute, Computed, End, Open, Play, Played, Ready
from recollect.envs.registry import load_environment
from recollect.errors import RankFailed, RankLost, RecollectError
from recollect.rollout.collector import Collector
from recollect.train.checkpoint import load_checkpoint
from recollect.train.folder import RunFolder
from recollect.train.guards import Guard
from recollect.train.interrupts import Interrupts
from recollect.train.learner import Learner
from recollect.train.parts import critic_from, make_collector, make_reference, policy_from
from recollect.train.ranks import Parameters


@dataclass(slots=True)
class _Loaded:
    """What a helper works with. Its learner never steps and its guard never writes."""

    learner: Learner
    collector: Collector

    @property
    def parameters(self) -> Parameters:
        return self.learner.parameters


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
                if isinstance(order, Open):
                    if loaded is not None:
                        loaded.collector.close()
                    loaded = _load(order)
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
                link.send(Broken(why), 0)
                raise RankFailed(link.rank, why) from error
    if loaded is not None:
        loaded.collector.close()


def _carry_out(
    link: Link, order: Play | Compute, loaded: _Loaded, signal: Callable[[], int | None]
) -> None:
    link.same(loaded.parameters)
    if isinstance(order, Play):
        found = loaded.collector.collect(order.requests, order.sampling)
        link.send(Played(found, signal()), 0)
        return
    with torch.random.fork_rng():
        torch.manual_seed(order.work.seed)
        figures = loaded.learner.gradients(order.work)
    link.send(Computed(figures, signal()), 0)
    link.add_up(loaded.parameters)


def _load(order: Open) -> _Loaded:
    folder = RunFolder(Path(order.folder))
    config = folder.load()
    checkpoint = None if order.checkpoint is None else load_checkpoint(Path(order.checkpoint))
    environment = load_environment(config.environment.name, **config.environment.options)
    policy = policy_from(config, checkpoint)
    guard = Guard(folder.bad_batches, config.train.max_bad_steps)
    critic, reference = critic_from(config, policy), make_reference(config, policy, checkpoint)
    learner = Learner(policy, config, guard, reference, critic)
    return _Loaded(learner, make_collector(config, environment, policy))
