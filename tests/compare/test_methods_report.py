"""The report of continual methods: what stands beside what."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from recollect.compare.methods import MethodComparison, MethodRuns
from recollect.compare.methods_report import report_page, write_comparison
from recollect.continual.matrix import ScoreMatrix
from recollect.continual.transfer import MEASURES

DOMAINS = ("a", "b")


def runs(name: str, performance: float) -> MethodRuns:
    matrix = ScoreMatrix(DOMAINS, ((0.5, 0.1), (0.4, 0.6)))
    measures = dict.fromkeys(MEASURES, (performance, performance))
    return MethodRuns(name, (0, 1), (matrix, matrix), measures, (None, None))


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
