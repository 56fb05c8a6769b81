"""The seed's lines, from the seed's numbers."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from recollect.continual import formats
from recollect.continual.examination import DomainResult, Examination, TaskResult
from recollect.continual.matrix import ScoreMatrix
from recollect.continual.schedule import Stage
from recollect.continual.screen import Output, StageScreen, Style
from recollect.telemetry.events import (
    CheckpointSaved,
    EvaluationFinished,
    RunFinished,
    RunStarted,
    StepFinished,
)
from recollect.telemetry.scores import Score

METRICS = {"train/loss": 2.1234, "reward/mean": 0.456, "policy/kl": 0.0123}


def test_the_banner() -> None:
    assert formats.domain_title(0, "airline") == ["=" * 80, "Task 0: AIRLINE", "=" * 80]


def test_the_bar() -> None:
    line = formats.bar("Task 0 (airline)", 100, 100, 623.0, 0.0, METRICS)
    assert line == (
        "Task 0 (airline): 100%|████████████| 100/100 "
        "[10:23<00:00, loss: 2.1234, reward: 0.456, kl: 0.0123]"
    )
    half = formats.bar("Task 1 (retail)", 1, 2, 3700.0, 3700.0, {})
    assert half == (
        "Task 1 (retail):  50%|██████      | 1/2 [1:01:40<1:01:40, loss: n/a, reward: n/a, kl: n/a]"
    )


def test_an_evaluation() -> None:
    scores = [Score("airline", 1, 1000, 456, reward=0.456, reward_std=0.123, tools=0.678)]
    assert formats.evaluation_line(0, 100, scores) == (
        "[EVAL] Task 0 Step 100 | Reward: 0.456±0.123 | Pass: 45.6% | Tool Acc: 67.8%"
    )
    unknown = [Score("airline", 1, 10, 5)]
    assert formats.evaluation_line(0, 1, unknown).endswith(
        "Reward: n/a±n/a | Pass: 50.0% | Tool Acc: n/a"
    )


def test_a_compact_step() -> None:
    line = formats.step_line(0, 5, 100, METRICS)
    assert line == ("[Task 0] Step   5/100 | loss: 2.1234 | reward_mean: 0.4560 | kl_div: 0.0123")


def test_the_transfer_table_and_block() -> None:
    tasks = (TaskResult("t", 1, (1.0, 0.0), (True, False), (1.0, 0.5)),)
    found = Examination(
        "0", "test", 0.0, (DomainResult("airline", tasks), DomainResult("retail", tasks))
    )
    lines = formats.transfer_table(0, found, ("airline", "retail"))
    assert lines[1] == "Backward Transfer Evaluation (after Task 0)"
    row = "Reward: 0.500±0.500 | Pass: 50.0% | Tool Acc: 75.0%"
    assert lines[3:] == [f"airline    | {row}", f"retail     | {row} | unseen"]
    matrix = ScoreMatrix(("airline", "retail"), ((0.456, None), (0.423, 0.389)))
    assert formats.transfer_metrics(1, matrix) == [
        "=== Transfer Metrics after Task 1 ===",
        "  backward_transfer: -0.0330",
        "  average_performance: 0.4060",
        "  forgetting: 0.0330",
    ]
    first = formats.transfer_metrics(0, matrix)
    assert first[1] == "  backward_transfer: n/a (one domain has no earlier one)"


def shown(style: Style, steps: int = 4) -> str:
    stream, now = io.StringIO(), iter(range(100))
    stage = Stage("stage", 0, ("airline",), steps)
    screen = StageScreen(Output(stream), stage, style, lambda: float(next(now)))
    screen.emit(RunStarted("r", Path(), steps))
    for step in range(1, steps + 1):
        screen.emit(StepFinished(step, steps, {**METRICS, "train/grad_norm": 0.25}))
    screen.emit(EvaluationFinished(steps, (Score("airline", 1, 2, 1, reward=0.5, reward_std=0.5),)))
    screen.emit(RunFinished(steps))
    return stream.getvalue()


def test_a_stage_with_a_bar_and_without() -> None:
    barred = shown(Style(interval=10)).splitlines()
    assert [line.split(":")[0] for line in barred] == ["Task 0 (airline)", "", "[EVAL] Task 0 Step 4 | Reward"]  # fmt: skip  # noqa: E501
    assert " 4/4 [" in barred[0]
    plain = shown(Style(progress=False, interval=2)).splitlines()
    assert [line[:18] for line in plain[:2]] == ["[Task 0] Step   2/", "[Task 0] Step   4/"]
    wordy = shown(Style(progress=False, interval=4, verbose=True))
    assert "grad_norm 0.2500" in wordy
    assert "grad_norm" not in "\n".join([*barred, *plain])


class Terminal(io.StringIO):
    """A terminal that no line is too wide for."""

    def isatty(self) -> bool:
        return True

    def rows(self) -> list[str]:
        """What can be read on it: after a carriage return a row is written over."""
        found = []
        for line in self.getvalue().split("\n"):
            row = ""
            for part in line.split("\r"):
                row = part + row[len(part) :]
            found.append(row.rstrip())
        return found


@pytest.mark.parametrize("columns", [60, 200])
def test_an_evaluation_in_the_middle_stands_above_the_bar(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    terminal, now = Terminal(), iter(range(100))
    stage = Stage("stage", 0, ("airline",), 4)
    screen = StageScreen(Output(terminal), stage, Style(verbose=True), lambda: float(next(now)))
    screen.emit(RunStarted("r", Path(), 4))
    for step in (1, 2):
        screen.emit(StepFinished(step, 4, METRICS))
    (bar,) = terminal.rows()
    assert bar.startswith("Task 0 (airline):  50%|")
    score = Score("airline", 1, 2, 1, reward=0.5, reward_std=0.5)
    screen.emit(EvaluationFinished(2, (score,)))
    screen.emit(CheckpointSaved(2, Path("saved")))
    said = [formats.evaluation_line(0, 2, [score]), "checkpoint step 2 | saved"]
    assert terminal.rows() == [*said, ""]  # nothing of the bar is left between or behind them
    screen.emit(StepFinished(3, 4, METRICS))
    *above, bar = terminal.rows()
    assert above == said
    assert bar.startswith("Task 0 (airline):  75%|")
    assert len(bar) < columns  # one that wraps could not be written over


def test_the_matrix_says_what_was_not_measured() -> None:
    matrix = ScoreMatrix(("a", "b"), ((0.5, None),), base=(0.1, 0.2))
    assert formats.matrix_lines(matrix)[1:] == [
        "base        0.100     0.200",
        "after a     0.500       n/a",
    ]
