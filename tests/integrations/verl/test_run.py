"""The real thing: verl over Ray on this CPU, where it is installed.

python -m venv verl-env && verl-env/bin/pip install -e '.[verl]' pytest pytest-timeout
verl-env/bin/python -m pytest tests/integrations/verl/test_run.py -m long
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from recollect.store import open_reader
from recollect.store.records import Query
from recollect.telemetry.reading import read_metrics
from recollect.types import RunId

from .verl_processes import needs_verl

pytestmark = [needs_verl, pytest.mark.long, pytest.mark.timeout(3600)]
LIMIT = 1500  # seconds for one run: verl itself waits for ever
STEPS = 10
FLAGS = (
    f"run.steps={STEPS}",
    "model.device=cpu",
    "environment.name=desk:airline",
    "environment.options.size=12",
    "environment.levels=[1,2]",
    "environment.tasks=6",
    "eval.every=0",
    "checkpoint.every=3",
    "rollout.tasks_per_step=2",
    "rollout.rows_per_task=4",
    "rollout.batch_rows=16",
    "rollout.max_tokens=480",
    "rollout.episode_seconds=600",
    "rollout.call_seconds=60",
    "train.learning_rate=1e-3",
    "replay.modes=[mix,repair,buffer]",
    "replay.buffer_updates=1",
    "replay.buffer_rows=4",
)


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "recollect", *words]


def environment() -> dict[str, str]:
    """Ray on loopback, without a token in the home folder and without the hub."""
    quiet = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "HF_HUB_OFFLINE": "1"}
    return {**os.environ, "OMP_NUM_THREADS": "1", "RECOLLECT_PLAIN": "1", **quiet}


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words),
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


def start(folder: Path, workers: int, *flags: str) -> list[str]:
    name = f"run.name=w{workers}"
    return ["train", "demo", "--engine", "verl", "--gpus", str(workers), name, *FLAGS, *flags]


def check(folder: Path, run_id: RunId) -> dict[str, Any]:
    """What a finished run must show: uses are draws that were applied, each once."""
    metrics = read_metrics(folder)
    assert [step.step for step in metrics.steps] == list(range(1, STEPS + 1))
    with open_reader(folder / "store.db") as store:
        assert list(store.verify()) == []
        uses, cursor = store.uses(run_id), store.cursor(run_id)
        draws = {(d.step, d.slot): d for s in range(STEPS + 1) for d in store.draws(run_id, s)}
        rows = {row.id: row for row in store.get([use.trajectory for use in uses])}
        assert store.count(Query(run=run_id)) > 0
    assert uses, "nothing was replayed"
    assert len({(use.step, use.slot) for use in uses}) == len(uses)
    for use in uses:
        draw, row = draws[use.step, use.slot], rows[use.trajectory]
        assert draw.trajectory == use.trajectory
        assert row.step < use.step
        assert draw.age >= 1
    assert cursor is not None
    assert cursor.step == STEPS
    # Before the step's first update: what servers recorded against what workers compute.
    gaps = [step.metrics.get("policy/logprob_diff") for step in metrics.steps]
    known = [gap for gap in gaps if gap is not None]
    assert known
    assert max(known) < 1e-4, "servers and workers disagree"
    return {"uses": uses, "draws": draws, "rows": rows, "metrics": metrics}


@pytest.mark.parametrize("workers", [1, 2])
def test_ten_steps_on_a_desk(workers: int, tmp_path: Path) -> None:
    result = run(tmp_path, *start(tmp_path, workers))
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    found = check(tmp_path / "runs" / f"w{workers}", RunId(f"w{workers}"))
    spread = [abs(use.ratio_max - use.ratio_mean) for use in found["uses"]]
    assert max(spread) > 0, "ratios of stored rows do not move: nothing was learnt"


def test_killed_and_resumed_without_loss_or_double_use(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "w1"
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            command(*start(tmp_path, 1)),
            cwd=tmp_path,
            env=environment(),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    wait_for_steps(process, folder, 4, tmp_path / "log")  # one more than the checkpoint's
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    result = run(tmp_path, "resume", str(folder))
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    check(folder, RunId("w1"))


def test_a_lost_node_ends_in_a_message(tmp_path: Path) -> None:
    """Three nodes on loopback, one for the driver and two that train; one of those is killed."""
    from ray.cluster_utils import Cluster

    size = {"num_cpus": 16, "object_store_memory": 200_000_000}
    nodes = Cluster(initialize_head=True, head_node_args={**size, "num_gpus": 0})
    process = None
    try:
        doomed = [nodes.add_node(num_gpus=1, **size) for _ in range(2)][1]
        words = start(tmp_path, 1)
        at = words.index("--gpus")
        words[at:at] = ["--nodes", "2", "--ray", nodes.address]
        folder = tmp_path / "runs" / "w1"
        with (tmp_path / "log").open("w") as log:
            process = subprocess.Popen(
                command(*words), cwd=tmp_path, env=environment(), stdout=log, stderr=log
            )
        wait_for_steps(process, folder, 2, tmp_path / "log")
        nodes.remove_node(doomed, allow_graceful=False)
        assert process.wait(timeout=LIMIT) == 2
        said = (tmp_path / "log").read_text()
        assert "error: The cluster cannot go on" in said, said[-4000:]
        assert "recollect resume" in said
    finally:
        if process is not None and process.poll() is None:
            process.kill()
        nodes.shutdown()


def wait_for_steps(process: subprocess.Popen[bytes], folder: Path, steps: int, log: Path) -> None:
    ended = time.monotonic() + LIMIT
    while time.monotonic() < ended and process.poll() is None:
        if _steps(folder) >= steps:
            return
        time.sleep(0.5)
    raise AssertionError(log.read_text()[-4000:])


def _steps(folder: Path) -> int:
    """Steps in the metrics: nothing is evaluated, so every line is one."""
    path = folder / "metrics.jsonl"
    return len(path.read_text().splitlines()) if path.is_file() else 0
