"""A world for runs that replay: successes are common, some groups are solved, some are dead."""

from __future__ import annotations

from train.worlds import Letters


class Easy(Letters):
    """Letters, with less to do for a success."""

    threshold = 0.25
