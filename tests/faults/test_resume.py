"""Exact resume (F2, F19, F20): killed with SIGKILL anywhere, a run ends as if it never had been.

Every loss, reward, score and drawn task, the rows in the store and the final weights are compared
bit for bit with those of a run that nobody disturbed. Children are real processes that run the
real command line; they are forked from a server that has imported everything.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest

from recollect.proof.traces import trace
from recollect.store import open_reader
from reporting import chosen_seed, report
from train.processes import cli, run_cli, start, start_cli
from train.small import make_model, settings

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")

STEPS = 6
FULL = (f"run.steps={STEPS}", "checkpoint.every=2", "eval.every=3", "run.name=run")
LORA = (*FULL, "model.lora.rank=2", "algo.kl_coef=0.1")
NEVER_SAVED = (*FULL, "checkpoint.every=0")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model") / "small")


class Undisturbed:
    """Runs that nobody disturbed, made when they are first asked for."""

    def __init__(self, model: Path, root: Path) -> None:
        self._model = model
        self._root = root
        self._known: dict[tuple[str, ...], dict[str, Any]] = {}

    def __getitem__(self, flags: tuple[str, ...]) -> dict[str, Any]:
        if flags not in self._known:
            root = self._root / str(len(self._known))
            code = run_cli(self._root / "log", *train_command(self._model, root, flags))
            assert code == 0, (self._root / "log").read_text()
            self._known[flags] = trace(root / "run")
        return self._known[flags]


@pytest.fixture(scope="module")
def undisturbed(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return Undisturbed(model, tmp_path_factory.mktemp("undisturbed"))


def train_command(model: Path, root: Path, flags: tuple[str, ...]) -> list[str]:
    preset = root / "small.yaml"
    root.mkdir(parents=True, exist_ok=True)
    preset.write_text("run:\n  seed: 3\n")
    return ["train", str(preset), *settings(model, *flags), f"run.folder={root}"]


def lines(root: Path) -> int:
    path = root / "run" / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def kill_later(process: ForkServerProcess, root: Path, more: int, delay: float) -> bool:
    """Kill a run some lines of metrics and some milliseconds from now; False if it was faster."""
    target = lines(root) + more
    while process.is_alive() and lines(root) < target:
        time.sleep(0.003)
    time.sleep(delay)
    process.kill()
    process.join()
    return process.exitcode == -signal.SIGKILL


def disturbed_run(
    model: Path, root: Path, flags: tuple[str, ...], most: int, chance: random.Random
) -> int:
    """Train to the end with up to `most` kills on the way; return how many there were."""
    log = root.parent / f"{root.name}.log"
    process = start_cli(log, *train_command(model, root, flags))
    kills = 0
    while kills < most:
        # The first must leave a run to resume; its folder is there before its first line.
        more, delay = chance.randrange(kills == 0, 4), chance.uniform(0, 0.25)
        if not kill_later(process, root, more, delay):
            break
        kills += 1
        report(f"{root.name}: kill {kills} after {lines(root)} lines and {delay:.3f} s")
        process = start_cli(log, "resume", root / "run")
    process.join(60)
    assert process.exitcode == 0, log.read_text()
    return kills


def kill_and_compare(
    model: Path, folder: Path, flags: tuple[str, ...], kills: int, expected: Any
) -> None:
    """Kill runs so many times in all, and compare each with one that nobody disturbed."""
    chance, done, number = random.Random(chosen_seed("resume")), 0, 0
    while done < kills:
        root = folder / f"run {number}"
        done += disturbed_run(model, root, flags, kills - done, chance)
        check(root, expected)
        number += 1


def check(root: Path, expected: dict[str, Any]) -> None:
    found = trace(root / "run")
    for part, wanted in expected.items():
        assert found[part] == wanted, part
    assert found["store"]["cursor"].step == STEPS
    # Rows of steps that were done twice are kept, once aside and once in play.
    with open_reader(root / "run" / "store.db") as store:
        assert store.stats().trajectories == 8 * STEPS
    assert not list((root / "run" / "checkpoints").glob(".draft*"))


@pytest.mark.parametrize("kills", [3, pytest.param(40, marks=pytest.mark.long)])
def test_killed_at_random_moments(
    model: Path, undisturbed: Undisturbed, tmp_path: Path, kills: int
) -> None:
    kill_and_compare(model, tmp_path, FULL, kills, undisturbed[FULL])


@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.long)])
def test_killed_with_adapters_and_a_reference(
    model: Path, undisturbed: Undisturbed, tmp_path: Path, kills: int
) -> None:
    kill_and_compare(model, tmp_path, LORA, kills, undisturbed[LORA])


@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.long)])
def test_killed_before_the_first_checkpoint(
    model: Path, undisturbed: Undisturbed, tmp_path: Path, kills: int
) -> None:
    """There is nothing to go on from, so it begins anew; not even the evaluation is kept."""
    # Whether a run saves itself on the way makes no difference to where it ends.
    kill_and_compare(model, tmp_path, NEVER_SAVED, kills, undisturbed[FULL])


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
        check(root, undisturbed[FULL])
        if child.exitcode == 0:
            break
