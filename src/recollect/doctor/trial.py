"""What to try next: the settings of a new run in which what was found is changed."""

from __future__ import annotations

from collections.abc import Sequence

from recollect.config.loading import load_config
from recollect.config.scalars import spell
from recollect.config.schema.config import Config
from recollect.config.values import values_of
from recollect.config.without_replay import OFF
from recollect.doctor.finding import Change, Finding, first_changes
from recollect.errors import BadConfig


def trial_flags(config: Config, findings: Sequence[Finding]) -> list[str]:
    """Spell the first change of each finding, with what else it needs to be accepted.

    What a configuration refuses is not proposed: a change that is refused by itself comes with the
    finding's further ones, and is left out where that does not help either.
    """
    flags: list[str] = []
    further = {f.changes[0].setting: f.changes[1:] for f in findings if f.changes}
    for first in first_changes(findings):
        rest = further[first.setting]
        for count in range(len(rest) + 1):
            tried = [*flags, *_spelt(config, first), *(each.flag for each in rest[:count])]
            if _accepted(config, tried):
                flags = tried
                break
    return flags


def _spelt(config: Config, change: Change) -> list[str]:
    """Spell a change; without replay, what only replay reads goes too."""
    if change.setting != "replay.modes" or change.to:
        return [change.flag]
    values = values_of(config)
    pairs = ((flag, *flag.split("=", 1)) for flag in OFF)
    return [flag for flag, setting, off in pairs if spell(values[setting]) != off]


def _accepted(config: Config, flags: Sequence[str]) -> bool:
    try:
        load_config(config.model_dump(mode="json"), flags)
    except BadConfig:
        return False
    return True
