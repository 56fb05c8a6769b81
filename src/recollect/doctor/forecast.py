"""What a run will take, and what replay can save of it at most.

Let g be the share of a step that goes into generation, without replay. A run that trains N rows
(each once) takes T(1) = N (c_g + c_t), with g = c_g / (c_g + c_t): c_g what it costs to generate
one of them, c_t everything else. If each generated row is trained on k times instead of once, the
same N trained rows need N / k generated ones, and

    T(k) = N (c_g / k + c_t),    T(1) / T(k) = 1 / (g / k + 1 - g)  ->  1 / (1 - g)  for k -> oo.

That is Amdahl's law, with generation as the part that replay makes cheaper. It assumes that a
stored row teaches as much as a fresh one (staleness makes it less), that training on it costs as
much as on a fresh one, that drawing costs nothing, and that generation and training take turns.
It bounds the time saved by generating less for the same number of trained rows. It does not bound
what replay may do beyond that, such as mending groups without a success; only `recollect compare`
measures that.

From k - 1 to k the run saves g / (k (k - 1)) of T(1): less each time, while rows get older. The
recommendation is the largest k that still saves 5 %, within the limit on uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from recollect.config.schema.config import Config
from recollect.doctor.footprint import free_bytes, machine_memory
from recollect.doctor.measuring import Measured
from recollect.doctor.shortage import asked_of

WORTH = 0.05  # of the time, that one more use must save
_TIGHT = 0.85  # of the machine's memory


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a configuration will take here. Seconds and bytes; None is not known.

    `share` is g, `bound` 1 / (1 - g). `uses` is the k that is recommended, 1 for no replay;
    `updates` of `rows` stored rows a step give it, and `ratio` is the replay ratio (trained over
    generated rows) that follows; `speedup` what that gives at most. `steps_seconds` counts replay
    as it is configured, from the first step on.
    """

    measured: Measured
    share: float
    bound: float | None
    uses: int
    updates: int
    rows: int
    ratio: float
    speedup: float
    steps: int
    evaluations: int
    checkpoints: int
    steps_seconds: float
    evaluation_seconds: float
    checkpoint_seconds: float
    memory: int | None
    store_bytes: float
    checkpoint_bytes: float
    free: int
    problems: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """The whole run, from its first step to its last checkpoint."""
        return self.steps_seconds + self.evaluation_seconds + self.checkpoint_seconds


def forecast(config: Config, measured: Measured, folder: Path) -> Forecast:
    """Foresee a run from a few of its steps; `folder` is where it would be."""
    share = measured.collect / measured.step if measured.step else 0.0
    signal = measured.trained / measured.generated if measured.generated else 0.0
    uses = recommended_uses(share, config.pool.max_uses) if signal else 1
    stored = int((uses - 1) * measured.trained)  # rows a step, beside those with signal
    updates = max(1, round(stored * config.train.minibatches / config.rows_per_step))
    updates, rows = (updates, max(1, stored // updates)) if stored else (0, 0)
    ratio = signal + updates * rows / measured.generated if measured.generated else 0.0
    asked = asked_of(config)
    extra = asked.drawn if config.replay.modes else 0.0
    each = measured.update / measured.trained if measured.trained else 0.0
    fewer = asked.generated / config.rows_per_step
    step = measured.collect * fewer + measured.update + extra * each + measured.rest
    store = measured.row_bytes * asked.generated * config.run.steps
    evaluations, checkpoints = _evaluations(config), _checkpoints(config)
    kept = measured.checkpoint_bytes * (config.checkpoint.keep + 1)  # one more while it is written
    free, memory = free_bytes(folder), machine_memory()
    return Forecast(
        measured=measured,
        share=share,
        bound=1 / (1 - share) if share < 1 and measured.trained else None,
        uses=uses,
        updates=updates,
        rows=rows,
        ratio=ratio,
        speedup=1 / (share * signal / ratio + 1 - share) if ratio else 1.0,
        steps=config.run.steps,
        evaluations=evaluations,
        checkpoints=checkpoints,
        steps_seconds=step * config.run.steps,
        evaluation_seconds=evaluations * (measured.evaluating or 0.0),
        checkpoint_seconds=checkpoints * measured.checkpoint,
        memory=memory,
        store_bytes=store,
        checkpoint_bytes=kept,
        free=free,
        problems=tuple(_problems(measured, memory, store + kept, free)),
    )


def recommended_uses(share: float, max_uses: int | None) -> int:
    """Find the largest k with g / (k (k - 1)) >= 5 %, at most one more than the limit on uses."""
    most = 1 + max_uses if max_uses is not None else 100
    uses = 1
    while uses < most and share / ((uses + 1) * uses) >= WORTH:
        uses += 1
    return uses


def _evaluations(config: Config) -> int:
    every, steps = config.eval.every, config.run.steps
    if not every:
        return 0
    return int(config.eval.at_start) + steps // every + bool(steps % every)


def _checkpoints(config: Config) -> int:
    every, steps = config.checkpoint.every, config.run.steps
    return steps // every + bool(steps % every) if every else 1


def _problems(measured: Measured, memory: int | None, needed: float, free: int) -> list[str]:
    found = []
    if needed > free:
        found.append(
            f"{needed / 1e9:.2f} GB of disk are needed and {free / 1e9:.2f} GB are free: set "
            "store.compress=true, lower checkpoint.keep, or make room"
        )
    held = measured.peak_memory
    if held is not None and memory is not None and held > _TIGHT * memory:
        found.append(
            f"{held / 1e9:.1f} of {memory / 1e9:.1f} GB of memory were used: lower "
            "train.pack_tokens and rollout.batch_rows, or set model.gradient_checkpointing=true"
        )
    if not measured.trained:
        found.append(
            "no row carried signal in the measured steps, so what training costs is not known: "
            "measure more (--steps), or begin with easier tasks"
        )
    return found
