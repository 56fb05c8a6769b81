"""What takes the time, and what of it is neither generation nor training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from recollect.canonical import Json
from recollect.doctor.finding import Change, Evidence, Finding, change
from recollect.doctor.history import History, of_steps, total
from recollect.telemetry.names import STEP_PHASES

_SHARE = 0.2  # of a step, that storing or choosing may take
_EVALUATING = 0.4  # of the time of steps and evaluations
_SECONDS = 0.05  # a step: below it nobody waits


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of a mean step by phase, and the seconds of evaluation that come to a step."""

    phases: dict[str, float]
    evaluating: float

    @property
    def step(self) -> float:
        """The whole step."""
        return sum(self.phases.values())

    def share(self, *phases: str) -> float:
        """Share of a step that some phases take."""
        return sum(self.phases[phase] for phase in phases) / self.step if self.step else 0.0


def times_of(history: History) -> Times:
    """Average the phases of the last steps, and the evaluations among them."""
    lines = history.recent
    phases = {phase: total(lines, f"time/{phase}") / len(lines) for phase in STEP_PHASES}
    evaluated = [each.seconds or 0.0 for each in history.evaluations if each.step >= lines[0].step]
    return Times(phases, sum(evaluated) / len(lines))


def speed_findings(history: History) -> Iterator[Finding]:
    """Yield what slows the run down beside generating and training."""
    times = times_of(history)
    yield from _storing(history, times)
    yield from _choosing(history, times)
    yield from _examining(history, times)


def _storing(history: History, times: Times) -> Iterator[Finding]:
    share, seconds = times.share("commit", "record"), sum(times.phases[p] for p in _STORE)
    if share <= _SHARE or seconds <= _SECONDS:
        return
    config, store = history.config, history.folder.store(history.config)
    changes = []
    if config.store.compress:
        changes.append(change(config, "store.compress", False, "compressing takes part of it"))
    tasks = 2 * config.rollout.tasks_per_step
    if config.environment.tasks is None or tasks <= config.environment.tasks:
        text = "two commits a step, whatever its size: larger steps have fewer"
        changes.append(change(config, "rollout.tasks_per_step", tasks, text))
    if isinstance(store, Path):
        why = f"the disk of {store.parent} is slow to flush. See: recollect doctor --folder "
        why += str(store.parent)
    else:
        why = f"the server of {store}, or the way there, is slow"
    yield Finding(
        "speed",
        "storing_is_slow",
        f"Storing takes {100 * share:.0f} % of a step ({seconds:.2f} s): {why}",
        tuple(_of(history, times, *_STORE)),
        tuple(changes),
    )


def _choosing(history: History, times: Times) -> Iterator[Finding]:
    phases = ("plan", "draw", "score")
    share, seconds = times.share(*phases), sum(times.phases[p] for p in phases)
    if share <= _SHARE or seconds <= _SECONDS:
        return
    config, changes = history.config, list[Change]()
    if config.draw.choice == "likeliest":
        text = "likeliest asks the model about every candidate"
        changes.append(change(config, "draw.choice", "lowest_entropy", text))
    if config.correction.drop_above is not None:
        text = "it costs a pass over the drawn rows; pool.max_ratio uses what was measured anyway"
        nothing: Json = None
        changes.append(change(config, "correction.drop_above", nothing, text))
    if config.algo.kl_in == "reward" and config.algo.kl_coef:
        text = "a penalty on the reward needs a pass of its own before scoring"
        changes.append(change(config, "algo.kl_in", "loss", text))
    yield Finding(
        "speed",
        "choosing_is_slow",
        f"Choosing and scoring rows takes {100 * share:.0f} % of a step ({seconds:.2f} s).",
        tuple(_of(history, times, *phases)),
        tuple(changes),
    )


def _examining(history: History, times: Times) -> Iterator[Finding]:
    share = times.evaluating / (times.evaluating + times.step) if times.step else 0.0
    if share <= _EVALUATING or times.evaluating <= _SECONDS:
        return
    config = history.config
    changes = [change(config, "eval.every", 2 * config.eval.every, "evaluations further apart")]
    if config.eval.tasks > 30:
        text = "fewer held-out tasks; the interval grows"
        changes.append(change(config, "eval.tasks", config.eval.tasks // 2, text))
    yield Finding(
        "speed",
        "evaluating_takes_long",
        f"Evaluations take {100 * share:.0f} % of the time: {times.evaluating:.2f} s for every "
        f"step of {times.step:.2f} s.",
        (
            of_steps("seconds of evaluation a step", times.evaluating, history.recent),
            of_steps("time/step, mean", times.step, history.recent),
        ),
        tuple(changes),
    )


def _of(history: History, times: Times, *phases: str) -> list[Evidence]:
    return [of_steps(f"time/{p}, mean", times.phases[p], history.recent) for p in phases]


_STORE = ("commit", "record")
