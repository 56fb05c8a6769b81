"""The report of continual methods: what stands beside what."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")

from continual.finished import finished_run
from recollect.cli.main import app
from recollect.compare.methods import (
    MethodComparison,
    MethodRuns,
    compare_methods,
    comparison_document,
)
from recollect.compare.methods_report import report_page, write_comparison
from recollect.config.loading import load_config
from recollect.continual.matrix import ScoreMatrix
from recollect.continual.transfer import MEASURES

DOMAINS = ("a", "b")
CONFIG = load_config("domains").config


def runs(name: str, performance: float) -> MethodRuns:
    matrix = ScoreMatrix(DOMAINS, ((0.5, 0.1), (0.4, 0.6)))
    measures = dict.fromkeys(MEASURES, (performance, performance))
    return MethodRuns(name, CONFIG, (0, 1), (matrix, matrix), measures, (None, None))


def against(*names: str) -> str:
    """The part of the page that compares methods with their baseline."""
    methods = tuple(runs(name, 0.1 * place) for place, name in enumerate(names))
    page = report_page(MethodComparison(DOMAINS, methods), [])
    return page.partition("<h2>Against")[2].partition("<h2>")[0]


def test_imitation_is_its_own_baseline() -> None:
    shown = against("sft", "sft+replay")
    assert "<td>sft+replay</td><td>+0.100" in shown
    assert "<td>sft</td>" not in shown


def test_each_is_compared_with_its_own() -> None:
    shown = against("sequential", "ewc", "sft", "sft+ewc")
    assert "<td>ewc</td><td>+0.100" in shown
    assert "<td>sft</td><td>+0.200" in shown
    assert "<td>sft+ewc</td><td>+0.100" in shown
    assert "<td>sequential</td>" not in shown


def test_without_any_baseline_it_says_so() -> None:
    assert "There is no sequential or sft run" in against("replay", "ewc")


def test_without_pictures(tmp_path: Path) -> None:
    found = MethodComparison(DOMAINS, (runs("sequential", 0.5),))
    files = write_comparison(found, tmp_path / "report", pictured=False)
    assert [file.name for file in files] == ["report.html", "comparison.json"]
    assert "<h2>Pictures" not in files[0].read_text(encoding="utf-8")


FEW = "2 seeds show too little to conclude anything; use 5 or more."


def seeded(folder: Path, seeds: range, *flags: str) -> list[Path]:
    return [
        finished_run(folder / str(seed), f"run.seed={seed}", *flags, reward=0.1 * seed).path
        for seed in seeds
    ]


def test_intervals_of_few_seeds_come_with_a_warning(tmp_path: Path) -> None:
    plain = seeded(tmp_path / "plain", range(5))
    few = seeded(tmp_path / "few", range(2), "continual.method=ewc")
    apart = seeded(tmp_path / "apart", range(3, 8), "continual.method=fusion")
    for runs, said in ((plain, False), ([*plain, *few], True), ([*plain, *apart], True)):
        out = tmp_path / "out"
        shown = CliRunner().invoke(app, ["continual-report", *map(str, runs), "--out", str(out)])
        assert shown.exit_code == 0, shown.output
        assert (FEW in shown.stdout) == said
        assert (FEW in (out / "report.html").read_text(encoding="utf-8")) == said


def test_what_differs_between_methods_is_told(tmp_path: Path) -> None:
    runs = [
        finished_run(tmp_path / "sequential", "run.steps=5", "checkpoint.every=1").path,
        finished_run(tmp_path / "ewc", "continual.method=ewc", "continual.ewc.strength=7",
                     "run.steps=50", "run.seed=3").path,
        finished_run(tmp_path / "sft", "continual.method=sft", "run.steps=5").path,
    ]  # fmt: skip
    found = compare_methods(runs)
    assert comparison_document(found)["differences"] == [
        {"setting": "run.steps", "ewc": "50", "sequential": "5"}
    ]
    page = report_page(found, []).partition("<h2>What differs")[2].partition("<h2>")[0]
    assert "<th>ewc</th><th>sequential</th>" in page
    assert "<td>run.steps</td><td>50</td><td>5</td>" in page
    assert page.count("<td>") == 3
    assert "ewc differs from sequential in run.steps (50, not 5)." in found.remarks()
    nothing = report_page(compare_methods([runs[0], runs[2]]), [])
    assert "Everything that could change a score is the same" in nothing


def test_without_a_baseline_settings_are_told_against_the_first_method(tmp_path: Path) -> None:
    runs = [
        finished_run(tmp_path / "ewc", "continual.method=ewc").path,
        finished_run(tmp_path / "replay", "continual.method=replay", "train.epochs=3").path,
    ]
    (told,) = comparison_document(compare_methods(runs))["differences"]  # type: ignore[misc]
    assert told == {"setting": "train.epochs", "replay": "3", "ewc": "1"}
