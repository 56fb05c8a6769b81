"""A small model for every test of training."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect.models.loading import Policy

from .small import load_small, make_model


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model's folder, never changed."""
    return make_model(tmp_path_factory.mktemp("model") / "small")


@pytest.fixture
def policy(model: Path) -> Policy:
    """The small model, loaded anew."""
    return load_small(model)
