"""A small model, and finished sequential runs that tests of methods branch off from."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect.continual.journey import Journey
from train.small import make_model

from .small import DESK, desk_journey, go


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model's folder, never changed."""
    return make_model(tmp_path_factory.mktemp("model") / "small")


@pytest.fixture(scope="session")
def desks(tmp_path_factory: pytest.TempPathFactory) -> Journey:
    """A finished sequential run of the tiny model over two desk domains; never changed."""
    journey = desk_journey(tmp_path_factory.mktemp("desks") / "sequential")
    assert go(journey) is None
    assert journey.config.environment.name == DESK
    return journey
