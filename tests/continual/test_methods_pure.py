"""Decisions of methods that need no training."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect.config.loading import load_config
from recollect.config.schema.config import Config
from recollect.config.schema.continual import RehearsalSettings
from recollect.continual.journey import Journey
from recollect.continual.matrix import ScoreMatrix
from recollect.continual.methods import METHODS
from recollect.continual.methods.adaptive_replay import adapted_ratio
from recollect.envs.registry import load_environment
from recollect.replay.inspection import make_simulator
from recollect.replay.settings import pace
from recollect.replay.simulation import simulate
from replay.pools import Plant, planted, task

WANTED = RehearsalSettings(ratio=0.2, rate=0.1, threshold=0.1, max_ratio=0.35, min_ratio=0.1)
D = ("a", "b", "c", "d")


def test_the_share_follows_forgetting_from_the_first_damage_on() -> None:
    rows = ((0.8, 0, 0, 0), (0.5, 0.6, 0, 0), (0.5, 0.3, 0.7, 0), (0.9, 0.9, 0.9, 0.9))
    matrix = ScoreMatrix(D, rows)
    # Nothing was measured before the second domain; it cost 0.3, and the third one 0.3 again.
    assert [adapted_ratio(WANTED, matrix, n) for n in range(4)] == [
        0.2, 0.2, pytest.approx(0.3), 0.35
    ]  # fmt: skip


def test_the_share_falls_where_everything_was_kept() -> None:
    matrix = ScoreMatrix(D, ((0.5, 0, 0, 0), (0.6, 0.5, 0, 0), (0.7, 0.6, 0.5, 0)))
    assert adapted_ratio(WANTED, matrix, 2) == pytest.approx(0.15)
    assert adapted_ratio(WANTED, matrix, 3) == pytest.approx(0.1)
    same = ScoreMatrix(D, ((0.5, 0, 0, 0), (0.48, 0.5, 0, 0)))
    assert adapted_ratio(WANTED, same, 2) == 0.2


def test_every_method_has_a_file_that_names_its_formula() -> None:
    folder = Path(__file__).parents[2] / "src" / "recollect" / "continual" / "methods"
    for name in METHODS:
        text = (folder / f"{name}.py").read_text(encoding="utf-8")
        assert text.startswith(f'"""{name}: ')


def stage_of(number: int, *flags: str) -> Config:
    """The settings of a stage that stored rows come back in: 32 of them to 32 fresh rows."""
    stored = ["continual.method=replay", "continual.replay.kind=trajectories",
              "continual.replay.ratio=1", "environment.levels=none"]  # fmt: skip
    config = load_config("domains", [*stored, *flags]).config
    journey = Journey(Path("journey"), config, D)
    environment = load_environment(config.environment.name, **config.environment.options)
    return METHODS["replay"](journey, environment).settings(number, config)


@pytest.mark.parametrize(
    ("rows", "each"),
    [
        ({"a": 80, "b": 40, "c": 60}, {"a": (10, 11), "b": (10, 11), "c": (10, 11)}),
        # What a domain has too few rows for comes from the others.
        ({"a": 80, "b": 4, "c": 60}, {"a": (14, 14), "b": (4, 4), "c": (14, 14)}),
    ],
)
@pytest.mark.parametrize("limit", ["none", "40"])
def test_balanced_rows_are_as_many_as_the_ratio_asks_for(
    rows: dict[str, int], each: dict[str, tuple[int, int]], limit: str
) -> None:
    config = stage_of(3, "continual.replay.strategy=balanced", "pool.max_uses=none",
                      f"draw.max_per_task={limit}")  # fmt: skip
    tasks = [task(place, domain) for place, domain in enumerate(rows)]
    plants = [Plant(t, version=1, advantage=0.5) for t in tasks for _ in range(rows[t.domain])]
    with planted(*plants) as store:
        replayer, version = make_simulator(store, config)
        for step in range(1, 6):
            found = simulate(replayer, 1, 4, version + step, pace(config))
            assert found.draws == 32
            assert all(low <= found.domains[d] <= high for d, (low, high) in each.items())


def test_recent_rows_fade_over_as_many_updates_as_a_stage_makes() -> None:
    flags = ("continual.replay.strategy=recent", "run.steps=10", "train.epochs=3",
             "train.minibatches=2")  # fmt: skip
    # A step makes 3 x 2 updates on fresh rows, and those on stored ones.
    for more, updates in (
        ((), 7),
        (("replay.buffer_epochs=2",), 8),
        (("replay.buffer_place=among",), 6),
    ):
        assert stage_of(2, *flags, *more).draw.half_life == 10 * updates
