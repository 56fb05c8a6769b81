"""A small model, and the runs that the doctor looks at: made once, through the training loop."""

from __future__ import annotations

import pytest

from train.small import make_model

from .runs import Clinic


@pytest.fixture(scope="session")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Clinic:
    root = tmp_path_factory.mktemp("clinic")
    return Clinic(root, make_model(root / "model"))
