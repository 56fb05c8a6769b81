"""Arms: the same configuration, each with settings of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from recollect.config.loading import load_config
from recollect.config.schema.config import Config
from recollect.config.showing import Change, diff
from recollect.config.without_replay import OFF
from recollect.errors import BadComparison

Source: TypeAlias = Path | str | Mapping[str, object] | None

TUNING = "tuning"  # the folder beside those of the arms
# Names of ours: what else stands in a study's folder, and a word of compare.json.
_TAKEN = (TUNING, "compare.json", "compare.csv", "compare.png", "report.html", "setting")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}\Z")
_EXAMPLE = "Write --arm NAME=key=value,key=value; NAME= alone is the configuration as it is."
# Every run has a store of its own: two runs of one name, or two writers, cannot share one.
_OWN_STORE = "store.path=none"
# What is set for every run. A file may say something else, which is for runs by themselves; who
# says it here would be passed over.
_OURS = {
    "run.seed": "Choose the seeds with --first-seed and --seeds.",
    "store.path": "Leave it out: every run has a store of its own, in its folder.",
}
# What arms must have in common: success on other tasks is another measure. Not the environment's
# options: they may do no more than shape the reward.
_EXAM = ("environment.name", "environment.levels", "environment.domains",
         "eval.split", "eval.tasks", "eval.rows", "eval.temperature")  # fmt: skip
# Differ from run to run and say nothing about an arm.
_PLACES = ("run.name", "run.folder", "run.seed")


@dataclass(frozen=True, slots=True)
class Arm:
    """A name, which is also a folder's, and `key=value` settings on top of the configuration."""

    name: str
    settings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.match(self.name) or self.name.lower() in _TAKEN:
            what = f"{self.name[:60]!r} cannot be the name of an arm"
            hint = "Use up to 40 letters, digits and ._- characters"
            raise BadComparison(what, f"{hint}, and none of {', '.join(_TAKEN)}.")

    def tuned(self, settings: Sequence[str]) -> Arm:
        """Put more settings on top."""
        return Arm(self.name, (*self.settings, *settings))


REPLAY = Arm("replay")
TWIN = Arm("twin", OFF)


def parse_arm(text: str) -> Arm:
    """Read `NAME=key=value,key=value`; commas in brackets, braces and quotes divide nothing."""
    name, equals, settings = text.partition("=")
    if not equals:
        raise BadComparison(f"--arm {text[:80]}: there is no = after the arm's name", _EXAMPLE)
    parts = tuple(part for part in divide(settings) if part)
    for part in parts:
        if "=" not in part:
            what = f"--arm {text[:80]}: {part[:60]!r} is not a setting and a value"
            raise BadComparison(what, _EXAMPLE)
    return Arm(name.strip(), parts)


def divide(text: str) -> list[str]:
    """Divide text at commas, but not within brackets, braces or quotes."""
    parts, depth, quote = [""], 0, ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in "[{":
            depth += 1
        elif char in "]}":
            depth -= 1
        if char == "," and not quote and depth <= 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def arm_config(source: Source, settings: Sequence[str], arm: Arm, seed: int) -> Config:
    """Load the configuration of one run of an arm; BadComparison where it sets what is ours."""
    given = [*settings, *arm.settings]
    sources = load_config(source, given).sources
    for key, hint in _OURS.items():
        if sources[key].kind == "flag":
            raise BadComparison(f"{sources[key].text}: a comparison sets {key} itself", hint)
    return load_config(source, [*given, f"run.seed={seed}", _OWN_STORE]).config


def differences(one: Config, other: Config) -> tuple[Change, ...]:
    """List the settings in which two arms differ; where and on what seed they run is none."""
    return tuple(change for change in diff(one, other) if change.key not in _PLACES)


def check_arms(source: Source, settings: Sequence[str], arms: Sequence[Arm]) -> None:
    """Refuse arms that cannot be compared, before anything is trained."""
    if len(arms) < 2:
        raise BadComparison("one arm alone cannot be compared", _EXAMPLE)
    names = [arm.name.lower() for arm in arms]
    if len(set(names)) < len(names):
        what = f"two arms have the same name: {', '.join(arm.name for arm in arms)}"
        raise BadComparison(what, "Give every arm a name of its own.")
    configs = [arm_config(source, settings, arm, 0) for arm in arms]
    check_exams([(arm.name, config) for arm, config in zip(arms, configs, strict=True)])
    for place, config in enumerate(configs):
        for later in range(place + 1, len(configs)):
            if not differences(config, configs[later]):
                _refuse_equal(arms[place], arms[later])


def check_exams(named: Sequence[tuple[str, Config]]) -> None:
    """Refuse configurations of arms that are never examined, or on other tasks than the first."""
    first, reference = named[0]
    for name, config in named:
        if not config.eval.every:
            hint = "Set eval.every to a number of steps: success is what is compared."
            raise BadComparison(f"arm {name} never evaluates (eval.every=0)", hint)
        odd = [change.key for change in differences(reference, config) if change.key in _EXAM]
        if odd:
            pair = f"arms {first} and {name}" if name != first else f"settings of arm {name}"
            what = f"{pair} are not examined alike: {odd[0]}"
            raise BadComparison(what, "Set it for all arms, not for one, and try no values of it.")


def _refuse_equal(one: Arm, other: Arm) -> None:
    what = f"arms {one.name} and {other.name} have the same settings"
    if (one, other) == (REPLAY, TWIN):
        what = "the configuration replays nothing, so it is its own twin"
        hint = "Switch replay on, for example with replay.modes=[buffer]; or name arms with --arm."
        raise BadComparison(what, hint)
    raise BadComparison(what, "Give each --arm a setting in which it differs.")
