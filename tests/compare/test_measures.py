from __future__ import annotations

import math
from pathlib import Path

import pytest

from recollect.compare.measures import Reach, Span, area, common_span, measure, read_curve

from .samples import curve, write_run


def test_everything_is_read_from_the_metrics(tmp_path: Path) -> None:
    successes = {0: 0.1, 2: 0.5, 4: 0.9}
    ratios = {1: 1.0, 2: 1.2, 3: 1.4, 4: 1.5}
    path = write_run(
        tmp_path, successes, steps=4, rows=8, seconds=3.0,
        extra=lambda step: {"replay/ratio": ratios[step]},
    )  # fmt: skip
    found = read_curve(path, "replay", 7)
    assert [point.step for point in found.points] == [0, 2, 4]
    assert [point.rollouts for point in found.points] == [0, 16, 32]
    assert [point.seconds for point in found.points] == [0, 6, 12]  # evaluations are not in it
    assert [point.success for point in found.points] == [0.1, 0.5, 0.9]
    assert (found.rollouts, found.seconds, found.replay_ratio) == (32, 12, 1.5)
    run = measure(found, 0.5, common_span([found]))
    assert run.rollouts_to_target == Reach(16, 32)
    assert run.seconds_to_target == Reach(6, 12)
    assert (run.first, run.final, run.best) == (0.1, 0.9, 0.9)
    # (0.1 + 0.5) / 2 for the first half, (0.5 + 0.9) / 2 for the second.
    assert run.area == pytest.approx(0.5)


def test_what_is_not_logged_is_not_known(tmp_path: Path) -> None:
    assert read_curve(write_run(tmp_path, {0: 0.1}, steps=1), "twin", 0).replay_ratio is None


def test_a_target_that_was_never_reached() -> None:
    run = measure(curve([0.1, 0.4, 0.3]), 0.5, Span(0, 20, 20))
    assert run.rollouts_to_target == Reach(None, 20)
    assert run.rollouts_to_target.number == math.inf
    assert run.rollouts_to_target.least == math.nextafter(20, 21)  # more than 20, for certain
    assert Reach(10, 20).least == 10
    assert (run.final, run.best) == (0.3, 0.4)


def test_the_first_time_counts_even_if_it_falls_again() -> None:
    assert measure(curve([0.1, 0.8, 0.3]), 0.8, Span(0, 20, 20)).rollouts_to_target.value == 10


def test_the_common_span_is_what_all_have_measured() -> None:
    long, short = curve([0.1, 0.2, 0.3, 0.4]), curve([0.1, 0.2, 0.3])
    assert common_span([long, short]) == Span(0, 20, 20)
    # 0.1 to 0.3 in a line within the first 20 rollouts; the rest does not count.
    assert area(long, Span(0, 20, 20)) == pytest.approx(0.2)


def test_the_area_ends_between_two_evaluations() -> None:
    # Up to 15: (0 + 0.2) / 2 * 10 + (0.2 + 0.3) / 2 * 5, over 15.
    found = area(curve([0.0, 0.2, 0.4]), Span(0, 15, 15))
    assert found == pytest.approx((1.0 + 1.25) / 15)


def test_a_diverged_run_stays_where_it_was_and_shortens_nobody() -> None:
    whole, broken = curve([0.0, 0.5, 1.0]), curve([0.0, 0.4], diverged=True)
    span = common_span([whole, broken])
    assert span == Span(0, 20, 20)
    assert area(broken, span) == pytest.approx((0.2 * 10 + 0.4 * 10) / 20)


def test_without_width_there_is_no_area() -> None:
    assert area(curve([0.5]), Span(0, 0, 0)) is None
    assert area(curve([]), Span(0, 10, 10)) is None
    nothing = measure(curve([]), 0.5, Span(0, 10, 10))
    assert (nothing.first, nothing.final, nothing.best) == (None, None, None)
