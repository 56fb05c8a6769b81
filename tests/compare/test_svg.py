from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

from recollect.compare.bands import Band, Thread, make_band
from recollect.compare.svg import Dot, Scale, line_chart, nice_step, pairs_chart


def band(*rows: list[float], place: int = 0, tag: str = "", label: str = "a") -> Band:
    threads = [Thread(n, np.arange(len(y), dtype=float), np.array(y)) for n, y in enumerate(rows)]
    made = make_band(label, place, threads, tag)
    assert made is not None
    return made


def count(svg: str, kind: str) -> int:
    root = ElementTree.fromstring(svg)
    return sum(kind in (node.get("class") or "").split() for node in root.iter())


def test_a_chart_of_bands() -> None:
    svg = line_chart(
        [band([0.1, 0.5], [0.2, 0.6]), band([0.1, 0.3], place=1)],
        x="rollouts", y="success", percent=True, target=0.8,
    )  # fmt: skip
    assert count(svg, "mean") == 2
    assert count(svg, "area") == 1  # one seed has no range
    assert count(svg, "thread") == 2
    assert count(svg, "target") == 1
    assert "100%" in svg


def test_names_are_text_and_nothing_else() -> None:
    svg = line_chart([band([0.1, 0.5], label="<b>&")], x="<i>", y='"q"')
    assert "<b>" not in svg
    assert "<i>" not in svg
    ElementTree.fromstring(svg)


@pytest.mark.parametrize("values", [[0.0, 0.0], [3.0, 3.0], [-2.0, 5.0], [1e-9, 2e-9], [5.0]])
def test_any_values_have_a_scale(values: list[float]) -> None:
    root = ElementTree.fromstring(line_chart([band(values)], x="x", y="y"))
    assert "nan" not in ElementTree.tostring(root, "unicode")


def test_values_far_apart_are_drawn_as_ratios() -> None:
    svg = line_chart([band([1.0, 1.1], tag="p50"), band([90.0, 400.0], tag="max")], x="x", y="y")
    assert ">1<" in svg
    assert ">10<" in svg
    assert ">100<" in svg
    assert ">max</text>" in svg


def test_no_bands_no_picture() -> None:
    assert line_chart([], x="x", y="y") == ""


def test_pairs_show_what_never_came_as_open() -> None:
    rows = [("seed 0", [Dot("a", 0, 640, True), Dot("b", 1, 1280, False)])]
    svg = pairs_chart(rows, x="rollouts")
    assert (count(svg, "dot"), count(svg, "open"), count(svg, "arrow")) == (1, 1, 1)
    assert "b: more than 1,280" in svg
    ElementTree.fromstring(pairs_chart([("seed 0", [Dot("a", 0, 0, True)])], x="rollouts"))


@pytest.mark.parametrize(
    ("width", "wanted", "step"),
    [(1, 5, 0.2), (1280, 6, 250), (1280, 5, 500), (7, 5, 2), (0.03, 3, 0.01), (5, 5, 1)],
)
def test_steps_are_round(width: float, wanted: int, step: float) -> None:
    assert nice_step(width, wanted) == pytest.approx(step)


def test_ticks() -> None:
    assert Scale(0, 10, 0, 100).ticks(5) == [0, 2, 4, 6, 8, 10]
    assert Scale(0, 1, 0, 100, percent=True).spell(0.2) == "20%"
    assert Scale(0, 1, 0, 100).spell(1234.0) == "1,234"
    assert Scale(0, 1, 0, 100).spell(1e-5) == "1.0e-05"
