"""Adaptation: the limits of replay as they are in a step, moved by rules that can be told.

Three rules, each of which may be off: the capacity of the pool goes by the run's progress, the use
limit by the KL divergence of replayed tokens, and a controller scales everything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from recollect.canonical import Json
from recollect.replay.controller import Controller, Measured, smoothed


@dataclass(frozen=True, slots=True)
class Limits:
    """What holds in a step: oldest age, most uses, most rows (None = no limit), and the level.

    The level in 0..1 multiplies the amount of replay.
    """

    max_age: int | None
    max_uses: int | None
    max_rows: int | None
    level: float = 1.0


@dataclass(frozen=True, slots=True)
class Capacity:
    """The pool holds `rows` until the share `until` of the steps is done."""

    rows: int
    until: float


@dataclass(frozen=True, slots=True)
class UseRule:
    """How often a row may be used: `calm` times below `low`, `moving` times above `high`.

    In between the limit stays as it is, so that it does not flap.
    """

    low: float
    high: float
    calm: int
    moving: int
    memory: float = 0.0


class Adaptation:
    """Moves the limits of one run. Its state belongs into a checkpoint."""

    def __init__(
        self,
        configured: Limits,
        capacity: Capacity | None = None,
        uses: UseRule | None = None,
        controller: Controller | None = None,
    ) -> None:
        self._configured = configured
        self._capacity = capacity
        self._rule = uses
        self._controller = controller
        self._max_uses = configured.max_uses
        self._kl: float | None = None

    def limits(self, step: int, steps: int) -> Limits:
        """Give the limits of a step, of `steps` in all."""
        max_age, max_uses, max_rows = (
            self._configured.max_age,
            self._max_uses,
            self._rows(step, steps),
        )
        level = 1.0 if self._controller is None else self._controller.level
        if level < 1.0:
            max_age = None if max_age is None else max(1, math.floor(level * max_age))
            max_uses = None if max_uses is None else max(1, math.ceil(level * max_uses))
        return Limits(max_age, max_uses, max_rows, level)

    @property
    def most_uses(self) -> int | None:
        """The largest limit of uses that any step may have."""
        most = self._configured.max_uses
        if self._rule is None or most is None:
            return most
        return max(most, self._rule.calm, self._rule.moving)

    def saw(self, measured: Measured | None, in_vain: bool = False) -> list[str]:
        """Take in what a step with replay measured; say what changed and why.

        `in_vain`: it looked for stored rows and found none.
        """
        said = []
        if self._rule is not None and measured is not None:
            said += self._move_uses(self._rule, measured.kl)
        if self._controller is not None:
            told = self._controller.saw(measured, in_vain)
            said += [] if told is None else [told]
        return said

    def state(self) -> dict[str, Json]:
        """Give what a checkpoint keeps."""
        kept: dict[str, Json] = {"max_uses": self._max_uses, "kl": self._kl}
        if self._controller is not None:
            kept["controller"] = self._controller.state()
        return kept

    def restore(self, state: Mapping[str, Json]) -> None:
        """Take the state of a checkpoint back; of rules that are off, nothing."""
        uses, kl, inner = state["max_uses"], state["kl"], state.get("controller")
        if self._rule is not None:
            self._max_uses = None if uses is None else int(str(uses))
            self._kl = None if kl is None else float(str(kl))
        if self._controller is not None and isinstance(inner, Mapping):
            self._controller.restore(inner)

    def _rows(self, step: int, steps: int) -> int | None:
        early = self._capacity
        if early is not None and (step - 1) / steps < early.until:
            return early.rows
        return self._configured.max_rows

    def _move_uses(self, rule: UseRule, kl: float) -> list[str]:
        self._kl = smoothed(self._kl, kl, rule.memory)
        before = self._max_uses
        if self._kl < rule.low:
            self._max_uses = rule.calm
        elif self._kl > rule.high:
            self._max_uses = rule.moving
        if self._max_uses == before:
            return []
        side = f"below {rule.low:g}" if self._kl < rule.low else f"above {rule.high:g}"
        was = "no limit" if before is None else str(before)
        return [f"use limit {was} -> {self._max_uses}: KL {self._kl:.4f} is {side}"]
