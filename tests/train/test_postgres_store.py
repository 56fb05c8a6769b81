"""A run whose store is a PostgreSQL schema: the same run, bit for bit, and resumed like one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from postgres_server import new_address
from recollect.errors import BadConfig, RunExists, StoreLocked
from recollect.proof.traces import metrics_trace, trace
from recollect.store import open_reader
from recollect.train.folder import RunFolder, create_run
from recollect.train.session import open_session
from recollect.types import RunId

from .small import make_config, run_to_end
from .test_session import resume, stop_after


@pytest.fixture
def url() -> Iterator[str]:
    """An address without a password."""
    with new_address() as address:
        yield f"{address.url.replace(':secret', '')}?schema={address.schema}"


def test_the_store_does_not_change_the_run(model: Path, tmp_path: Path, url: str) -> None:
    config = make_config(model, "eval.every=0", "checkpoint.every=1")
    run_to_end(tmp_path / "file" / "r", config)
    config = make_config(model, "eval.every=0", "checkpoint.every=1", f"store.path={url}")
    folder = tmp_path / "server" / "r"
    run_to_end(folder, config, stop_after(2))
    resume(folder)
    assert trace(folder) == trace(tmp_path / "file" / "r")
    assert metrics_trace(folder) == metrics_trace(tmp_path / "file" / "r")
    with open_reader(url) as reader:
        assert reader.cursor(RunId("r")) is not None
        assert reader.stats().fenced == 0


def test_a_run_is_trained_once_at_a_time(model: Path, tmp_path: Path, url: str) -> None:
    config = make_config(model, "eval.every=0", "checkpoint.every=1", f"store.path={url}")
    run_to_end(tmp_path / "r", config, stop_after(1))
    with (
        open_session(RunFolder(tmp_path / "r"), {}),
        pytest.raises(StoreLocked, match="run r"),
    ):
        open_session(RunFolder(tmp_path / "r"), {})
    with pytest.raises(RunExists):
        create_run(tmp_path / "elsewhere" / "r", config)


def test_a_password_is_not_written_down(model: Path) -> None:
    for url in ("postgres://ann:x@db/pool", "postgresql://db/pool?password=x"):
        with pytest.raises(BadConfig, match="PGPASSWORD"):
            make_config(model, f"store.path={url}")
