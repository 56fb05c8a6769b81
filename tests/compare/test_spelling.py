from __future__ import annotations

import math

from recollect.compare import spelling
from recollect.compare.measures import Reach
from recollect.compare.statistics import Estimate


def test_what_never_came_is_more_than_all_there_was() -> None:
    assert spelling.reach(Reach(None, 1280), spelling.count) == "> 1,280"
    assert spelling.reach(Reach(640, 1280), spelling.count) == "640"
    assert spelling.reach(Reach(None, 400), spelling.duration) == "> 0:06:40"


def test_estimates() -> None:
    assert spelling.estimate(Estimate(1.5, 1.0, math.inf, 0.0), spelling.times) == "1.50 [1.00, ∞]"
    assert spelling.estimate(Estimate(1.5, None, None, 0.0), spelling.times) == "1.50"
    assert spelling.estimate(Estimate(None, 0.0, 2.0, 0.5), spelling.times) == (
        "undefined [0.00, 2.00]"
    )
    assert spelling.estimate(Estimate(None, None, None, 1.0), spelling.times) == "undefined"
    assert spelling.estimate(Estimate(math.inf, 9.0, math.inf, 0.0), spelling.count) == (
        "never [9, never]"
    )


def test_units() -> None:
    assert spelling.share(0.8) == "80.0%"
    assert spelling.points(-0.031) == "-3.1"
    assert spelling.duration(math.inf) == "never"
    assert spelling.optional(None, spelling.share) == "-"


def test_seeds() -> None:
    assert spelling.seeds((0, 1, 2, 3)) == "0-3"
    assert spelling.seeds((1000, 1001)) == "1000, 1001"
    assert spelling.seeds((3, 7, 8)) == "3, 7, 8"
