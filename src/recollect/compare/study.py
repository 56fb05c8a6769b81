"""A study: every arm on every seed, as ordinary runs, and what they show.

    from recollect.compare.arms import REPLAY, TWIN
    from recollect.compare.study import run_study, write_study

    study = run_study([REPLAY, TWIN], range(5), Path("compare/demo"), source="demo",
                      settings=["replay.modes=[buffer]"])
    study.comparison.rollouts.medians.point     # twin's rollouts to the target / replay's
    write_study(study)                          # compare.json, report.html, compare.png

The first arm is the one under test, the last one the baseline.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

from recollect.compare.arms import Arm, Source, arm_config, check_arms, check_exams
from recollect.compare.comparison import ArmSummary, Comparison, compare, summarise_arm
from recollect.compare.jobs import Job, Launch, Tell, run_jobs
from recollect.compare.measures import (
    Measures,
    RunCurve,
    Span,
    common_span,
    measure,
    read_curve,
)
from recollect.compare.process import process_launch
from recollect.compare.tuning import ArmGrid, Tuned, Tuning, check_tuning
from recollect.config.schema.config import Config
from recollect.errors import BadComparison
from recollect.redaction import redact


@dataclass(frozen=True, slots=True)
class ArmResult:
    """One arm: with its settings (the tuned ones included), its runs in order of seeds."""

    arm: Arm
    config: Config
    curves: tuple[RunCurve, ...]
    runs: tuple[Measures, ...]
    summary: ArmSummary
    tuned: Tuned | None


@dataclass(frozen=True, slots=True)
class Study:
    """What was compared and what came out. `comparisons` has every arm but the last."""

    folder: Path
    source: str
    settings: tuple[str, ...]
    seeds: tuple[int, ...]
    tuning_seeds: tuple[int, ...]
    target: float
    jobs: int
    command: str
    span: Span
    arms: tuple[ArmResult, ...]
    comparisons: tuple[Comparison, ...]

    @property
    def comparison(self) -> Comparison:
        """The arm under test beside the baseline."""
        return self.comparisons[0]

    @property
    def tuned(self) -> bool:
        """Tell whether every arm was brought to its best first."""
        return all(result.tuned is not None for result in self.arms)


def run_study(
    arms: Sequence[Arm],
    seeds: Sequence[int],
    folder: Path,
    *,
    source: Source = None,
    settings: Sequence[str] = (),
    target: float = 0.8,
    tuning: Tuning | None = None,
    jobs: int = 1,
    command: str = "",
    tell: Tell = lambda standing: None,
    launch: Launch | None = None,
) -> Study:
    """Train what is not trained yet, then measure.

    Runs stand in FOLDER/ARM/seed-N, those of tuning in FOLDER/tuning. `jobs` runs are trained
    at a time, each in a process of its own. Raises BadComparison, ComparisonFailed and
    ComparisonStopped; after the last two the same call goes on where it was.
    """
    start = launch or process_launch(jobs)
    _check(arms, seeds, source, settings, target)
    tuned: dict[str, Tuned] = {}
    if tuning is not None:
        check_tuning(tuning, seeds, [arm.name for arm in arms])
        grids = [ArmGrid(source, settings, arm, tuning, folder) for arm in arms]
        run_jobs(_trials(grids), start, parallel=jobs, tell=tell)
        tuned = {grid.arm.name: grid.choose() for grid in grids}
    final = [arm.tuned(tuned[arm.name].best.settings) if tuned else arm for arm in arms]
    planned = [_runs(arm, seeds, folder, source, settings) for arm in final]
    run_jobs(_in_turn(planned), start, parallel=jobs, tell=tell)
    curves = [
        tuple(read_curve(job.path, job.arm, job.seed, diverged=job.diverged) for job in row)
        for row in planned
    ]
    span = common_span([curve for row in curves for curve in row])
    results = tuple(
        _result(arm, row[0].config, found, target, span, tuned.get(arm.name))
        for arm, row, found in zip(final, planned, curves, strict=True)
    )
    return Study(
        folder=folder,
        source=str(source) if isinstance(source, str | Path) else "",
        settings=tuple(settings),
        seeds=tuple(seeds),
        tuning_seeds=tuning.seeds if tuning is not None else (),
        target=target,
        jobs=jobs,
        command=redact(command or shlex.join(["python", *sys.argv])),
        span=span,
        arms=results,
        comparisons=tuple(compare(a.runs, results[-1].runs, span) for a in results[:-1]),
    )


def _runs(
    arm: Arm, seeds: Sequence[int], folder: Path, source: Source, settings: Sequence[str]
) -> list[Job]:
    """Plan the runs of an arm, one for each seed."""
    place = folder / arm.name
    return [
        Job(arm.name, seed, place / f"seed-{seed}", arm_config(source, settings, arm, seed))
        for seed in seeds
    ]


def write_study(study: Study) -> tuple[Path, ...]:
    """Write compare.json, report.html and a picture into the study's folder; return their paths.

    Without the extra `plot` there is no picture; the report has its own.
    """
    from recollect.compare.document import write_document
    from recollect.compare.picture import write_picture
    from recollect.compare.report import write_report

    written = (write_document(study), write_report(study), write_picture(study))
    return tuple(path for path in written if path is not None)


def _check(
    arms: Sequence[Arm],
    seeds: Sequence[int],
    source: Source,
    settings: Sequence[str],
    target: float,
) -> None:
    if not seeds or len(set(seeds)) < len(seeds):
        raise BadComparison("there is no seed, or one occurs twice", "Give --seeds from 1 on.")
    if not 0 < target <= 1:
        what = f"a target of {target:g} is no success rate"
        raise BadComparison(what, "Give --target a share above 0 and up to 1, such as 0.8.")
    check_arms(source, settings, arms)


def _result(
    arm: Arm,
    config: Config,
    curves: tuple[RunCurve, ...],
    target: float,
    span: Span,
    tuned: Tuned | None,
) -> ArmResult:
    runs = tuple(measure(curve, target, span) for curve in curves)
    return ArmResult(arm, config, curves, runs, summarise_arm(runs), tuned)


def _trials(grids: Sequence[ArmGrid]) -> list[Job]:
    """List the runs of tuning; BadComparison where a setting to try would change the exam."""
    rows = [list(chain.from_iterable(grid.jobs)) for grid in grids]
    check_exams([(job.arm, job.config) for row in rows for job in row])
    return _in_turn(rows)


def _in_turn(rows: Sequence[Sequence[Job]]) -> list[Job]:
    """Take one job of each arm in turn, so that a machine that gets slower hurts all alike."""
    return [job for turn in zip_longest(*rows) for job in turn if job is not None]
