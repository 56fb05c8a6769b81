"""The folder of a new run: found by name or by the next number, and gone if nothing was begun."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recollect.config.loading import LoadedConfig
    from recollect.train.folder import RunFolder


@dataclass(slots=True)
class NewFolder:
    """A folder for a run. `run` is the run that was made in it, `begun` that it was opened."""

    path: Path
    is_ours: bool  # it was not there before
    run: RunFolder | None = None
    begun: bool = False


@contextmanager
def new_folder(loaded: LoadedConfig) -> Iterator[NewFolder]:
    """Give a new run its folder: as configured, or after its configuration with the next number.

    Where the work fails before the run is begun, a folder that was made here goes again: `resume`
    would take it for a run that was interrupted. One that was there before always stays.
    """
    folder = _make(Path(loaded.config.run.folder), loaded.config.run.name, loaded.name)
    try:
        yield folder
    except BaseException as error:
        if folder.is_ours and not folder.begun:
            _take_away(folder, error)
        raise


def _make(root: Path, name: str, title: str) -> NewFolder:
    root.mkdir(parents=True, exist_ok=True)
    if name:
        try:
            (root / name).mkdir(parents=True)
        except FileExistsError:
            return NewFolder(root / name, is_ours=False)
        return NewFolder(root / name, is_ours=True)
    number = 1
    while True:
        path = root / f"{title}-{number}"
        try:
            path.mkdir()  # takes the number: others may be starting at the same moment
        except FileExistsError:
            number += 1
        else:
            return NewFolder(path, is_ours=True)


def _take_away(folder: NewFolder, error: BaseException) -> None:
    """Remove a folder in which nothing was begun, unless somebody else has use for it."""
    from recollect.errors import StoreLocked

    if folder.run is None:  # no run of ours is in it, so it is empty or somebody else's
        with suppress(OSError):
            folder.path.rmdir()
        return
    if not isinstance(error, StoreLocked) and not _is_in_use(folder.run):
        shutil.rmtree(folder.path, ignore_errors=True)


def _is_in_use(run: RunFolder) -> bool:
    """Tell whether another process goes on with the run, or a store elsewhere knows it by now."""
    from recollect.errors import RecollectError
    from recollect.store import open_reader, store_exists
    from recollect.store.lock import is_held_elsewhere

    try:
        config = run.load()
        place = run.store(config)
        if place == run.path / "store.db":
            return is_held_elsewhere(run.path / "store.db")
        if not store_exists(place):
            return False
        with open_reader(place, retry_seconds=0) as reader:
            return any(known.id == run.run(config) for known in reader.runs().values())
    except RecollectError:
        return False
