"""A small model for the tests of training on a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from train.small import make_model


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model's folder, never changed."""
    return make_model(tmp_path_factory.mktemp("model") / "small")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a configuration and nothing else."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text("run:\n  seed: 5\n")
    return tmp_path
