from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, LlamaConfig

from recollect.errors import ModelMissing
from recollect.models.attention import ATTENTION
from recollect.models.catalog import TINY
from recollect.models.loading import Lora, Policy, load_policy

from .architectures import ARCHITECTURES, make_model
from .tokenizers_for_tests import make_tokenizer

LORA = Lora(rank=4, alpha=8.0)
IDS = torch.tensor([[5, 9, 200, 31, 77, 4, 150]])


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here may ask the world; who tries is told off at once."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def refuse(*args: object) -> None:
        raise AssertionError(f"a connection to {args[1:]} was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def _folder(path: Path, architecture: str = "llama-gqa") -> Path:
    """Write a folder as save_pretrained does: a random model and a tokenizer."""
    make_model(architecture).save_pretrained(path)
    make_tokenizer("chatml").save_pretrained(path)
    return path


def _weights(model: Any) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def _logits(policy: Policy) -> torch.Tensor:
    found: torch.Tensor = policy.model(IDS).logits
    return found


def _same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)


def _train_a_little(policy: Policy) -> None:
    optimizer = torch.optim.SGD([p for _, p in policy.trainable()], lr=0.5)
    for _ in range(2):
        _logits(policy).log_softmax(-1)[0, :, 7].sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()


# -- where models come from ----------------------------------------------------------------


def test_the_built_in_model_loads_without_a_network() -> None:
    policy = load_policy("tiny")
    assert policy.source == str(TINY)
    assert policy.model.training
    assert policy.device == torch.device("cpu")
    assert {p.dtype for _, p in policy.trainable()} == {torch.float32}
    assert len(policy.trainable()) == len(list(policy.model.parameters()))


@pytest.mark.parametrize("name", ["nobody/nothing", "no such folder", "/nowhere/at/all", "", "."])
def test_an_unknown_model_is_said_to_be_missing(name: str) -> None:
    with pytest.raises(ModelMissing, match="cannot be loaded"):
        load_policy(name)


@pytest.mark.parametrize("damage", ["tokenizer.json", "model.safetensors", "config.json"])
@pytest.mark.parametrize("content", [b"", b"{}", b"garbage"])
def test_a_damaged_folder_is_said_to_be_missing(
    tmp_path: Path, damage: str, content: bytes
) -> None:
    folder = _folder(tmp_path)
    (folder / damage).write_bytes(content)
    with pytest.raises(ModelMissing, match="cannot be loaded"):
        load_policy(str(folder))


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "hidden_size": 64}))
    with pytest.raises(ModelMissing):
        load_policy(str(folder))


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    torch.save(make_model("llama-gqa").state_dict(), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelMissing):
        load_policy(str(folder))


@pytest.mark.parametrize("model_type", ["llama", "something_new"])
def test_code_in_a_model_folder_is_never_run(tmp_path: Path, model_type: str) -> None:
    folder = _folder(tmp_path)
    ran = tmp_path / "ran"
    (folder / "evil.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
    names = {
        "AutoConfig": "evil.Config",
        "AutoModelForCausalLM": "evil.Model",
        "AutoTokenizer": ["evil.Tokenizer", None],
    }
    for file in ("config.json", "tokenizer_config.json"):
        content = json.loads((folder / file).read_text())
        content |= {"auto_map": names, "_attn_implementation": "evil/kernel"}
        if file == "config.json":
            content["model_type"] = model_type
        (folder / file).write_text(json.dumps(content))
    if model_type == "llama":
        load_policy(str(folder))  # our own classes do
    else:
        with pytest.raises(ModelMissing):
            load_policy(str(folder))
    assert not ran.exists()


@pytest.mark.parametrize("attention", ["eager", "sdpa", "flash_attention_2", "evil/kernel"])
def test_a_model_file_cannot_choose_the_attention(tmp_path: Path, attention: str) -> None:
    folder = _folder(tmp_path)
    for key in ("_attn_implementation", "attn_implementation", "_attn_implementation_internal"):
        content = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**content, key: attention}))
        assert load_policy(str(folder)).model.config._attn_implementation == ATTENTION


def test_a_model_whose_tokens_meet_outside_of_attention_is_refused(tmp_path: Path) -> None:
    from transformers import MambaConfig

    config = MambaConfig(vocab_size=320, hidden_size=16, num_hidden_layers=1, state_size=4)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    make_tokenizer("chatml").save_pretrained(tmp_path)
    with pytest.raises(ModelMissing, match=r"linear_attention|Mamba"):
        load_policy(str(tmp_path))


def test_a_tokenizer_without_a_template_says_so(tmp_path: Path) -> None:
    from recollect.errors import UnusableChatTemplate

    folder = _folder(tmp_path)
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(UnusableChatTemplate, match="it has none"):
        load_policy(str(folder))


def test_the_number_format_is_what_was_asked_for(tmp_path: Path) -> None:
    make_model("llama").to(torch.bfloat16).save_pretrained(tmp_path)
    make_tokenizer("chatml").save_pretrained(tmp_path)
    for asked, wanted in (
        ("float32", torch.float32),
        ("bfloat16", torch.bfloat16),
        ("auto", torch.bfloat16 if torch.cuda.is_available() else torch.float32),
    ):
        policy = load_policy(str(tmp_path), dtype=asked)
        assert {p.dtype for _, p in policy.trainable()} == {wanted}


def test_stop_tokens_that_the_model_declares_are_obeyed(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    declared = json.loads((folder / "generation_config.json").read_text())
    declared["eos_token_id"] = [2, 60]
    (folder / "generation_config.json").write_text(json.dumps(declared))
    assert {2, 60} < set(load_policy(str(folder)).chat.stop_ids)


# -- dropout -------------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", ["llama-gqa", "gpt2"])
def test_dropout_is_off_in_training(tmp_path: Path, architecture: str) -> None:
    model = make_model(architecture)
    model.config.attention_dropout = 0.3  # GPT-2 has 0.1 of its own
    model.save_pretrained(tmp_path)
    make_tokenizer("chatml").save_pretrained(tmp_path)
    policy = load_policy(str(tmp_path))
    assert policy.model.training
    torch.testing.assert_close(_logits(policy), _logits(policy), atol=0, rtol=0)
    trained = _logits(policy)
    policy.model.eval()
    torch.testing.assert_close(_logits(policy), trained, atol=1e-6, rtol=0)


def test_dropout_that_is_a_number_on_a_module_is_off_as_well(tmp_path: Path) -> None:
    from transformers import OPTConfig

    config = OPTConfig(
        vocab_size=320, hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=64, word_embed_proj_dim=32, dropout=0.5, layerdrop=0.5,
    )  # fmt: skip
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    make_tokenizer("chatml").save_pretrained(tmp_path)
    policy = load_policy(str(tmp_path))
    for _ in range(5):
        torch.testing.assert_close(_logits(policy), _logits(policy), atol=0, rtol=0)


def test_dropout_of_adapters_is_on_if_somebody_wants_it() -> None:
    policy = load_policy("tiny", lora=Lora(rank=4, alpha=64.0, dropout=0.5))
    _train_a_little(policy)
    assert not torch.equal(_logits(policy), _logits(policy))
    policy.model.eval()
    assert torch.equal(_logits(policy), _logits(policy))


# -- saving and coming back ----------------------------------------------------------------


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_saved_model_comes_back_exactly(tmp_path: Path, architecture: str) -> None:
    policy = load_policy(str(_folder(tmp_path / "before", architecture)))
    _train_a_little(policy)
    policy.save(tmp_path / "after")
    again = load_policy(str(tmp_path / "after"))
    assert _same(_weights(policy.model), _weights(again.model))
    assert torch.equal(_logits(policy), _logits(again))
    assert again.chat.fingerprint == policy.chat.fingerprint
    # It is an ordinary folder: transformers loads it with an attention of its own.
    AutoModelForCausalLM.from_pretrained(tmp_path / "after")
    assert "recollect" not in (tmp_path / "after" / "config.json").read_text()


@pytest.mark.parametrize("architecture", ["llama-gqa", "qwen3", "gpt2"])
def test_only_adapters_train_and_they_come_back_exactly(tmp_path: Path, architecture: str) -> None:
    base = _folder(tmp_path / "base", architecture)
    policy = load_policy(str(base), lora=LORA)
    assert policy.trainable()
    assert all("lora_" in name for name, _ in policy.trainable())
    before = _weights(policy.model)
    _train_a_little(policy)
    changed = {n for n, p in _weights(policy.model).items() if not torch.equal(p, before[n])}
    assert changed == {name for name, _ in policy.trainable()}
    policy.save(tmp_path / "adapter")
    assert not (tmp_path / "adapter" / "model.safetensors").exists()
    again = load_policy(str(base), lora=LORA, adapter=tmp_path / "adapter")
    assert [name for name, _ in again.trainable()] == [name for name, _ in policy.trainable()]
    assert _same(_weights(policy.model), _weights(again.model))
    assert torch.equal(_logits(policy), _logits(again))
    with policy.model.disable_adapter():
        assert torch.equal(_logits(policy), _logits(load_policy(str(base))))


def test_an_adapter_is_enough_to_ask_for_it(tmp_path: Path) -> None:
    policy = load_policy("tiny", lora=LORA)
    _train_a_little(policy)
    policy.save(tmp_path)
    again = load_policy("tiny", adapter=tmp_path)
    assert torch.equal(_logits(policy), _logits(again))
    assert all("lora_" in name for name, _ in again.trainable())


def test_adapters_name_their_modules_in_one_order(tmp_path: Path) -> None:
    """The same adapters are the same bytes, whatever order a process has its sets in."""
    load_policy("tiny", lora=LORA).save(tmp_path / "first")
    load_policy("tiny", adapter=tmp_path / "first").save(tmp_path / "again")
    for name in ("first", "again"):
        found = json.loads((tmp_path / name / "adapter_config.json").read_text())["target_modules"]
        assert len(found) == 7
        assert found == sorted(found)


def test_adapters_are_safetensors_or_nothing(tmp_path: Path) -> None:
    """Peft also takes adapter_model.bin, which is a pickle."""
    policy = load_policy("tiny", lora=LORA)
    policy.save(tmp_path)
    weights = tmp_path / "adapter_model.safetensors"
    torch.save(load_file(weights), tmp_path / "adapter_model.bin")
    weights.unlink()
    for load in (lambda: load_policy(str(tmp_path)), lambda: load_policy("tiny", adapter=tmp_path)):
        with pytest.raises(ModelMissing, match=r"no adapter_model\.safetensors"):
            load()


def test_a_folder_with_an_adapter_is_a_model(tmp_path: Path) -> None:
    policy = load_policy("tiny", lora=LORA)
    _train_a_little(policy)
    policy.save(tmp_path)
    assert torch.equal(_logits(policy), _logits(load_policy(str(tmp_path))))
    for content in ("{}", "[]", "garbage", '{"base_model_name_or_path": 7}'):
        (tmp_path / "adapter_config.json").write_text(content)
        with pytest.raises(ModelMissing, match="adapter_config"):
            load_policy(str(tmp_path))


@pytest.mark.parametrize("architecture", ["llama-gqa", "gpt2"])
def test_merged_adapters_give_the_same_answers_without_being_there(
    tmp_path: Path, architecture: str
) -> None:
    policy = load_policy(str(_folder(tmp_path / "base", architecture)), lora=LORA)
    _train_a_little(policy)
    before = _logits(policy).detach()
    policy.merge()
    assert not policy.has_adapter
    torch.testing.assert_close(_logits(policy), before, atol=1e-4, rtol=1e-4)
    policy.save(tmp_path / "merged")
    again = load_policy(str(tmp_path / "merged"), dtype="stored")
    torch.testing.assert_close(_logits(again), before, atol=1e-4, rtol=1e-4)
    again.merge()  # nothing to do
    assert len(again.trainable()) == len(list(again.model.parameters()))


def test_the_files_number_format_can_be_kept(tmp_path: Path) -> None:
    make_model("llama").to(torch.bfloat16).save_pretrained(tmp_path)
    make_tokenizer("chatml").save_pretrained(tmp_path)
    policy = load_policy(str(tmp_path), dtype="stored")
    assert {p.dtype for _, p in policy.trainable()} == {torch.bfloat16}


def test_new_adapters_come_from_the_seed_and_change_nothing_yet() -> None:
    torch.manual_seed(1)
    first = load_policy("tiny", lora=LORA, seed=3)
    state = torch.get_rng_state()
    torch.manual_seed(2)
    second = load_policy("tiny", lora=LORA, seed=3)
    third = load_policy("tiny", lora=LORA, seed=4)
    assert _same(_weights(first.model), _weights(second.model))
    assert not _same(_weights(first.model), _weights(third.model))
    assert torch.equal(_logits(first), _logits(load_policy("tiny")))
    torch.manual_seed(1)
    assert torch.equal(state, torch.get_rng_state())  # nobody drew from global state


def test_adapters_go_where_they_are_wanted() -> None:
    policy = load_policy("tiny", lora=Lora(rank=2, alpha=4.0, targets=("q_proj",)))
    assert {name.split(".")[-4] for name, _ in policy.trainable()} == {"q_proj"}


@pytest.mark.parametrize("lora", [None, LORA])
def test_gradient_checkpointing_gives_the_same_gradients(lora: Lora | None) -> None:
    found = []
    for checkpointing in (False, True):
        policy = load_policy("tiny", lora=lora, gradient_checkpointing=checkpointing)
        logits = policy.model(IDS, use_cache=False).logits
        logits.log_softmax(-1)[0, :, 7].sum().backward()
        found.append({name: p.grad for name, p in policy.trainable()})
    for name, gradient in found[0].items():
        torch.testing.assert_close(found[1][name], gradient, atol=1e-5, rtol=1e-5)


def test_layers_of_an_unknown_kind_are_refused(tmp_path: Path) -> None:
    config = LlamaConfig(
        vocab_size=320, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, layer_types=["full_attention", "chunked_attention"],
    )  # fmt: skip
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    make_tokenizer("chatml").save_pretrained(tmp_path)
    with pytest.raises(ModelMissing, match="chunked_attention"):
        load_policy(str(tmp_path))
