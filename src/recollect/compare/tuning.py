"""Finding each arm's strongest setting, with the same budget for every arm.

A gain over an untuned twin means little: a higher learning rate or more epochs on fresh rows may
buy the same. So every arm tries a grid on the same seeds, which are other seeds than the
comparison's, and goes into the comparison with the setting whose success curve over generated
rollouts has the largest area, on average over the tuning seeds. The grid is the same for all arms
unless an arm has axes of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from recollect.canonical import digest
from recollect.compare.arms import TUNING, Arm, Source, arm_config, divide
from recollect.compare.jobs import Job
from recollect.compare.measures import area, common_span, read_curve
from recollect.config.scalars import BadScalar, parse_scalar, spell
from recollect.config.schema.config import Config
from recollect.errors import BadComparison

RATES = (0.5, 1.0, 2.0, 4.0)  # times the configuration's learning rate
EPOCHS = (1, 2, 4)
AWAY = 1000  # tuning seeds begin so far from the first seed of the comparison
_EXAMPLE = "Write --grid key=value,value, for example --grid train.epochs=1,2,4"


@dataclass(frozen=True, slots=True)
class Axis:
    """One setting and the values to try: for every arm, or in the grid of one arm only."""

    key: str
    values: tuple[str, ...]
    arm: str | None = None


@dataclass(frozen=True, slots=True)
class Tuning:
    """What to try and on which seeds; without axes, the default grid around each arm's own."""

    seeds: tuple[int, ...]
    axes: tuple[Axis, ...] = ()


@dataclass(frozen=True, slots=True)
class Trial:
    """One setting of the grid: its area on each tuning seed, None where there is none."""

    settings: tuple[str, ...]
    areas: tuple[float | None, ...]
    diverged: int

    @property
    def score(self) -> float | None:
        """Mean area; None as soon as one seed diverged or has no area: it is not eligible."""
        known = [value for value in self.areas if value is not None]
        if self.diverged or len(known) < len(self.areas):
            return None
        return sum(known) / len(known)


@dataclass(frozen=True, slots=True)
class Tuned:
    """An arm's trials, the best of them, and the settings whose best value ends the grid.

    Beyond an edge something stronger may lie: the arm may be better than it was shown.
    """

    arm: str
    trials: tuple[Trial, ...]
    best: Trial
    edges: tuple[str, ...]


def parse_axis(text: str) -> Axis:
    """Read `key=value,value`, or `ARM:key=value,value` for one arm."""
    name, equals, values = text.partition("=")
    arm, colon, key = name.rpartition(":")
    found = tuple(dict.fromkeys(value for value in divide(values) if value))
    if not equals or not key.strip() or not found or (colon and not arm.strip()):
        raise BadComparison(f"--grid {text[:80]}: this is not a setting and its values", _EXAMPLE)
    return Axis(key.strip(), found, arm.strip() or None)


def axes_of(arm: str, axes: Sequence[Axis]) -> tuple[Axis, ...]:
    """Give the axes of an arm's grid: its own, and the common ones of other settings."""
    own = {axis.key for axis in axes if axis.arm == arm}
    return tuple(
        axis for axis in axes if axis.arm == arm or (axis.arm is None and axis.key not in own)
    )


def default_axes(config: Config) -> tuple[Axis, ...]:
    """Learning rates around the configuration's, and passes over a step's rows."""
    rates = tuple(spell(float(f"{config.train.learning_rate * by:.6g}")) for by in RATES)
    return (
        Axis("train.learning_rate", tuple(dict.fromkeys(rates))),
        Axis("train.epochs", tuple(str(number) for number in EPOCHS)),
    )


def check_tuning(tuning: Tuning, seeds: Sequence[int], arms: Sequence[str]) -> None:
    """Refuse to choose settings on the seeds that judge them, grids of nobody, axes given twice."""
    shared = sorted(set(tuning.seeds) & set(seeds))
    if shared:
        what = f"seeds {shared} would both choose the settings and judge them"
        raise BadComparison(what, "Tune on other seeds than those of the comparison.")
    if not tuning.seeds:
        raise BadComparison("tuning needs a seed", "Give --tune-seeds a number from 1 on.")
    for axis in tuning.axes:
        if axis.key in ("eval.every", "eval.at_start"):
            what = f"--grid {axis.key}: how often a run is examined makes it no better"
            raise BadComparison(what, "Set it for all arms alike, beside --tune.")
        if axis.arm is not None and axis.arm not in arms:
            what = f"--grid {axis.arm}:{axis.key}: there is no arm {axis.arm!r}"
            raise BadComparison(what, f"The arms are {', '.join(arms)}.")
    for arm in arms:
        keys = [axis.key for axis in axes_of(arm, tuning.axes)]
        twice = [key for key in keys if keys.count(key) > 1]
        if twice:
            what = f"the grid of arm {arm} has {twice[0]} twice, and one would hide the other"
            raise BadComparison(what, f"Give all values at once: --grid {twice[0]}=value,value")


class ArmGrid:
    """The tuning runs of one arm."""

    def __init__(
        self, source: Source, settings: Sequence[str], arm: Arm, tuning: Tuning, folder: Path
    ) -> None:
        self.arm = arm
        own = arm_config(source, settings, arm, tuning.seeds[0])
        given = axes_of(arm.name, tuning.axes)
        self.axes = given or default_axes(own)
        # The default rates lie around the arm's own: those take nothing from it.
        _refuse_overriding(arm, given or self.axes[1:])
        names = [axis.key for axis in self.axes]
        choices = product(*(axis.values for axis in self.axes))
        self.points = [
            tuple(f"{name}={value}" for name, value in zip(names, choice, strict=True))
            for choice in choices
        ]
        self.jobs: list[list[Job]] = [
            [
                Job(
                    arm.name,
                    seed,
                    folder / TUNING / arm.name / _folder_name(point) / f"seed-{seed}",
                    arm_config(source, settings, arm.tuned(point), seed),
                )
                for seed in tuning.seeds
            ]
            for point in self.points
        ]

    def choose(self) -> Tuned:
        """Measure the finished runs and take the best; BadComparison if none got to the end."""
        curves = [
            [read_curve(job.path, job.arm, job.seed, diverged=job.diverged) for job in jobs]
            for jobs in self.jobs
        ]
        span = common_span([curve for row in curves for curve in row])
        trials = tuple(
            Trial(
                point,
                tuple(area(curve, span) for curve in row),
                sum(curve.diverged for curve in row),
            )
            for point, row in zip(self.points, curves, strict=True)
        )
        best = _best(self.arm.name, trials)
        return Tuned(self.arm.name, trials, best, _edges(self.axes, best))


def _refuse_overriding(arm: Arm, axes: Sequence[Axis]) -> None:
    """Refuse an axis for all arms that would replace a setting by which this one is what it is."""
    own = {setting.partition("=")[0] for setting in arm.settings}
    for axis in axes:
        if axis.arm is None and axis.key in own:
            what = f"arm {arm.name} sets {axis.key}, and tuning would put other values in its place"
            hint = f"Give it values of its own, --grid {arm.name}:{axis.key}=value,value, beside a "
            hint += "--grid of every other setting that is tuned. Or leave it out of the arm."
            raise BadComparison(what, hint)


def _best(arm: str, trials: Sequence[Trial]) -> Trial:
    """Take the largest score; of equals the first in the order of the grid."""
    scored = [(trial.score, trial) for trial in trials]
    known = [(score, trial) for score, trial in scored if score is not None]
    if not known:
        what = f"no setting of the grid of arm {arm} was trained to the end on all tuning seeds"
        raise BadComparison(what, "Try smaller learning rates with --grid train.learning_rate=...")
    return max(known, key=lambda found: found[0])[1]


def _edges(axes: Sequence[Axis], best: Trial) -> tuple[str, ...]:
    """Settings whose best value is the smallest or largest number tried. A count of 1 is none."""
    found = []
    for axis, setting in zip(axes, best.settings, strict=True):
        numbers = [_number(value) for value in axis.values]
        known = [number for number in numbers if number is not None]
        value = _number(setting.partition("=")[2])
        if value is None or len(known) < len(numbers) or len(known) < 2:
            continue
        if value == max(known) or (value == min(known) and not _is_one(value, axis)):
            found.append(setting)
    return tuple(found)


def _is_one(value: float, axis: Axis) -> bool:
    """Tell whether nothing smaller exists: 1 among whole numbers."""
    return value == 1 and all("." not in text and "e" not in text.lower() for text in axis.values)


def _number(text: str) -> float | None:
    try:
        value = parse_scalar(text)
    except BadScalar:
        return None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _folder_name(point: Sequence[str]) -> str:
    plain = "_".join(point).replace("=", "-")
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", plain).strip("._-")
    # 1e-1 and 1e+1 must not share a folder.
    whole = name == plain and len(name) <= 120
    return name if whole else f"{name[:80]}-{digest(*point)[:12]}"
