"""The generator of a run under verl: requests go to its players, trajectories come back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from recollect.integrations.verl.asking import Order, Played
from recollect.rollout.collector import Collected
from recollect.rollout.episode import Request
from recollect.rollout.round import Failure
from recollect.store.records import Provenance
from recollect.trajectory import Trajectory
from recollect.types import Sampling


class Players(Protocol):
    """Whoever plays orders: verl's agent loop workers and rollout servers."""

    def play(
        self, orders: Sequence[Order], progress: Callable[[int, int], None]
    ) -> Sequence[Played]:
        """Play all orders with the weights they name; results in the order of the orders.

        `progress` is told how many are done and how many failed. Raises ClusterLost where a
        player is gone or nothing happens for too long.
        """


class ClusterGenerator:
    """Turns requests into rows on a cluster, sampled by the learner's newest weights."""

    def __init__(
        self, players: Players, fingerprints: Provenance, version: Callable[[], int]
    ) -> None:
        self._players = players
        self._fingerprints = fingerprints
        self._version = version

    @property
    def fingerprints(self) -> Provenance:
        """What every row carries; only rows with the same may be replayed."""
        return self._fingerprints

    def collect(
        self,
        requests: Sequence[Request],
        sampling: Sampling,
        progress: Callable[[int, int], None] = lambda done, failed: None,
    ) -> Collected:
        """Play all requests; results stand in their order, joined by id."""
        weights = self._version()
        orders = [Order(request, sampling, weights) for request in requests]
        played = self._players.play(orders, progress) if orders else ()
        results: list[Trajectory | Failure] = [
            each.result(request) for each, request in zip(played, requests, strict=True)
        ]
        return Collected(
            tuple(found for found in results if isinstance(found, Trajectory)),
            tuple(found for found in results if isinstance(found, Failure)),
            sum(each.turns for each in played),
        )

    def close(self) -> None:
        """Nothing is held here."""
