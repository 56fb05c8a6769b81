"""The model of the runs that are disturbed."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from train.small import make_model

    return make_model(tmp_path_factory.mktemp("model") / "small")
