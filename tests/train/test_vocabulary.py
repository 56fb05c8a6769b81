"""Models beside a policy: they must read its token ids as it does."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from recollect.errors import BadConfig

from .small import make_config, open_run, run_to_end

KL = "algo.kl_reference"
CRITIC = "critic.model"
FLAGS = {
    KL: ("algo.kl_coef=0.1",),
    CRITIC: ("algo.advantage=gae", "critic.kind=model"),
}


def copy_of(model: Path, folder: Path, **numbers: int) -> Path:
    """The same model, some of whose tokens have other numbers."""
    shutil.copytree(model, folder)
    file = folder / "tokenizer.json"
    content = json.loads(file.read_text())
    content["model"]["vocab"] |= numbers
    file.write_text(json.dumps(content))
    return folder


def number_of(model: Path, token: str) -> int:
    found: int = json.loads((model / "tokenizer.json").read_text())["model"]["vocab"][token]
    return found


@pytest.mark.parametrize("setting", FLAGS)
def test_another_vocabulary_is_refused(model: Path, tmp_path: Path, setting: str) -> None:
    """Or a token would be judged by what another one means there, and nobody would notice."""
    a, b = number_of(model, "a"), number_of(model, "b")
    other = copy_of(model, tmp_path / "other", a=b, b=a)
    config = make_config(model, f"{setting}={other}", *FLAGS[setting])
    told = rf"{setting} has another vocabulary.*2 of its tokens.*'a', which is {b} in .*and {a} in"
    with pytest.raises(BadConfig, match=told) as error, open_run(tmp_path / "r", config):
        pass
    assert setting in error.value.hint


def test_a_token_that_is_unknown_there_is_refused(model: Path, tmp_path: Path) -> None:
    """The policy may sample it, and the reference has no weight for it."""
    more = copy_of(model, tmp_path / "more", **{"~": number_of(model, "a") + 1000})
    config = make_config(more, f"{KL}={model}", *FLAGS[KL])
    with (
        pytest.raises(BadConfig, match="which is unknown in"),
        open_run(tmp_path / "r", config),
    ):
        pass


@pytest.mark.parametrize("setting", FLAGS)
def test_another_template_or_more_tokens_do_no_harm(
    model: Path, tmp_path: Path, setting: str
) -> None:
    """As of an instruct model beside its base: only ids come to it, and it knows them all."""
    other = copy_of(model, tmp_path / "other", **{"~": number_of(model, "a") + 1000})
    template = other / "chat_template.jinja"
    text = template.read_text()
    assert "'<|end|>'" in text
    template.write_text(text.replace("'<|end|>'", "'<|end|>\\n'"))
    flags = ("run.steps=1", "eval.every=0", *FLAGS[setting])
    run_to_end(tmp_path / "r", make_config(model, f"{setting}={other}", *flags))
