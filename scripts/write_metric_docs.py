"""Write docs/metrics.md from the table of metric names: python scripts/write_metric_docs.py."""

from __future__ import annotations

from pathlib import Path

from recollect.telemetry.names import METRICS, ROOMS, Metric

PATH = Path(__file__).resolve().parents[1] / "docs" / "metrics.md"

_TOP = """\
# Metrics

<!-- Written by scripts/write_metric_docs.py from src/recollect/telemetry/names.py. -->

Every number that a run logs, under one name everywhere: in `metrics.jsonl`, in the trackers, in
plots and reports. A name reads `<room>/<metric>[/<domain>][/<level>]`; `<domain>` and `<level>`
stand for any of them. The horizontal axis is the training step, counted from 1; an evaluation of
step 0 came before the first.

*Better* says which way is good; a dash means that neither is in itself. Metrics marked † are
readings of the clock or of other programs: the only ones that differ when a run is repeated, or
killed and resumed, with the same seed.

## The file

`metrics.jsonl` in the run's folder has one line per step and one per evaluation:

```jsonl
{"kind": "step", "step": 12, "steps": 60, "time": 1700000000.0, "metrics": {"train/loss": 0.0123}}
{"kind": "evaluation", "step": 20, "split": "test", "time": 1700000100.0, \
"seconds": 12.3, "metrics": {"eval/success": 0.456}, "scores": [{"domain": "airline", "level": 1, \
"n": 50, "successes": 23, "floor": 0.03, "reward": 0.46, "reward_std": 0.5}]}
```

A number that is NaN or infinite is written as `null` and counted in `health/not_finite`; nothing
is smoothed. A kill can cut the last line short: readers leave out a line without its end. Resuming
drops the lines after the step it goes on from, so the file is that of an undisturbed run, † aside.
"""


def render() -> str:
    """Write the page."""
    parts = [_TOP]
    for room, text in ROOMS.items():
        rows = [_row(metric) for metric in METRICS if metric.room == room]
        head = ["| name | unit | better | meaning |", "|---|---|---|---|"]
        parts.append("\n".join([f"## {room}: {text}", "", *head, *rows]) + "\n")
    return "\n".join(parts)


def _row(metric: Metric) -> str:
    mark = " †" if metric.measured else ""
    return f"| `{metric.name}`{mark} | {metric.unit} | {metric.better or '-'} | {metric.text} |"


def main() -> None:
    """Write the page; tests/docs/test_metric_docs.py fails while it is stale."""
    PATH.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
