"""Adapters that are not those that the settings ask for: a checkpoint's, or the beginning's."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path

import pytest
import yaml

from recollect.errors import BadConfig
from recollect.models.loading import Lora, load_policy, place_of
from recollect.train.changed import check_adapters

from .small import make_config, open_run, run_to_end
from .test_session import resume


def test_the_base_and_the_modules_of_adapters_are_not_changed_on_the_way(
    model: Path, tmp_path: Path
) -> None:
    """Or adapters would go on on weights that they were not trained on."""
    other = shutil.copytree(model, tmp_path / "other")
    flags = ("model.lora.rank=2", "model.lora.targets=[q_proj,v_proj]")
    run_to_end(tmp_path / "r", make_config(model, *flags, "run.steps=2", "eval.every=0"))
    file = tmp_path / "r" / "config.yaml"
    text = file.read_text().replace("steps: 2", "steps: 3")
    begun = yaml.safe_load(text)
    for name, value, told in (
        ("name", str(other), rf"has adapters of {model}: model\.name was changed"),
        ("targets", ["q_proj"], r"adapters in 2 modules: q_proj, v_proj: model\.lora\.targets"),
    ):
        later = copy.deepcopy(begun)
        (later["model"] if name == "name" else later["model"]["lora"])[name] = value
        file.write_text(yaml.safe_dump(later))
        with pytest.raises(BadConfig, match=told):
            resume(tmp_path / "r")
    begun["model"]["lora"]["targets"] = ["v_proj", "q_proj"]  # the same ones
    file.write_text(yaml.safe_dump(begun))
    resume(tmp_path / "r")


def test_a_base_that_was_moved_is_found_where_it_is_now(model: Path, tmp_path: Path) -> None:
    before = shutil.copytree(model, tmp_path / "before")
    run_to_end(tmp_path / "r", make_config(before, "model.lora.rank=2", "run.steps=2"))
    shutil.move(before, tmp_path / "now")
    file = tmp_path / "r" / "config.yaml"
    text = file.read_text().replace(str(before), str(tmp_path / "now"))
    file.write_text(text.replace("steps: 2", "steps: 3"))
    resume(tmp_path / "r")


def test_a_run_is_resumed_beside_the_adapter_that_it_began_with(
    model: Path, tmp_path: Path
) -> None:
    """Its KL divergence is measured from that one, which the settings need not describe."""
    load_policy(str(model), lora=Lora(2, 32.0)).save(tmp_path / "begun")
    flags = ("model.lora.rank=2", "model.lora.alpha=32", "algo.kl_coef=0.1", "run.steps=2")
    run_to_end(tmp_path / "r", make_config(tmp_path / "begun", *flags))
    file = tmp_path / "r" / "config.yaml"
    text = file.read_text().replace("alpha: 32.0", "alpha: 16.0").replace("steps: 2", "steps: 3")
    assert "alpha: 16.0" in text
    file.write_text(text)
    resume(tmp_path / "r")


def test_adapters_of_the_built_in_model_go_on_when_the_package_moves(tmp_path: Path) -> None:
    config = make_config(Path("tiny"), "model.lora.rank=2")
    load_policy("tiny", lora=Lora(2, 16.0)).save(tmp_path)
    file = tmp_path / "adapter_config.json"
    saved = json.loads(file.read_text())
    assert saved["base_model_name_or_path"] == place_of("tiny")
    check_adapters(config, tmp_path)
    saved["base_model_name_or_path"] = "/opt/elsewhere/recollect/models/tiny"
    file.write_text(json.dumps(saved))
    check_adapters(config, tmp_path)
    saved["base_model_name_or_path"] = "/opt/elsewhere/another"
    file.write_text(json.dumps(saved))
    with pytest.raises(BadConfig, match=r"model\.name was changed"):
        check_adapters(config, tmp_path)


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        ("model.lora.rank=16", r"model\.lora\.rank asks for other .* has them of rank 2"),
        ("model.lora.alpha=16", r"model\.lora\.alpha asks for other .* has them with alpha 4"),
        ("model.lora.dropout=0.1", r"model\.lora\.dropout asks for .* has them with dropout 0"),
        (
            "model.lora.targets=[q_proj]",
            r"model\.lora\.targets .* has them in 7 modules: model.layers",
        ),
    ],
)
def test_a_folder_with_adapters_is_not_asked_for_others(
    model: Path, tmp_path: Path, flag: str, told: str
) -> None:
    """They train on as they are: nobody should believe that they have the rank asked for."""
    load_policy(str(model), lora=Lora(2, 4.0)).save(tmp_path / "sft")
    theirs = ("model.lora.rank=2", "model.lora.alpha=4", "run.steps=1", "eval.every=0")
    wrong = make_config(tmp_path / "sft", *theirs, flag)
    with pytest.raises(BadConfig, match=told) as error, open_run(tmp_path / "no", wrong):
        pass
    assert "model.lora.rank=0" in error.value.hint
    run_to_end(tmp_path / "r", make_config(tmp_path / "sft", *theirs, "model.lora.merge=true"))
    merged = load_policy(str(tmp_path / "r" / "model"))
    assert not merged.has_adapter
