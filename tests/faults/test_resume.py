"""Exact resume (F2, F19, F20): killed with SIGKILL anywhere, a run ends as if it never had been.

Every loss, reward, score and drawn task, the rows in the store and the final weights are compared
bit for bit with those of a run that nobody disturbed.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from recollect.proof.traces import trace
from recollect.store import open_reader
from train.processes import cli, run_cli, start

from .killing import Trace, Undisturbed, compare, kill_and_compare, train_command

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")

STEPS = 6
FULL = (f"run.steps={STEPS}", "checkpoint.every=2", "eval.every=3", "run.name=run")
LORA = (*FULL, "model.lora.rank=2", "algo.kl_coef=0.1")
NEVER_SAVED = (*FULL, "checkpoint.every=0")


@pytest.fixture(scope="module")
def undisturbed(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return Undisturbed(model, tmp_path_factory.mktemp("undisturbed"), checked_trace)


def checked_trace(folder: Path) -> Trace:
    """Everything that must be the same, of a run that ended well and left nothing half done."""
    found = trace(folder)
    assert found["store"]["cursor"].step == STEPS
    # Rows of steps that were done twice are kept, once aside and once in play.
    with open_reader(folder / "store.db") as store:
        assert store.stats().trajectories == 8 * STEPS
    assert not list((folder / "checkpoints").glob(".draft*"))
    return found


def kill_and_check(
    model: Path, folder: Path, flags: tuple[str, ...], kills: int, expected: Trace
) -> None:
    kill_and_compare(model, folder, flags, kills, expected, checked_trace, "resume")


@pytest.mark.parametrize("kills", [3, pytest.param(40, marks=pytest.mark.long)])
def test_killed_at_random_moments(
    model: Path, undisturbed: Undisturbed, tmp_path: Path, kills: int
) -> None:
    kill_and_check(model, tmp_path, FULL, kills, undisturbed[FULL])


@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.long)])
def test_killed_with_adapters_and_a_reference(
    model: Path, undisturbed: Undisturbed, tmp_path: Path, kills: int
) -> None:
    kill_and_check(model, tmp_path, LORA, kills, undisturbed[LORA])


@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.long)])
def test_killed_before_the_first_checkpoint(
    model: Path, undisturbed: Undisturbed, tmp_path: Path, kills: int
) -> None:
    """There is nothing to go on from, so it begins anew; not even the evaluation is kept."""
    # Whether a run saves itself on the way makes no difference to where it ends.
    kill_and_check(model, tmp_path, NEVER_SAVED, kills, undisturbed[FULL])


def _die_at_file_event(log: str, arguments: list[str], folder: str, at: int) -> None:
    """Run the command line, and die before the n-th thing it does to a file of the run."""
    count = 0

    def watch(event: str, details: tuple[object, ...]) -> None:
        nonlocal count
        if event.startswith(("open", "os.", "shutil.")) and any(
            isinstance(detail, str) and detail.startswith(folder) for detail in map(_text, details)
        ):
            count += 1
            if count == at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    cli(log, arguments)


def _text(detail: object) -> str:
    return os.fsdecode(detail) if isinstance(detail, str | bytes | os.PathLike) else ""


@pytest.mark.parametrize("places", [(40,), pytest.param(None, marks=pytest.mark.long)])
def test_killed_between_two_things_done_to_its_files(
    model: Path, undisturbed: Undisturbed, tmp_path: Path, places: tuple[int, ...] | None
) -> None:
    """Of all places: in the midst of a checkpoint, of its renaming, of pruning, of metrics."""
    for at in places or range(5, 400, 11):
        root = tmp_path / str(at)
        log = tmp_path / f"{at}.log"
        command = train_command(model, root, FULL)
        child = start(_die_at_file_event, str(log), command, str(root / "run"), at)
        child.join(60)
        if child.exitcode != 0:
            assert child.exitcode == -signal.SIGKILL, log.read_text()
            if not (root / "run" / "config.yaml").exists():
                continue  # nothing was begun, nothing can be resumed
            assert run_cli(log, "resume", root / "run") == 0, log.read_text()
        compare(checked_trace(root / "run"), undisturbed[FULL])
        if child.exitcode == 0:
            break
