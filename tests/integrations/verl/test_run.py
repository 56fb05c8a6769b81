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

import pytest

from recollect.integrations.verl.loss import RUN_VARIABLE
from recollect.types import RunId

from .evidence import check_run
from .verl_processes import needs_verl

pytestmark = [needs_verl, pytest.mark.long, pytest.mark.timeout(3600)]
LIMIT = 1500  # seconds for one run: verl itself waits for ever
STEPS = 10
SAVED = 3
FLAGS = (
    f"run.steps={STEPS}",
    "model.device=cpu",
    "environment.name=desk:airline",
    "environment.options.size=12",
    "environment.levels=[1,2]",
    "environment.tasks=6",
    "eval.every=0",
    f"checkpoint.every={SAVED}",
    "rollout.tasks_per_step=3",
    "rollout.rows_per_task=6",
    "rollout.batch_rows=16",
    "rollout.max_tokens=480",
    "rollout.episode_seconds=600",
    "rollout.call_seconds=60",
    "train.learning_rate=2e-4",
    "replay.modes=[mix,repair,buffer]",
    "replay.buffer_updates=1",
    "replay.buffer_rows=4",
)

# Who is killed, and what is said then.
LOST = {
    "Runner": "the driver is gone",
    "WorkerDict": "ActorDiedError",
    "AgentLoopWorkerTQ": "an agent loop worker is gone",
}


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "recollect", *words]


def environment() -> dict[str, str]:
    """Ray on loopback, without a token in the home folder and without the hub.

    Its workers are not nicer than whatever else runs here: else they hardly run.
    """
    quiet = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "HF_HUB_OFFLINE": "1"}
    quiet["RAY_worker_niceness"] = "0"
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


def start(workers: int, *words: str) -> list[str]:
    name = f"run.name=w{workers}"
    return ["train", "demo", "--engine", "verl", "--gpus", str(workers), *words, name, *FLAGS]


def launch(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start a command that writes to `log` in a folder."""
    with (folder / "log").open("w") as log:
        return subprocess.Popen(
            command(*words), cwd=folder, env=environment(), stdout=log, stderr=log
        )


@pytest.mark.parametrize("workers", [1, 2])
def test_ten_steps_on_a_desk(workers: int, tmp_path: Path) -> None:
    result = run(tmp_path, *start(workers))
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    check_run(tmp_path / "runs" / f"w{workers}", RunId(f"w{workers}"), STEPS, workers)


def test_killed_and_resumed_without_loss_or_double_use(tmp_path: Path) -> None:
    """The command is killed, as by a user; Ray and its processes have to notice by themselves."""
    folder = tmp_path / "runs" / "w2"
    process = launch(tmp_path, *start(2))
    wait_for_steps(process, folder, SAVED + 1, tmp_path / "log")
    process.kill()
    process.wait()
    result = run(tmp_path, "resume", str(folder))  # at once
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    check_run(folder, RunId("w2"), STEPS, 2)


@pytest.mark.parametrize("who", LOST)
def test_a_lost_process_ends_in_a_message(who: str, tmp_path: Path) -> None:
    said = killed(tmp_path, who)
    assert f"error: The cluster cannot go on: {LOST[who]}" in said, said[-4000:]
    assert f"recollect resume {tmp_path / 'runs' / 'w1'}" in said


def test_a_lost_server_ends_in_a_message(tmp_path: Path) -> None:
    """Found out by whoever sends it weights, or by attempts that fail: whichever comes first."""
    assert "error: " in killed(tmp_path, "CpuServer")


def test_a_lost_node_ends_in_a_message_and_the_run_goes_on_elsewhere(tmp_path: Path) -> None:
    """Three nodes on loopback, one for the driver and two that train; one of those is killed."""
    from ray.cluster_utils import Cluster

    size = {"num_cpus": 16, "object_store_memory": 200_000_000}
    nodes = Cluster(initialize_head=True, head_node_args={**size, "num_gpus": 0})
    process = None
    try:
        doomed = [nodes.add_node(num_gpus=1, **size) for _ in range(2)][1]
        folder = tmp_path / "runs" / "w1"
        process = launch(tmp_path, *start(1, "--nodes", "2", "--ray", nodes.address))
        wait_for_steps(process, folder, SAVED + 1, tmp_path / "log")
        nodes.remove_node(doomed, allow_graceful=False)
        assert process.wait(timeout=LIMIT) == 2
        said = (tmp_path / "log").read_text()
        assert "error: The cluster cannot go on" in said, said[-4000:]
        assert f"recollect resume {folder}" in said
        nodes.add_node(num_gpus=1, **size)
        result = run(tmp_path, "resume", str(folder))
        assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
        check_run(folder, RunId("w1"), STEPS, 2)
    finally:
        if process is not None and process.poll() is None:
            process.kill()
        nodes.shutdown()


def killed(tmp_path: Path, who: str) -> str:
    """Kill a process of a run; gives what the command said then. It has five minutes for it."""
    folder = tmp_path / "runs" / "w1"
    process = launch(tmp_path, *start(1))
    wait_for_steps(process, folder, 1, tmp_path / "log")
    os.kill(process_of(folder, who), signal.SIGKILL)
    assert process.wait(timeout=300) == 2
    said = (tmp_path / "log").read_text()
    assert "Traceback" not in said
    return said


def process_of(folder: Path, name: str) -> int:
    """Find the one process of Ray's that has a name and works for a run."""
    import psutil

    found = [
        process.pid
        for process in psutil.process_iter()
        if any(f"ray::{name}" in word for word in process.cmdline())
        and process.environ().get(RUN_VARIABLE) == str(folder)
    ]
    assert len(found) == 1, found
    return found[0]


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
