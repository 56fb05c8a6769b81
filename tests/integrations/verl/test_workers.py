"""verl's own workers, FSDP2 over gloo, one and two of them, against the machines of these tests.

No Ray: the workers are started as processes and told what the driver would tell them.

    verl-env/bin/python -m pytest tests/integrations/verl/test_workers.py -m long
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from recollect.train.folder import create_run
from train.small import make_config

from .machines import LocalMachines
from .verl_processes import last_words, needs_verl, start
from .worker_process import RATE, UPDATES, sample_rows

pytestmark = [needs_verl, pytest.mark.long, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("count", [1, 2])
def test_scores_losses_and_weights_are_those_of_one_process(
    count: int, model: Path, tmp_path: Path
) -> None:
    from safetensors.torch import load_file

    config = make_config(model, "algo.aggregation=seq-mean-token-mean")
    run = create_run(tmp_path / "run", config).path
    codes = start("worker_process.py", run, tmp_path, count)
    assert codes == [0] * count, last_words(tmp_path, count)
    said = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(count)]
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
    begun = load_file(Path(config.model.name) / "model.safetensors")
    for name, parameter in machines.policy.model.state_dict().items():
        torch.testing.assert_close(saved[name].float(), parameter, rtol=1e-3, atol=5e-5)
        moved = max(moved, float((parameter - begun[name]).abs().max()))
    assert moved > RATE
