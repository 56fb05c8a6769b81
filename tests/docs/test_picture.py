"""The READMEs' picture is drawn from its results file, and that is of the demo as it is."""

from __future__ import annotations

import json
import runpy

import yaml

from recollect.config.presets import preset_text

from .pages import ROOT, read

SCRIPT = runpy.run_path(str(ROOT / "scripts" / "draw_demo.py"))
RESULTS = json.loads((ROOT / "benchmarks" / "results" / "demo.json").read_text(encoding="utf-8"))


def test_the_picture_is_not_stale() -> None:
    drawn = (ROOT / "docs" / "images" / "demo.svg").read_text(encoding="utf-8")
    assert drawn == SCRIPT["draw"](RESULTS), "run: make picture"


def test_it_is_of_the_preset_as_it_is() -> None:
    assert RESULTS["preset"] == yaml.safe_load(preset_text("demo")), "run: make picture"
    arms = RESULTS["figures"]["curves"]
    assert sorted(arms) == ["replay", "twin"]
    assert all(len(runs) == len(RESULTS["seeds"]) == 3 for runs in arms.values())


def test_both_readmes_show_it() -> None:
    for page in ("README.md", "README.zh-CN.md"):
        assert read(page).count("](docs/images/demo.svg)") == 1
