"""The controller: how much replay the policy can bear, from what replayed tokens measured.

One number, the level, between 0 (fresh rows only) and 1 (all that is configured), scales the
amount of replay and its age and use limits together. It falls at once when the effective sample
size or the KL divergence is on the wrong side of its target, and rises slowly when both are well
on the right side; in between it stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from recollect.canonical import Json

_DOWN, _UP = 0.7, 1.15
_LEAST = 0.1  # below this little is left to measure: replay rests
_RETRY = 0.25
_MARGIN = 0.2  # of the way from the target to perfection, before the level rises


@dataclass(frozen=True, slots=True)
class Measured:
    """What the stored rows of a step showed: effective sample size (share) and KL (nats).

    `all_drifted`: they are figures of rows that did not train, because each of those drawn had
    drifted too far.
    """

    ess: float
    kl: float
    all_drifted: bool = False


@dataclass(frozen=True, slots=True)
class Targets:
    """What is to hold: `ess` at least, `kl` at most (None = whatever it is).

    `memory` is the share of the past in the figures; replay rests `rest` steps when it must.
    """

    ess: float
    kl: float | None
    memory: float = 0.0
    rest: int = 1


def smoothed(before: float | None, now: float, memory: float) -> float:
    """Exponential mean of a figure: memory * before + (1 - memory) * now."""
    return now if before is None else memory * before + (1.0 - memory) * now


class Controller:
    """Holds the level; a function of the targets and of what was measured so far."""

    def __init__(self, targets: Targets) -> None:
        self._targets = targets
        self.level = 1.0
        self._ess: float | None = None
        self._kl: float | None = None
        self._resting = 0

    def saw(self, measured: Measured | None, in_vain: bool = False) -> str | None:
        """Take in a step since replay began; say what changed.

        Without anything measured the level rises if rows were looked for `in_vain`, because its
        limits may be what keeps them out; a step that wanted none, or trained none, says nothing.
        """
        before, targets = self.level, self._targets
        if self._resting:
            return self._rest()
        if measured is None:
            if not in_vain:
                return None
            self.level = min(1.0, self.level * _UP)
            return self._told(before, "no stored row could be drawn")
        self._ess = smoothed(self._ess, measured.ess, targets.memory)
        self._kl = smoothed(self._kl, measured.kl, targets.memory)
        figures = f"effective sample size {self._ess:.3f} (target {targets.ess:g})"
        if targets.kl is not None:
            figures += f", KL {self._kl:.4f} (target {targets.kl:g})"
        if measured.all_drifted:
            figures += "; every row that was drawn had drifted beyond correction.drop_above"
        if measured.all_drifted or self._misses_target():
            self.level *= _DOWN
            if self.level < _LEAST:
                self.level, self._resting = 0.0, targets.rest
                figures += f"; fresh rows only for {targets.rest} steps"
        elif self._is_comfortable():
            self.level = min(1.0, self.level * _UP)
        return self._told(before, figures)

    def state(self) -> dict[str, Json]:
        """Give what a checkpoint keeps."""
        return {
            "level": self.level,
            "ess": self._ess,
            "kl": self._kl,
            "resting": self._resting,
        }

    def restore(self, state: Mapping[str, Json]) -> None:
        """Take the state of a checkpoint back."""
        self.level = float(str(state["level"]))
        self._ess, self._kl = _number(state["ess"]), _number(state["kl"])
        self._resting = int(str(state["resting"]))

    def _rest(self) -> str | None:
        self._resting -= 1
        if self._resting:
            return None
        # What was measured before belongs to rows that are older still by now.
        self.level, self._ess, self._kl = _RETRY, None, None
        return self._told(0.0, "replay is tried again")

    def _misses_target(self) -> bool:
        targets = self._targets
        assert self._ess is not None
        assert self._kl is not None
        return self._ess < targets.ess or (targets.kl is not None and self._kl > targets.kl)

    def _is_comfortable(self) -> bool:
        targets = self._targets
        assert self._ess is not None
        assert self._kl is not None
        ess_ok = self._ess >= targets.ess + _MARGIN * (1.0 - targets.ess)
        return ess_ok and (targets.kl is None or self._kl <= (1.0 - _MARGIN) * targets.kl)

    def _told(self, before: float, why: str) -> str | None:
        if self.level == before:
            return None
        return f"replay level {before:.2f} -> {self.level:.2f}: {why}"


def _number(value: Json) -> float | None:
    return None if value is None else float(str(value))
