"""Which tasks are revisited: ways to weigh tasks by their bucket."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from recollect.errors import InvalidRecord
from recollect.replay.buckets import Shape, task_weights
from recollect.replay.sampling import Drawn, draw

Strategy: TypeAlias = Literal["random", "uniform", "gaussian", "linear", "sqrt"]

_SHAPES: dict[Strategy, Shape] = {
    "random": "uniform",
    "gaussian": "gaussian",
    "linear": "linear",
    "sqrt": "sqrt",
}
_CENTER, _SIGMA = 0.5, 0.125  # released ExGRPO: one success of 8 around one half


def check_strategy(strategy: str) -> None:
    """Refuse a strategy that nobody wrote, rather than ignore it."""
    if strategy not in get_args(Strategy):
        problem = f"{strategy!r} is not one of {', '.join(get_args(Strategy))}"
        raise InvalidRecord("strategy", problem)


def draw_tasks(
    rates: NDArray[np.float64], wanted: int, strategy: Strategy, rng: np.random.Generator
) -> Drawn:
    """Draw different tasks, given their success rates [n]; probabilities are exact."""
    check_strategy(strategy)
    if strategy == "uniform":
        return draw(np.ones(rates.size), wanted, rng)
    return draw(task_weights(rates, _SHAPES[strategy], _CENTER, _SIGMA), wanted, rng)
