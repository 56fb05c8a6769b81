from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from recollect.compare.bands import Thread, make_band, metric_band, metric_panels, success_band
from recollect.telemetry.reading import read_metrics

from .samples import curve, write_run


def thread(seed: int, x: list[float], y: list[float]) -> Thread:
    return Thread(seed, np.array(x), np.array(y))


def test_seeds_are_brought_to_one_axis() -> None:
    band = make_band("a", 0, [thread(0, [0, 10, 20], [0, 1, 2]), thread(1, [0, 5, 15], [0, 1, 3])])
    assert band is not None
    assert band.x.tolist() == [0, 5, 10, 15]  # the second seed has nothing after 15
    assert band.low.tolist() == [0, 0.5, 1, 1.5]
    assert band.high.tolist() == [0, 1, 2, 3]
    assert band.mean.tolist() == [0, 0.75, 1.5, 2.25]


def test_nothing_measured_is_no_band() -> None:
    assert make_band("a", 0, [thread(0, [], [])]) is None


def test_success_over_rollouts() -> None:
    band = success_band("a", 1, [curve([0.1, 0.5])], lambda point: point.rollouts)
    assert band is not None
    assert (band.x.tolist(), band.mean.tolist()) == ([0, 10], [0.1, 0.5])


def test_a_metric_over_steps_without_what_is_not_finite(tmp_path: Path) -> None:
    write_run(
        tmp_path, {}, steps=3, extra=lambda step: {"replay/ess": math.nan if step == 2 else 0.5}
    )
    band = metric_band("a", 0, [(0, read_metrics(tmp_path))], "replay/ess")
    assert band is not None
    assert band.x.tolist() == [1, 3]


def test_relatives_share_a_panel() -> None:
    names = ["replay/ratio", "replay/ratio_p50", "replay/ratio_max", "replay/ess", "replay/age_max",
             "replay/bucket/0.25", "replay/bucket/0.5", "replay/pool_rows"]  # fmt: skip
    panels = {panel.title: panel.members for panel in metric_panels(names)}
    assert panels == {
        "replay/ratio": (("replay/ratio", ""),),
        "replay/ratio (p50, max)": (("replay/ratio_p50", "p50"), ("replay/ratio_max", "max")),
        "replay/ess": (("replay/ess", ""),),
        "replay/age_max": (("replay/age_max", ""),),
        "replay/bucket (0.25, 0.5)": (
            ("replay/bucket/0.25", "0.25"),
            ("replay/bucket/0.5", "0.5"),
        ),
        "replay/pool_rows": (("replay/pool_rows", ""),),
    }


def test_a_large_family_has_a_short_title() -> None:
    (panel,) = metric_panels([f"replay/bucket/{n}" for n in range(9)])
    assert panel.title == "replay/bucket"
