"""Runs killed with SIGKILL and resumed, and those that nobody disturbed, to compare them with.

Children are real processes that run the real command line; they are forked from a server that has
imported everything.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from reporting import chosen_seed, report
from train.processes import run_cli, start_cli
from train.small import settings

Trace = dict[str, Any]


def train_command(model: Path, root: Path, flags: tuple[str, ...]) -> list[str]:
    preset = root / "small.yaml"
    root.mkdir(parents=True, exist_ok=True)
    preset.write_text("run:\n  seed: 3\n")
    return ["train", str(preset), *settings(model, *flags), f"run.folder={root}"]


class Undisturbed:
    """Runs that nobody disturbed, made when they are first asked for, as `read` sees them."""

    def __init__(self, model: Path, root: Path, read: Callable[[Path], Trace]) -> None:
        self._model, self._root, self._read = model, root, read
        self._known: dict[tuple[str, ...], Trace] = {}

    def __getitem__(self, flags: tuple[str, ...]) -> Trace:
        if flags not in self._known:
            root, log = self._root / str(len(self._known)), self._root / "log"
            code = run_cli(log, *train_command(self._model, root, flags), seconds=200)
            assert code == 0, log.read_text()
            self._known[flags] = self._read(root / "run")
        return self._known[flags]


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
    model: Path,
    folder: Path,
    flags: tuple[str, ...],
    kills: int,
    expected: Trace,
    read: Callable[[Path], Trace],
    purpose: str,
) -> None:
    """Kill runs so many times in all, and compare each with one that nobody disturbed.

    `read` gives what must be the same, and may check more; `purpose` names the seed of chance.
    """
    chance, done, number = random.Random(chosen_seed(purpose)), 0, 0
    while done < kills:
        root = folder / f"run {number}"
        done += disturbed_run(model, root, flags, min(kills - done, 6), chance)
        compare(read(root / "run"), expected)
        number += 1


def compare(found: Trace, expected: Trace) -> None:
    """Show that a run has all that was expected of it, part by part."""
    for part, wanted in expected.items():
        assert found[part] == wanted, part
