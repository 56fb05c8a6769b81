"""Starting scripts of these tests with verl's platform for a CPU."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from recollect.integrations.verl.loss import RUN_VARIABLE
from recollect.integrations.verl.mapping import CPU_PLUGINS, PLUGIN

TESTS = Path(__file__).parents[2]
LIMIT = 3000  # seconds: verl itself waits for ever
needs_verl = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("verl", "ray", "transfer_queue")),
    reason="TRAINING UNDER VERL IS NOT TESTED HERE: verl is not installed. In an environment of "
    "its own: pip install -e '.[verl]', then pytest tests/integrations/verl -m 'long or not long'",
)


def start(script: str, run: Path, out: Path, count: int, *words: str) -> list[int]:
    """Run a script in `count` processes that know of each other; gives their exit codes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = {
        **os.environ,
        RUN_VARIABLE: str(run),
        "VERL_PLATFORM": "cpu",
        "VERL_USE_EXTERNAL_MODULES": ",".join([*CPU_PLUGINS, PLUGIN]),
        "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
        "WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    path = Path(__file__).with_name(script)
    processes = []
    for rank in range(count):
        with log_of(out, rank).open("a") as log:
            processes.append(
                subprocess.Popen(
                    [sys.executable, str(path), str(run), str(out), *words],
                    env={**told, "RANK": str(rank)},
                    stdout=log,
                    stderr=log,
                )
            )
    try:
        return [process.wait(timeout=LIMIT) for process in processes]
    finally:
        for process in processes:
            process.kill()


def log_of(out: Path, rank: int) -> Path:
    """Where a process writes what it has to say."""
    return out / f"rank{rank}.log"


def last_words(out: Path, count: int) -> str:
    """The end of all logs, for whoever has to find out why."""
    return "\n".join(log_of(out, rank).read_text()[-4000:] for rank in range(count))
