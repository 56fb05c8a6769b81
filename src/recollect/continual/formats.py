"""The lines of a continual run, in the formats of seed 001. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from recollect.continual.examination import DomainResult, Examination
from recollect.continual.matrix import Measure, ScoreMatrix, Undefined
from recollect.continual.transfer import average_performance, backward_transfer, forgetting
from recollect.redaction import redact_text
from recollect.telemetry.scores import Score, pool
from recollect.telemetry.spelling import percent
from recollect.train.metrics import deviation, mean

RULE = "=" * 80
UNKNOWN = "n/a"
_BAR = 12  # blocks


def title(text: str) -> list[str]:
    """Write a title between rules."""
    return [RULE, redact_text(text), RULE]


def domain_title(number: int, domain: str) -> list[str]:
    """Write `Task 0: AIRLINE` between rules."""
    return title(f"Task {number}: {domain.upper()}")


def clock(seconds: float) -> str:
    """Write 10:23, or 1:02:03 from an hour on."""
    whole = max(0, int(seconds))
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


def bar(
    name: str, done: int, steps: int, elapsed: float, left: float, metrics: Mapping[str, float]
) -> str:
    """Write a progress bar as tqdm does, with the last step's loss, reward and KL divergence."""
    share = done / steps if steps else 1.0
    blocks = int(share * _BAR + 1e-9)
    drawn = "█" * blocks + " " * (_BAR - blocks)
    figures = [("loss", "train/loss", 4), ("reward", "reward/mean", 3), ("kl", "policy/kl", 4)]
    known = [f"{label}: {_number(metrics.get(ours), places)}" for label, ours, places in figures]
    times = f"{clock(elapsed)}<{clock(left)}"
    return f"{name}: {100 * share:3.0f}%|{drawn}| {done}/{steps} [{', '.join([times, *known])}]"


def step_line(number: int, step: int, steps: int, metrics: Mapping[str, float]) -> str:
    """Write `[Task 0] Step  10/100 | loss: 2.1234 | ...`, the five figures that are asked for most.

    A figure that the step does not have is left out.
    """
    names = [("loss", "train/loss"), ("reward_mean", "reward/mean"), ("reward_std", "reward/std"),
             ("kl_div", "policy/kl"), ("success", "reward/success")]  # fmt: skip
    parts = [f"{label}: {_number(metrics[ours], 4)}" for label, ours in names if ours in metrics]
    return " | ".join([f"[Task {number}] Step {step:3d}/{steps}", *parts])


def evaluation_line(number: int, step: int, scores: Sequence[Score]) -> str:
    """Write `[EVAL] Task 0 Step 100 | Reward: 0.456±0.123 | Pass: 45.6% | Tool Acc: 67.8%`."""
    total = pool(scores)
    return f"[EVAL] Task {number} Step {step} | " + _figures(
        total.reward, total.reward_std, total.success, total.tools
    )


def domain_row(result: DomainResult, seen: bool) -> str:
    """Write a domain's row of a transfer table."""
    rewards = result.rewards
    row = f"{result.domain:<10} | " + _figures(
        mean(rewards), deviation(rewards), result.success, result.tools
    )
    return row if seen else f"{row} | unseen"


def transfer_table(number: int, found: Examination, order: Sequence[str]) -> list[str]:
    """Write how every domain stands after a stage, those not trained on yet marked as unseen."""
    lines = title(f"Backward Transfer Evaluation (after Task {number})")
    return lines + [domain_row(found.of(d), place <= number) for place, d in enumerate(order)]


def transfer_metrics(number: int, matrix: ScoreMatrix) -> list[str]:
    """Write the transfer measures after a stage; what is undefined says why."""
    named: list[tuple[str, Measure]] = [
        ("backward_transfer", backward_transfer(matrix, number)),
        ("average_performance", average_performance(matrix, number)),
        ("forgetting", forgetting(matrix, number)),
    ]
    lines = [f"  {name}: {measure_text(value)}" for name, value in named]
    return [f"=== Transfer Metrics after Task {number} ===", *lines]


def measure_text(value: Measure) -> str:
    """Write a measure with four places, or why there is none."""
    return str(value) if isinstance(value, Undefined) else f"{value:.4f}"


def matrix_lines(matrix: ScoreMatrix) -> list[str]:
    """Write the matrix as a table, one row for each model."""
    rows: list[tuple[str, Sequence[float | None] | None]] = [("base", matrix.base)]
    rows += [(f"after {d}", row) for d, row in zip(matrix.domains, matrix.stages, strict=False)]
    rows += [("single", matrix.single), ("joint", matrix.joint)]
    known = [(name, row) for name, row in rows if row is not None]
    width = max(len(name) for name, _ in known)
    columns = [max(8, len(domain)) for domain in matrix.domains]
    head = "  ".join(f"{d:>{w}}" for d, w in zip(matrix.domains, columns, strict=True))
    lines = [f"{'':<{width}}  {head}"]
    for name, row in known:
        cells = [
            f"{UNKNOWN if value is None else format(value, '.3f'):>{w}}"
            for value, w in zip(row, columns, strict=True)
        ]
        lines.append(f"{name:<{width}}  {'  '.join(cells)}")
    return lines


def _figures(
    reward: float | None, spread: float | None, success: float | None, tools: float | None
) -> str:
    """Write the three figures of an evaluation; what is not known is n/a, never 0."""
    earned = f"{_number(reward, 3)}±{_number(spread, 3)}"
    passed, right = percent(success, UNKNOWN), percent(tools, UNKNOWN)
    return f"Reward: {earned} | Pass: {passed} | Tool Acc: {right}"


def _number(value: float | None, places: int) -> str:
    return UNKNOWN if value is None or math.isnan(value) else f"{value:.{places}f}"
