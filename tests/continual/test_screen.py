"""The summary and the pictures of a finished run, by the score that it was measured by."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from recollect.continual import plots
from recollect.continual.plots import draw_journey
from recollect.continual.screen import Screen, Style

from .finished import finished_run


@pytest.mark.parametrize(("score", "shown"), [("reward", "0.7000"), ("success", "1.0000")])
def test_the_summary_names_the_score(tmp_path: Path, score: str, shown: str) -> None:
    stream = io.StringIO()
    journey = finished_run(tmp_path / "run", f"continual.score={score}", reward=0.7)
    Screen(stream, Style()).finished(journey)
    finals = [line.strip() for line in stream.getvalue().splitlines() if "task_" in line]
    assert finals == [f"task_{number}_final_{score}: {shown}" for number in range(3)]


@pytest.mark.parametrize(
    ("reward", "low", "high"), [(0.7, 0.0, 1.0), (-3.0, -3.0, 1.0), (12.0, 0.0, 12.0)]
)
def test_axes_hold_rewards_beyond_0_and_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reward: float, low: float, high: float
) -> None:
    pytest.importorskip("matplotlib")
    figures: list[Any] = []
    make: Callable[[float, float], Any] = plots._figure
    monkeypatch.setattr(plots, "_figure", lambda *size: figures.append(make(*size)) or figures[-1])
    draw_journey(finished_run(tmp_path / "run", reward=reward))
    matrix, curves = figures
    assert matrix.axes[0].images[0].get_clim() == (low, high)
    bottom, top = curves.axes[0].get_ylim()
    assert (bottom, top) == pytest.approx((low, high), abs=0.03 * (high - low))
    assert bottom < min(low, reward)
    assert top > max(high, reward)
