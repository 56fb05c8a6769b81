"""verl's own workers, FSDP2 over gloo, one and two of them, against the machines of these tests.

No Ray: the workers are started as processes and told what the driver would tell them.

    verl-env/bin/python -m pytest tests/integrations/verl/test_workers.py -m long
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from recollect.integrations.verl.loss import RUN_VARIABLE
from recollect.integrations.verl.mapping import CPU_PLUGINS, PLUGIN
from recollect.train.folder import create_run
from train.small import make_config

from .machines import LocalMachines
from .worker_process import RATE, UPDATES, sample_rows

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(
        any(find_spec(name) is None for name in ("verl", "ray", "transfer_queue")),
        reason="VERL'S WORKERS ARE NOT TESTED HERE: verl is not installed. "
        "pip install -e '.[verl]' in its own environment; pytest tests/integrations/verl -m long",
    ),
]
SCRIPT = Path(__file__).with_name("worker_process.py")
TESTS = Path(__file__).parents[2]


def ask_workers(run: Path, out: Path, count: int) -> list[dict[str, list[dict[str, float]]]]:
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
    logs = [out / f"rank{rank}.log" for rank in range(count)]
    processes = []
    for rank, path in enumerate(logs):
        with path.open("w") as log:
            processes.append(
                subprocess.Popen(
                    [sys.executable, str(SCRIPT), str(run), str(out)],
                    env={**told, "RANK": str(rank)},
                    stdout=log,
                    stderr=log,
                )
            )
    try:
        codes = [process.wait(timeout=3000) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert codes == [0] * count, "\n".join(path.read_text()[-3000:] for path in logs)
    return [json.loads((out / f"rank{rank}.json").read_text()) for rank in range(count)]


@pytest.mark.parametrize("count", [1, 2])
def test_scores_losses_and_weights_are_those_of_one_process(
    count: int, model: Path, tmp_path: Path
) -> None:
    from safetensors.torch import load_file

    config = make_config(model, "algo.aggregation=seq-mean-token-mean")
    run = create_run(tmp_path / "run", config).path
    said = ask_workers(run, tmp_path, count)
    machines, rows = LocalMachines(config, count), sample_rows(run)
    scores = [each for one in said for each in one["logprobs"]][: len(rows)]
    for mine, theirs in zip(machines.logprobs(rows), scores, strict=True):
        np.testing.assert_allclose(theirs, mine, atol=2e-5)
    for number in range(UPDATES):
        applied = machines.train(rows, RATE)
        told = said[0]["updates"][number]
        assert told["loss"] == pytest.approx(applied.loss, rel=1e-4, abs=1e-5)
        assert told["grad_norm"] == pytest.approx(applied.grad_norm, rel=1e-3)
    assert said[0]["updates"][0]["actor/on_policy/ratio_std"] < 1e-5
    assert said[0]["updates"][1]["actor/on_policy/ratio_std"] > 1e-4
    saved = load_file(tmp_path / "saved" / "huggingface" / "model.safetensors")
    moved = 0.0
    start = load_file(Path(config.model.name) / "model.safetensors")
    for name, parameter in machines.policy.model.state_dict().items():
        torch.testing.assert_close(saved[name].float(), parameter, rtol=1e-3, atol=5e-5)
        moved = max(moved, float((parameter - start[name]).abs().max()))
    assert moved > RATE
