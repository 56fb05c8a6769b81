"""What an engine that samples beside the trainer can and cannot be asked."""

from __future__ import annotations

import pytest

from recollect.config.loading import load_config
from recollect.errors import BadConfig

VLLM, SERVER = "rollout.engine=vllm", "rollout.engine=vllm-server"
URL = "rollout.url=http://127.0.0.1:8000"


@pytest.mark.parametrize(
    "flags",
    [
        [],
        [VLLM],
        [VLLM, "rollout.mismatch_cap=none"],
        [VLLM, "rollout.temperature=0.7"],
        [VLLM, "rollout.top_p=0.9"],
        [VLLM, "rollout.top_k=20", "eval.temperature=0"],
        [VLLM, "draw.choice=lowest_entropy", "replay.modes=[]"],
        [SERVER, URL],
        ["model.lora.rank=4"],
    ],
)
def test_what_is_taken(flags: list[str]) -> None:
    load_config(None, flags)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([VLLM, "model.lora.rank=4"], "whole weights only"),
        ([VLLM, "train.parallel=fsdp2"], "cuts them"),
        ([SERVER], "does not say where it is"),
        ([URL], "asks no server"),
        ([VLLM, URL], "asks no server"),
        ([SERVER, "rollout.url=ftp://here"], "must begin with http"),
        ([VLLM, "rollout.top_p=0.9", "rollout.temperature=0.7"], "rollout.temperature = 0.7"),
        ([VLLM, "rollout.top_k=9", "eval.temperature=0.5"], "eval.temperature = 0.5"),
        ([VLLM, "draw.choice=lowest_entropy", "replay.modes=[mix]"], "goes by entropies"),
        ([VLLM, "rollout.mismatch_cap=0.5"], "at least 1"),
        (["rollout.engine=vlm"], "vllm"),
    ],
)
def test_what_is_refused(flags: list[str], said: str) -> None:
    with pytest.raises(BadConfig, match=said) as caught:
        load_config(None, flags)
    assert caught.value.hint or caught.value.problems
