"""The client of a vLLM server, against a server that answers the same calls with a small model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recollect.errors import GeneratorLost
from recollect.models.loading import Policy, load_policy
from recollect.rollout.turns import Turn
from recollect.rollout.vllm import LogprobsMode
from recollect.rollout.vllm_server import VllmServer
from recollect.types import Sampling
from train.small import make_model

from .speaking import SmallServer, serving, speak


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model") / "small")


@pytest.fixture
def policy(model: Path) -> Policy:
    return load_policy(str(model), device="cpu")


@pytest.fixture
def server(model: Path, policy: Policy) -> SmallServer:
    return SmallServer(str(model), policy.chat.stop_ids)


@contextmanager
def client(
    policy: Policy, server: SmallServer, folder: Path, mode: LogprobsMode = "processed_logprobs"
) -> Iterator[VllmServer]:
    with serving(server) as url:
        speaker = VllmServer(
            policy,
            url,
            folder / "served",
            positions=200,
            rows=4,
            mode=mode,
            token="secret",
            pause=lambda seconds: None,
        )
        try:
            yield speaker
        finally:
            speaker.close()


def turn(seed: int, temperature: float = 1.0) -> Turn:
    return Turn([2, 10, 11, 12], 6, seed, Sampling(temperature))


def test_turns_come_back_by_number(policy: Policy, server: SmallServer, tmp_path: Path) -> None:
    with client(policy, server, tmp_path) as speaker:
        assert speaker.max_positions == 200
        for number in range(8):
            speaker.ask(number, turn(number))
        found = dict(speaker.hear())
        while len(found) < 8:
            found.update(speaker.hear())
    for number, spoken in found.items():
        expected = speak(policy.model, policy.chat.stop_ids, turn(number))
        assert spoken.tokens == expected.tokens
        np.testing.assert_allclose(spoken.logprobs, expected.logprobs, atol=1e-6)
    assert set(server.tokens) == {"Bearer secret"}


def test_the_server_gets_the_weights_as_they_are_now(
    policy: Policy, server: SmallServer, tmp_path: Path
) -> None:
    with client(policy, server, tmp_path) as speaker:
        for change in (0.0, 0.5):
            with torch.no_grad():
                policy.model.lm_head.weight.add_(change)
                policy.model.model.embed_tokens.weight.mul_(1 + change)
            speaker.renew()
            speaker.ask(0, turn(1))
            ((_, spoken),) = speaker.hear()
            expected = speak(policy.model, policy.chat.stop_ids, turn(1))
            assert spoken.tokens == expected.tokens
            np.testing.assert_allclose(spoken.logprobs, expected.logprobs, atol=1e-6)
        assert server.reloaded == [str(tmp_path / "served")] * 2
        assert not server.paused
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("device", "tied", "times"), [("cpu", True, 1), ("cpu", False, 0), ("cuda", True, 0)]
)
def test_a_tied_output_layer_is_packed_anew_on_a_cpu(
    policy: Policy, server: SmallServer, tmp_path: Path, device: str, tied: bool, times: int
) -> None:
    server.device = device
    policy.model.config.tie_word_embeddings = tied
    with client(policy, server, tmp_path) as speaker:
        policy.model.config.tie_word_embeddings = False  # its weights are saved as they are
        speaker.renew()
        assert server.repacked == times


def test_a_cache_of_older_weights_is_not_used(
    policy: Policy, server: SmallServer, tmp_path: Path
) -> None:
    with client(policy, server, tmp_path) as speaker:
        server.empties = False
        with pytest.raises(GeneratorLost, match="prefix cache"):
            speaker.renew()
        assert not server.paused, "others may go on"


def test_a_server_that_is_busy_is_asked_again(
    policy: Policy, server: SmallServer, tmp_path: Path
) -> None:
    with client(policy, server, tmp_path) as speaker:
        server.failing = 2
        speaker.ask(0, turn(3))
        ((_, spoken),) = speaker.hear()
        assert spoken.tokens == speak(policy.model, policy.chat.stop_ids, turn(3)).tokens
        server.failing = 3
        speaker.ask(1, turn(3))
        with pytest.raises(GeneratorLost, match="answered 503"):
            speaker.hear()


def test_a_server_that_is_not_there(policy: Policy, server: SmallServer, tmp_path: Path) -> None:
    with serving(server) as url:
        pass
    with pytest.raises(GeneratorLost, match="cannot be reached") as caught:
        VllmServer(
            policy,
            url,
            tmp_path / "served",
            positions=200,
            rows=4,
            mode="processed_logprobs",
            pause=lambda seconds: None,
        )
    assert url in caught.value.what
    assert "VLLM_SERVER_DEV_MODE=1 vllm serve" in caught.value.hint


def test_a_server_without_its_calls_for_training(
    policy: Policy, server: SmallServer, tmp_path: Path
) -> None:
    server.dev = False
    with (
        pytest.raises(GeneratorLost, match="does not tell its settings") as caught,
        client(policy, server, tmp_path),
    ):
        pass
    assert "VLLM_SERVER_DEV_MODE=1" in caught.value.hint


def test_a_server_with_other_log_probs(policy: Policy, server: SmallServer, tmp_path: Path) -> None:
    with (
        pytest.raises(GeneratorLost, match=r"are processed_logprobs.*need raw_logprobs") as caught,
        client(policy, server, tmp_path, mode="raw_logprobs"),
    ):
        pass
    assert "--logprobs-mode raw_logprobs" in caught.value.hint


def no_ids(path: str, document: Any) -> Any:
    if path == "/v1/completions":
        del document["choices"][0]["token_ids"]
    return document


def no_logprobs(path: str, document: Any) -> Any:
    if path == "/v1/completions":
        document["choices"][0]["logprobs"] = None
    return document


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (no_ids, "no token ids"),
        (no_logprobs, "no log-probs"),
        (lambda path, document: [], "no token ids"),
        (lambda path, document: {"choices": []}, "no token ids"),
        (lambda path, document: {"choices": [{"token_ids": ["x"]}]}, "no token ids"),
    ],
)
def test_an_answer_that_is_no_turn(
    policy: Policy, server: SmallServer, tmp_path: Path, spoil: Any, why: str
) -> None:
    with client(policy, server, tmp_path) as speaker:
        server.spoil = spoil
        speaker.ask(0, turn(1))
        with pytest.raises(GeneratorLost, match=why):
            speaker.hear()


@pytest.mark.parametrize("found", [[], {"data": []}, {"data": [{}]}, {"data": [[]]}, None])
def test_a_server_that_names_no_model(
    policy: Policy, server: SmallServer, tmp_path: Path, found: Any
) -> None:
    server.spoil = lambda path, document: found if path == "/v1/models" else document
    with pytest.raises(GeneratorLost, match="names no model"), client(policy, server, tmp_path):
        pass


@pytest.mark.parametrize("found", [[], {}, {"vllm_config": "as text"}, None])
def test_a_server_whose_settings_are_others(
    policy: Policy, server: SmallServer, tmp_path: Path, found: Any
) -> None:
    server.spoil = lambda path, document: found if "server_info" in path else document
    with pytest.raises(GeneratorLost, match="settings"), client(policy, server, tmp_path):
        pass


def test_what_is_refused_is_not_asked_again(
    policy: Policy, server: SmallServer, tmp_path: Path
) -> None:
    """A request that can never be answered ends the run with what the server said of it."""
    with client(policy, server, tmp_path) as speaker:
        server.dev = False
        before = len(server.calls)
        with pytest.raises(GeneratorLost, match="Not Found"):
            speaker.renew()
        assert [path for path, _ in server.calls[before:]] == ["/pause?mode=wait"]


def test_a_server_that_was_left_paused_goes_on(
    policy: Policy, server: SmallServer, tmp_path: Path
) -> None:
    """A trainer that was killed while it gave weights left a pause and a half-written folder."""
    server.paused = True
    (tmp_path / ".served.draft").mkdir()
    (tmp_path / ".served.draft" / "model.safetensors").write_bytes(b"half")
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "stale.safetensors").write_bytes(b"old")
    with client(policy, server, tmp_path) as speaker:
        speaker.renew()
        assert not server.paused
        assert not (tmp_path / "served" / "stale.safetensors").exists()
        speaker.ask(0, turn(1))
        ((_, spoken),) = speaker.hear()
        assert spoken.tokens == speak(policy.model, policy.chat.stop_ids, turn(1)).tokens
    assert list(tmp_path.iterdir()) == []


def test_a_server_with_less_room(policy: Policy, server: SmallServer, tmp_path: Path) -> None:
    server.positions = 64
    with client(policy, server, tmp_path) as speaker:
        assert speaker.max_positions == 64
