"""The four levels of difficulty, the same for every domain."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Level:
    """What makes a level hard.

    The user owns `fewest` to `most` records. With `named` the user says the record's id;
    otherwise describes it, and the agent must find it among the user's records. `turns` bounds
    the episode: three more than the longest gold at this level, so that a failing agent
    costs little.
    """

    fewest: int
    most: int
    named: bool
    turns: int


LEVELS = {
    1: Level(fewest=1, most=2, named=True, turns=5),
    2: Level(fewest=2, most=2, named=False, turns=7),
    3: Level(fewest=1, most=2, named=True, turns=7),
    4: Level(fewest=3, most=4, named=False, turns=9),
}
