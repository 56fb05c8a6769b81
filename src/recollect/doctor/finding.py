"""A finding: what is wrong, the figures that show it, and the settings to change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from recollect.canonical import Json
from recollect.config.scalars import spell
from recollect.config.schema.config import Config
from recollect.config.values import values_of

Area: TypeAlias = Literal["replay", "stability", "learning", "memory", "speed", "health"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One figure: a metric by its name, or what was counted in the store, and of which steps."""

    what: str
    value: float
    first: int | None = None
    last: int | None = None

    @property
    def steps(self) -> str:
        """Spell the steps: `step 3`, `steps 3-9`, nothing where there are none."""
        if self.first is None:
            return ""
        if self.last is None or self.last == self.first:
            return f"step {self.first}"
        return f"steps {self.first}-{self.last}"


@dataclass(frozen=True, slots=True)
class Change:
    """A setting to change: its value in the run, the value to try, and why that one."""

    setting: str
    now: Json
    to: Json
    why: str

    @property
    def flag(self) -> str:
        """Spell the change as the command line takes it."""
        return f"{self.setting}={spell(self.to).replace(', ', ',')}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `name` never changes, `what` says it with the run's figures."""

    area: Area
    name: str
    what: str
    evidence: tuple[Evidence, ...]
    changes: tuple[Change, ...] = ()


def change(config: Config, setting: str, to: Json, why: str) -> Change:
    """Make a change of a configuration's setting; the value as it is now is looked up."""
    return Change(setting, values_of(config)[setting], to, why)


def first_changes(findings: Sequence[Finding]) -> list[Change]:
    """Choose the first change of each finding, as far as they go together in one run.

    Of two of one setting the later stands. Without replay its own settings would change nothing.
    """
    found = {each.setting: each for finding in findings for each in finding.changes[:1]}
    modes = found.get("replay.modes")
    if modes is None or modes.to:
        return list(found.values())
    rooms = ("replay.", "pool.", "draw.", "correction.", "adapt.")
    return [each for each in found.values() if each is modes or not each.setting.startswith(rooms)]
