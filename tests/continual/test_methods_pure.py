"""Decisions of methods that need no training."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect.config.schema.continual import RehearsalSettings
from recollect.continual.matrix import ScoreMatrix
from recollect.continual.methods import METHODS
from recollect.continual.methods.adaptive_replay import adapted_ratio

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
