"""`recollect plan`: what a run will take on this machine, and what replay can save of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.failure import FINDINGS
from recollect.cli.output import count, say, size, waiting, write_json
from recollect.cli.store_option import EXITS_WITH_FINDINGS, JsonOption, examples
from recollect.cli.train import require_training
from recollect.telemetry.spelling import forecast

if TYPE_CHECKING:
    from recollect.doctor.forecast import Forecast

EPILOG = examples(
    "recollect plan demo",
    "recollect plan my.yaml rollout.rows_per_task=16 --steps 5 --json",
    exits=EXITS_WITH_FINDINGS,
)


def plan(
    config: Annotated[str, typer.Argument(help="A preset's name or a YAML file.")],
    settings: Annotated[
        list[str] | None, typer.Argument(help="key=value settings, such as run.steps=20.")
    ] = None,
    steps: Annotated[
        int, typer.Option("--steps", min=1, help="Steps to measure, after one to warm up.")
    ] = 3,
    as_json: JsonOption = False,
) -> None:
    """Measure a few steps here, and say what the run will take and what replay can save.

    The steps are trained without replay in a folder that is removed. With g the share of
    generation, replay saves at most 1/(1-g) in wall-clock, if a stored row teaches as much as a
    fresh one; docs/doctor.md derives it and says what it assumes.
    """
    from recollect.config.loading import load_config
    from recollect.doctor.forecast import forecast

    loaded = load_config(config, settings or [])
    require_training()
    from recollect.doctor.measuring import measure

    with waiting(f"Measuring {count(steps + 1, 'step')}"):
        measured = measure(loaded.config, steps)
    found = forecast(loaded.config, measured, Path(loaded.config.run.folder).absolute())
    if as_json:
        from recollect.cli.documents import document

        plain = document(found)
        assert isinstance(plain, dict)
        write_json(plain | {"seconds": found.seconds, "flags": _flags(found)})
    else:
        _show(found, loaded.name)
    if found.problems:
        raise typer.Exit(FINDINGS)


def _flags(found: Forecast) -> list[str]:
    """Spell the settings that give the recommended replay ratio."""
    if not found.updates:
        return []
    amounts = [f"replay.buffer_updates={found.updates}", f"replay.buffer_rows={found.rows}"]
    return ["replay.modes=[buffer]", *amounts]


def _show(found: Forecast, name: str) -> None:
    m = found.measured
    rollouts = f"{m.generated:.0f} rollouts each, {m.trained:.0f} of them with signal"
    say(f"{name}, {count(m.steps, 'step')} measured: {rollouts}.")
    for label, text in [*_replay_lines(found), *_cost_lines(found)]:
        say(f"  {label:<13} {text}")


def _replay_lines(found: Forecast) -> list[tuple[str, str]]:
    m = found.measured
    generation, training, rest = (100 * part / m.step for part in (m.collect, m.update, m.rest))
    shares = f"{generation:.0f} % generation, {training:.0f} % training, {rest:.0f} % the rest"
    bound = "not known" if found.bound is None else f"at most {found.bound:.2f} times the speed"
    advice = "no replay for the sake of time: a second use of each row would save less than 5 %"
    if not m.trained:
        advice = "not known, since nothing was trained"
    elif found.updates:
        advice = f"replay ratio {found.ratio:.2f}, at most {found.speedup:.2f} times the speed: "
        advice += " ".join(_flags(found))
    assumed = "if stored rows teach as much as fresh ones"
    return [
        ("a step", f"{m.step:.2f} s: {shares}"),
        ("replay gives", f"{bound}: 1/(1-g) with g = {found.share:.2f}, {assumed}"),
        ("recommended", advice),
    ]


def _cost_lines(found: Forecast) -> list[tuple[str, str]]:
    held = found.measured.peak_memory
    memory = "not counted here" if held is None else f"{size(held)} at its peak"
    if found.memory is not None:
        memory += f" of {size(found.memory)}"
    store, saved = size(round(found.store_bytes)), size(round(found.checkpoint_bytes))
    parts = [
        f"{count(found.steps, 'step')} {forecast(found.steps_seconds)}",
        f"{count(found.evaluations, 'evaluation')} {forecast(found.evaluation_seconds)}",
        f"{count(found.checkpoints, 'checkpoint')} {forecast(found.checkpoint_seconds)}",
    ]
    return [
        ("memory", memory),
        ("disk", f"{store} of store, {saved} of checkpoints; {size(found.free)} free"),
        ("the run", f"about {forecast(found.seconds)}: {', '.join(parts)}"),
        *(("problem", problem) for problem in found.problems),
    ]
