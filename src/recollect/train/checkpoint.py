"""Checkpoints: ordinary model folders that are whole or not there at all.

A checkpoint is written into a hidden folder, every file is flushed to disk, a manifest with
the size and SHA-256 of each is written last, and only then the folder gets its name. Whatever
was killed halfway stands under a hidden name and is ignored.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recollect.canonical import Json, canonical_json
from recollect.errors import CheckpointDamaged

MANIFEST = "recollect.json"
_NAME = re.compile(r"step_(\d+)")
_DRAFT = ".draft_"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A whole checkpoint: its folder, the step it was taken after, and what was noted then."""

    folder: Path
    step: int
    state: Mapping[str, Json]


def save_checkpoint(
    folder: Path, step: int, state: Mapping[str, Json], write: Callable[[Path], None]
) -> Checkpoint:
    """Write a checkpoint durably; `write` puts the model's files into the folder it is given."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"step_{step:06d}"
    draft = folder / f"{_DRAFT}{target.name}"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    write(draft)
    # Some tokenizers make folders in it, for templates beside their first.
    files: dict[str, Json] = {
        path.relative_to(draft).as_posix(): _entry(path)
        for path in sorted(draft.rglob("*"))
        if path.is_file()
    }
    (draft / MANIFEST).write_text(_manifest(step, state, files), encoding="utf-8")
    flush_all(draft)
    remove(target)  # a damaged one: the step would not be done again otherwise
    draft.rename(target)
    flush(folder)
    return Checkpoint(target, step, state)


def load_checkpoint(folder: Path) -> Checkpoint:
    """Read and check a checkpoint; CheckpointDamaged names the first file that has changed."""
    try:
        text = (folder / MANIFEST).read_text(encoding="utf-8")
        manifest = json.loads(text)
        step, state, files = manifest["step"], manifest["state"], manifest["files"]
        if text != _manifest(step, state, files) or step != _step_of(folder):
            raise ValueError("it is not as it was written")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointDamaged(folder, f"its {MANIFEST} cannot be used ({error})") from error
    for name, entry in files.items():
        path = folder / name
        outside = Path(name).is_absolute() or ".." in Path(name).parts
        if outside or not path.is_file() or _entry(path) != entry:
            raise CheckpointDamaged(folder, f"{name} is not as it was written")
    return Checkpoint(folder, step, state)


def newest_checkpoint(
    folder: Path, tell: Callable[[CheckpointDamaged], None] = lambda damage: None
) -> Checkpoint | None:
    """Find the newest whole checkpoint; `tell` hears of damaged ones that are passed over."""
    for path in reversed(_checkpoints(folder)):
        try:
            return load_checkpoint(path)
        except CheckpointDamaged as damage:
            tell(damage)
    return None


def last_saved_step(folder: Path) -> int:
    """Name the step of the newest checkpoint without reading it; 0 if there is none."""
    return max((_step_of(path) for path in _checkpoints(folder)), default=0)


def prune_checkpoints(folder: Path, step: int, keep: int) -> None:
    """Keep the checkpoint of `step`, just saved, and the `keep` - 1 before it; remove all others.

    Those of later steps are damaged, or the run would have gone on from them.
    """
    found = _checkpoints(folder)
    older = [path for path in found if _step_of(path) < step]
    kept = older[max(0, len(older) - keep + 1) :]
    for path in found:
        if path not in kept and _step_of(path) != step:
            remove(path)
    remove_drafts(folder)


def remove_drafts(folder: Path) -> None:
    """Remove what a killed save, or a killed removal, left under a hidden name."""
    for path in folder.glob(f"{_DRAFT}*"):
        shutil.rmtree(path, ignore_errors=True)


def _checkpoints(folder: Path) -> list[Path]:
    """List what is named like a checkpoint, oldest step first."""
    found = [path for path in folder.glob("step_*") if path.is_dir() and _step_of(path) >= 0]
    return sorted(found, key=_step_of)


def _step_of(folder: Path) -> int:
    match = _NAME.fullmatch(folder.name)
    return int(match[1]) if match else -1


def _manifest(step: Any, state: Any, files: Any) -> str:
    """Spell the manifest: one text for one content, with a seal over all of it."""
    if not isinstance(step, int) or not isinstance(state, Mapping) or not isinstance(files, dict):
        raise TypeError("its fields are of the wrong kind")
    content = {"step": step, "state": dict(state), "files": files}
    seal = hashlib.sha256(canonical_json(content).encode()).hexdigest()
    return canonical_json({**content, "seal": seal})


def _entry(path: Path) -> list[Json]:
    hasher = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            hasher.update(block)
    return [path.stat().st_size, hasher.hexdigest()]


def remove(folder: Path) -> None:
    """Take a folder away at once, then its files one by one."""
    if folder.exists():
        doomed = folder.with_name(f"{_DRAFT}old_{folder.name}")
        shutil.rmtree(doomed, ignore_errors=True)
        folder.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def flush_all(folder: Path) -> None:
    """Make everything in a folder, folders in it too, survive power loss."""
    for path in (*folder.rglob("*"), folder):
        flush(path)


def flush(path: Path) -> None:
    """Make a file's content, or a folder's list of names, survive power loss."""
    if os.name == "nt" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
