from __future__ import annotations

from pathlib import Path

import pytest

from recollect.canonical import Json, strict_json
from recollect.compare.document import write_document
from recollect.compare.study import run_study
from recollect.compare.tuning import Axis, Tuning

from .samples import SETTINGS, FakeTraining
from .test_study import FAST, PLAIN


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Json]:
    study = run_study(
        [FAST, PLAIN], range(2), tmp_path, source="demo", settings=SETTINGS, target=0.95,
        launch=FakeTraining(), command="recollect compare demo postgres://u:SECRETPW@h/d",
        tuning=Tuning((1000,), (Axis("train.learning_rate", ("1e-3", "1.0")),)),
    )  # fmt: skip
    found = strict_json(write_document(study).read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def test_everything_is_in_it(document: dict[str, Json]) -> None:
    assert document["command"] == "recollect compare demo postgres://[redacted]@h/d"
    assert document["seeds"] == [0, 1]
    assert document["tuning_seeds"] == [1000]
    assert document["target"] == 0.95
    assert set(document["versions"]) >= {"recollect", "python", "torch", "machine"}
    (change,) = document["differences"]
    assert change == {"setting": "rollout.top_k", "fast": "7", "plain": "0"}
    fast, plain = document["arms"]
    assert (fast["name"], plain["name"]) == ("fast", "plain")
    assert len(fast["runs"][0]["evaluations"]) == 11
    assert [trial["chosen"] for trial in fast["tuning"]] == [True, False]
    assert fast["tuning"][1]["diverged"] == 1
    assert fast["tuning"][1]["score"] is None


def test_never_is_said_and_undefined_is_null(document: dict[str, Json]) -> None:
    run = document["arms"][0]["runs"][0]["rollouts_to_target"]
    assert run == {"reached": False, "value": None, "within": 640}
    assert document["arms"][0]["summary"]["rollouts_to_target"]["point"] == "infinite"
    assert document["comparisons"][0]["rollouts"]["medians"]["point"] is None
