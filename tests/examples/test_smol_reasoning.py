"""examples/smol_reasoning.yaml, with the built-in model in SmolLM2's place: all but the weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import invoke
from recollect.telemetry.reading import read_metrics

pytest.importorskip("reasoning_gym")
EXAMPLE = Path(__file__).parents[2] / "examples" / "smol_reasoning.yaml"
SHORT = ("run.steps=2", "run.name=r", "model.name=tiny", "eval.tasks=3", "rollout.rows_per_task=2")


@pytest.mark.parametrize("weights", [(), ("model.lora.rank=0", "train.learning_rate=2e-5")])
def test_it_trains_adapters_and_all_weights(
    weights: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke("train", str(EXAMPLE), *SHORT, *weights)
    assert result.exit_code == 0, result.output
    found = read_metrics(tmp_path / "runs" / "r")
    assert [line.step for line in found.evaluations] == [0, 2]
    assert {score.domain for score in found.evaluations[0].scores} == {
        "chain_sum", "gcd", "products",
    }  # fmt: skip
    assert all(line.metrics["time/processor"] > 0 for line in found.steps)
