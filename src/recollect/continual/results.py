"""What a continual run found, as one document: metrics.json in its folder.

Keys as seed 001 has them (`task_<i>/train`, `task_<i>/eval`, `transfer`), so that its readers go
on working, and beside them everything it lacked: the matrix, all measures with intervals, floors.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from recollect.canonical import Json
from recollect.continual.examination import DomainResult
from recollect.continual.intervals import cell_interval, measure_interval
from recollect.continual.journey import BASE, Journey
from recollect.continual.matrix import Measure, ScoreMatrix, Undefined
from recollect.continual.methods.sequential import Sequential
from recollect.continual.transfer import (
    MEASURES,
    average_performance,
    backward_transfer,
    floor_corrected,
    forgetting,
)
from recollect.telemetry.reading import read_metrics
from recollect.train.metrics import deviation, mean

FILE = "metrics.json"
_TRAIN = {"loss": "train/loss", "reward_mean": "reward/mean", "reward_std": "reward/std",
          "kl_div": "policy/kl", "success": "reward/success"}  # fmt: skip


def write_results(journey: Journey, method: Sequential) -> Path:
    """Write metrics.json as far as the run has come."""
    path = journey.path / FILE
    draft = path.with_name(f".{FILE}")
    text = json.dumps(document(journey, method), indent=1, ensure_ascii=False, allow_nan=False)
    draft.write_text(text + "\n", encoding="utf-8")
    draft.replace(path)
    return path


def document(journey: Journey, method: Sequential) -> dict[str, Json]:
    """Gather everything that is known."""
    found: dict[str, Json] = {
        "method": journey.title,
        "task_order": list(journey.order),
        "seed": journey.config.run.seed,
        "score": journey.config.continual.score,
        "split": journey.config.eval.split,
        "matrix": _matrix(journey),
        "measures": measures(journey),
        "transfer": [_transfer(journey.matrix(), t) for t in range(len(journey.matrix().stages))],
        "examinations": {
            label: {r.domain: _domain(r) for r in each.domains}
            for label, each in journey.examinations.items()
        },
    }
    done = len(journey.matrix().stages)
    found["method_figures"] = [dict(method.summary(number)) for number in range(done)]
    for number in range(done):
        train, evaluations = _curves(journey, number)
        found[f"task_{number}/train"] = train
        found[f"task_{number}/eval"] = evaluations
    return found


def measures(journey: Journey) -> dict[str, Json]:
    """Give every measure with its interval, or the reason why there is none."""
    scores, matrix = journey.scores(), journey.matrix()
    found: dict[str, Json] = {}
    for name, measure in MEASURES.items():
        plain: Callable[[ScoreMatrix], Measure] = measure
        interval = measure_interval(journey.order, scores, plain)
        found[name] = {**_value(plain(matrix)), "low": interval.low, "high": interval.high}
    return found


def _transfer(matrix: ScoreMatrix, t: int) -> Json:
    content: dict[str, Json] = {"task_idx": t, "num_tasks_seen": t + 1}
    current = matrix.score(t, t)
    named: dict[str, Measure] = {
        "backward_transfer": backward_transfer(matrix, t),
        "average_performance": average_performance(matrix, t),
        "forgetting": forgetting(matrix, t),
        "current_performance": current,
    }
    for name, value in named.items():
        content[name] = str(value) if isinstance(value, Undefined) else value
    return content


def _value(value: Measure) -> dict[str, Json]:
    if isinstance(value, Undefined):
        return {"value": None, "why": value.why}
    return {"value": value}


def _matrix(journey: Journey) -> Json:
    matrix = journey.matrix()
    rows: dict[str, Any] = {BASE: matrix.base, "single": matrix.single, "joint": matrix.joint}
    return {
        "domains": list(matrix.domains),
        "stages": [list(row) for row in matrix.stages],
        **{name: None if row is None else list(row) for name, row in rows.items()},
    }


def _domain(result: DomainResult) -> Json:
    """Spell a cell of the matrix, with its size and interval."""
    by_task = result.by_task("reward")
    interval = cell_interval(by_task, result.domain)
    ks = range(1, 1 + max(len(task.successes) for task in result.tasks))
    return {
        "n": result.attempts,
        "tasks": len(result.tasks),
        "reward_mean": mean(result.rewards),
        "reward_std": deviation(result.rewards),
        "low": interval.low,
        "high": interval.high,
        "success": result.success,
        "floor": result.floor,
        "floor_corrected": _shown(floor_corrected(result.success, result.floor)),
        "tool_accuracy": result.tools,
        "kl_to_base": result.kl,
        "pass@k": {str(k): _shown(result.pass_at(k)) for k in ks},
        "pass^k": {str(k): _shown(result.pass_hat(k)) for k in ks},
    }


def _finite(metrics: Mapping[str, float]) -> dict[str, Json]:
    """Leave out what is no number: JSON has no word for it."""
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def _shown(value: Measure) -> Json:
    return str(value) if isinstance(value, Undefined) else value


def _curves(journey: Journey, number: int) -> tuple[list[Json], list[Json]]:
    """Read a stage's steps and evaluations under the seed's names."""
    stage = journey.stage(number)
    metrics = read_metrics(journey.run(stage).path)
    offset = sum(journey.stage(earlier).steps for earlier in range(number))
    steps: list[Json] = []
    for line in metrics.steps:
        given = _finite(line.metrics)
        known = {name: given[ours] for name, ours in _TRAIN.items() if ours in given}
        steps.append({"task_idx": number, "step": line.step, "global_step": offset + line.step,
                      **known})  # fmt: skip
    evaluations: list[Json] = [
        {
            "task_idx": number,
            "step": line.step,
            "global_step": offset + line.step,
            **_finite(line.metrics),
        }
        for line in metrics.evaluations
    ]
    return steps, evaluations
