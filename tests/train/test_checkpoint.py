from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recollect.errors import CheckpointDamaged
from recollect.train.checkpoint import (
    MANIFEST,
    last_saved_step,
    load_checkpoint,
    newest_checkpoint,
    prune_checkpoints,
    save_checkpoint,
)

from .processes import start


def writer(text: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "model.safetensors").write_text(text * 100)
        (folder / "config.json").write_text(json.dumps({"text": text}))

    return write


def save(folder: Path, step: int, text: str = "x") -> Path:
    return save_checkpoint(folder, step, {"policy_version": step}, writer(text)).folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    saved = save_checkpoint(tmp_path, 12, {"policy_version": 34, "rows": 5}, writer("a"))
    found = newest_checkpoint(tmp_path)
    assert found == saved
    assert found is not None
    assert (found.step, found.state) == (12, {"policy_version": 34, "rows": 5})
    assert names(tmp_path) == ["step_000012"]
    manifest = json.loads((found.folder / MANIFEST).read_text())
    digest = hashlib.sha256((found.folder / "config.json").read_bytes()).hexdigest()
    assert manifest["files"]["config.json"][1] == digest


def test_files_in_folders_are_in_the_manifest_too(tmp_path: Path) -> None:
    """As a tokenizer with several chat templates writes them."""

    def write(folder: Path) -> None:
        (folder / "config.json").write_text("{}")
        (folder / "additional_chat_templates").mkdir()
        (folder / "additional_chat_templates" / "tool_use.jinja").write_text("{{ messages }}")

    saved = save_checkpoint(tmp_path, 1, {}, write)
    assert newest_checkpoint(tmp_path) == saved
    (saved.folder / "additional_chat_templates" / "tool_use.jinja").write_text("{{ nothing }}")
    with pytest.raises(CheckpointDamaged, match=r"templates/tool_use\.jinja"):
        load_checkpoint(saved.folder)


def test_none_is_none(tmp_path: Path) -> None:
    assert newest_checkpoint(tmp_path / "not there") is None
    assert last_saved_step(tmp_path / "not there") == 0


def test_newest_by_number_not_by_spelling(tmp_path: Path) -> None:
    for step in (999_999, 1_000_000, 7):
        save(tmp_path, step)
    assert last_saved_step(tmp_path) == 1_000_000
    found = newest_checkpoint(tmp_path)
    assert found is not None
    assert found.step == 1_000_000


def test_strangers_are_left_alone(tmp_path: Path) -> None:
    save(tmp_path, 3)
    (tmp_path / "step_best").mkdir()
    (tmp_path / "step_000009").write_text("a file")
    found = newest_checkpoint(tmp_path)
    assert found is not None
    assert found.step == 3
    prune_checkpoints(tmp_path, 3, 1)
    assert names(tmp_path) == ["step_000003", "step_000009", "step_best"]


def _change(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [_change, _shorten, _empty, Path.unlink])
@pytest.mark.parametrize("name", ["model.safetensors", "config.json", MANIFEST])
def test_damage_is_found_and_the_older_one_taken(
    tmp_path: Path, damage: Callable[[Path], None], name: str
) -> None:
    save(tmp_path, 1)
    newest = save(tmp_path, 2)
    damage(newest / name)
    with pytest.raises(CheckpointDamaged, match=name):
        load_checkpoint(newest)
    told: list[CheckpointDamaged] = []
    found = newest_checkpoint(tmp_path, told.append)
    assert found is not None
    assert found.step == 1
    assert len(told) == 1
    assert "step_000002" in told[0].what


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_any_flipped_bit_of_the_manifest_is_found(tmp_path: Path, place: int, bit: int) -> None:
    folder = tmp_path / "flipped"
    shutil.rmtree(folder, ignore_errors=True)
    path = save(folder, 5) / MANIFEST
    data = bytearray(path.read_bytes())
    data[place % len(data)] ^= 1 << bit
    path.write_bytes(data)
    with pytest.raises(CheckpointDamaged):
        load_checkpoint(path.parent)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        "3",
        '{"step": "1", "state": {}, "files": {}}',
        '{"step":1,"state":[],"files":[]}',
    ],
)
def test_nonsense_for_a_manifest(tmp_path: Path, text: str) -> None:
    folder = save(tmp_path, 1)
    (folder / MANIFEST).write_text(text)
    with pytest.raises(CheckpointDamaged, match=MANIFEST):
        load_checkpoint(folder)


def test_a_manifest_cannot_point_elsewhere(tmp_path: Path) -> None:
    """Even one with a right seal: it may come from somebody else."""
    save(tmp_path, 1)
    folder = save(tmp_path, 2)
    other = json.loads((tmp_path / "step_000001" / MANIFEST).read_text())["files"]
    moved = {f"../step_000001/{name}": entry for name, entry in other.items()}
    content = {"files": moved, "state": {}, "step": 2}
    spelt = json.dumps(content, sort_keys=True, separators=(",", ":"))
    seal = hashlib.sha256(spelt.encode()).hexdigest()
    sealed = json.dumps({**content, "seal": seal}, sort_keys=True, separators=(",", ":"))
    (folder / MANIFEST).write_text(sealed)
    with pytest.raises(CheckpointDamaged, match="is not as it was written"):
        load_checkpoint(folder)


def test_a_renamed_checkpoint_is_not_another_step(tmp_path: Path) -> None:
    save(tmp_path, 1).rename(tmp_path / "step_000009")
    assert newest_checkpoint(tmp_path) is None


def test_pruning_keeps_the_newest(tmp_path: Path) -> None:
    for step in range(1, 6):
        save(tmp_path, step)
    (tmp_path / ".draft_step_000003").mkdir()
    prune_checkpoints(tmp_path, 5, 2)
    assert names(tmp_path) == ["step_000004", "step_000005"]
    prune_checkpoints(tmp_path, 5, 9)
    assert names(tmp_path) == ["step_000004", "step_000005"]
    prune_checkpoints(tmp_path, 5, 1)
    assert names(tmp_path) == ["step_000005"]


def test_pruning_never_takes_the_one_just_saved_for_a_damaged_later_one(tmp_path: Path) -> None:
    """Step 20 broke, the run went back to 10 and was stopped at 15."""
    save(tmp_path, 10)
    (save(tmp_path, 20) / "config.json").unlink()
    save(tmp_path, 15)
    prune_checkpoints(tmp_path, 15, 1)
    assert names(tmp_path) == ["step_000015"]
    found = newest_checkpoint(tmp_path)
    assert found is not None
    assert found.step == 15


def test_a_step_that_is_done_again_takes_the_place_of_the_damaged_one(tmp_path: Path) -> None:
    (save(tmp_path, 4, "old") / MANIFEST).unlink()
    save(tmp_path, 4, "new")
    found = newest_checkpoint(tmp_path)
    assert found is not None
    assert "new" in (found.folder / "config.json").read_text()
    prune_checkpoints(tmp_path, 4, 1)
    assert names(tmp_path) == ["step_000004"]


def test_a_failing_write_leaves_the_old_one(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        writer("half")(folder)
        raise OSError("disk full")

    save(tmp_path, 1)
    with pytest.raises(OSError, match="disk full"):
        save_checkpoint(tmp_path, 2, {}, fail)
    found = newest_checkpoint(tmp_path)
    assert found is not None
    assert found.step == 1
    save(tmp_path, 2)
    prune_checkpoints(tmp_path, 2, 1)
    assert names(tmp_path) == ["step_000002"]


# -- killed while saving ------------------------------------------------------------------

# What a process does to files raises audit events. Killed before the n-th, for every n, a save
# is interrupted at every boundary there is.
_FILE_EVENTS = ("open", "os.mkdir", "os.rename", "os.rmdir", "os.remove", "shutil.rmtree")


def _save_and_die(folder: str, at: int) -> None:
    count = 0

    def die(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event in _FILE_EVENTS:
            count += 1
            if count == at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(die)
    save(Path(folder), 2, "b")
    prune_checkpoints(Path(folder), 2, 1)


def _expect_old_or_new(folder: Path) -> str:
    told: list[CheckpointDamaged] = []
    found = newest_checkpoint(folder, told.append)
    assert found is not None
    assert not told, "a checkpoint that stands under its name is whole"
    assert found.step in (1, 2)
    assert (found.folder / "config.json").is_file()
    return found.folder.name


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.long)])
def test_killed_between_two_boundaries_it_is_the_old_one_or_the_new_one(
    tmp_path: Path, every: int
) -> None:
    seen, finished = [], False
    for at in range(1, 60, every):
        folder = tmp_path / f"kill-{at}"
        save(folder, 1, "a")
        child = start(_save_and_die, str(folder), at)
        child.join(30)
        seen.append(_expect_old_or_new(folder))
        # And the next save goes through, whatever is left lying about.
        save(folder, 3, "c")
        prune_checkpoints(folder, 3, 1)
        assert names(folder) == ["step_000003"]
        if child.exitcode == 0:
            finished = True
            break
        assert child.exitcode == -signal.SIGKILL
    assert finished, "the save never ran to its end"
    assert seen[0] == "step_000001"
    assert seen[-1] == "step_000002"
    assert seen == sorted(seen)


def _save_forever(folder: str) -> None:
    for step in range(2, 100_000):
        save(Path(folder), step, str(step) * 1000)
        prune_checkpoints(Path(folder), step, 2)


@pytest.mark.parametrize("kills", [4, pytest.param(200, marks=pytest.mark.long)])
def test_killed_at_random_moments(tmp_path: Path, kills: int) -> None:
    chance = random.Random(1)
    for number in range(kills):
        folder = tmp_path / str(number)
        save(folder, 1)
        child = start(_save_forever, str(folder))
        while last_saved_step(folder) < 2 and child.is_alive():
            time.sleep(0.005)
        time.sleep(chance.uniform(0, 0.05))
        child.kill()
        child.join()
        told: list[CheckpointDamaged] = []
        found = newest_checkpoint(folder, told.append)
        assert found is not None
        assert found.step >= 2
        assert not told
        shutil.rmtree(folder)
