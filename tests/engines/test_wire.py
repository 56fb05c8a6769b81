"""Records come out of the wire as they went in, bit for bit."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from recollect.engines import wire
from recollect.engines.messages import Compute, Computed, End, Open, Play
from recollect.rollout.episode import Request
from recollect.store import codec
from recollect.train.batch import ScoredRow
from recollect.train.ranks import Work
from recollect.train.report import StepFigures
from recollect.types import GroupId, RunId, Sampling, Task, TrajectoryId
from train.rows import make_row


def test_orders_and_requests() -> None:
    task = Task("letters", "1", query="naïve \U0001f600", level=2)
    request = Request(TrajectoryId("t"), task, RunId("r"), 3, GroupId("g"), 2, 7, 1)
    play = Play((request,), Sampling(0.1 + 0.2, top_p=0.9))
    assert wire.decode(wire.encode(play)) == play
    for order in (Open("/a b", None), End()):
        assert wire.decode(wire.encode(order)) == order


def test_rows_and_old_logprobs() -> None:
    old = {"t": np.array([0.1, -2.0], np.float32)}
    scored = ScoredRow(make_row([1, 2, 3], [False, True, True]), 1 / 3, True)
    found = wire.decode(wire.encode(Compute(Work((scored,), old, 12.0, 2**62)))).work
    assert codec.encode(found.rows[0].trajectory) == codec.encode(scored.trajectory)
    assert (found.rows[0].advantage, found.rows[0].pick, found.seed) == (1 / 3, None, 2**62)
    assert found.old["t"].dtype == np.float32
    assert found.old["t"].tolist() == old["t"].tolist()


def test_figures_that_are_not_finite() -> None:
    figures = StepFigures(loss=math.nan, ratio_max=math.inf)
    figures.replayed.rows.append(np.array([0, 0, 2]))
    figures.replayed.clipped.append(np.array([True, False, True]))
    found = wire.decode(wire.encode(Computed(figures, 15))).figures
    assert math.isnan(found.loss)
    assert found.ratio_max == math.inf
    whole = StepFigures()
    whole.merge(found, 5)
    assert whole.replayed.rows[0].tolist() == [5, 5, 7]


def test_strangers_are_refused() -> None:
    with pytest.raises(TypeError, match="cannot be sent"):
        wire.encode(Path("x"))
