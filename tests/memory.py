"""A folder in memory, where flushing costs nothing: for tests that are not about durability."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SHARED_MEMORY = "/dev/shm"


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    """Make a folder in memory if the system has a place for it, and remove it in the end."""
    place = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="recollect-", dir=place) as folder:
        yield Path(folder)
