"""A store in memory for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integrations.hosts import new_store
from recollect.store.sqlite import SqliteStore


@pytest.fixture
def store() -> Iterator[SqliteStore]:
    with new_store() as store:
        yield store
