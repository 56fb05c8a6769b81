from __future__ import annotations

import math

import pytest
import torch

from recollect.algo.surrogate import diagnose
from recollect.train.batch import ScoredRow
from recollect.train.report import StepFigures, UpdateFigures

from .rows import make_row

ROWS = [
    ScoredRow(make_row([1, 2, 3], [False, True, True], "a"), 1.0, True),
    ScoredRow(make_row([1, 2], [False, True], "b"), -1.0, True),
]


def step(loss: float, drift: list[float], clipped: list[bool]) -> StepFigures:
    figures = StepFigures()
    mask = torch.ones(len(drift), dtype=torch.bool)
    flags = diagnose(torch.ones(len(drift)), mask, high=torch.tensor(clipped))
    figures.add(torch.tensor(loss), torch.tensor(drift), torch.zeros(len(drift)), flags)
    return figures


def test_means_over_steps_and_tokens() -> None:
    figures = UpdateFigures()
    figures.apply(step(1.0, [0.1, -0.3], [False, True]), 2.0, ROWS[:1])
    figures.apply(step(3.0, [math.log(2)], [False]), 4.0, ROWS)
    figures.skip()
    report = figures.report(0.5)
    assert (report.loss, report.grad_norm, report.learning_rate) == (2.0, 3.0, 0.5)
    assert (report.rows, report.tokens) == (2, 3)  # row a trained twice and counts once
    assert (report.optimizer_steps, report.skipped) == (2, 1)
    assert report.drift is not None
    k3 = [math.exp(d) - 1 - d for d in (0.1, -0.3, math.log(2))]
    assert report.drift.kl == pytest.approx(sum(k3) / 3, rel=1e-5)
    assert report.drift.ratio_max == pytest.approx(2)
    assert report.drift.clip_share == pytest.approx(1 / 3)
    assert report.drift.logprob_difference == pytest.approx(0.2)  # of the first step only


def test_nothing_to_do_is_not_something_that_went_wrong() -> None:
    idle = UpdateFigures().report(0.1)
    assert (idle.loss, idle.grad_norm, idle.skipped, idle.drift) == (0.0, 0.0, 0, None)
    refused = UpdateFigures()
    refused.skip()
    report = refused.report(0.1)
    assert math.isnan(report.loss)
    assert math.isnan(report.grad_norm)
    assert (report.rows, report.skipped, report.drift) == (0, 1, None)
