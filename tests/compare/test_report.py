from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from recollect.compare.arms import Arm
from recollect.compare.report import report_page, write_report
from recollect.compare.study import Study, run_study
from recollect.compare.tuning import Axis, Tuning
from recollect.compare.verdict import verdict
from recollect.train.folder import RunFolder

from .samples import SETTINGS, FakeTraining, Finished, write_run

OPEN = {"meta", "line", "circle", "polyline", "polygon", "path", "br"}


class Balanced(HTMLParser):
    """Notices elements that are not closed where they should be."""

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in OPEN or self.get_starttag_text() == f"<{tag}>":
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in OPEN and (not self.stack or self.stack[-1] != tag):
            return
        assert self.stack.pop() == tag


class Replaying(FakeTraining):
    """Logs some metrics of replay in the first arm."""

    def __call__(self, path: Path) -> Finished:
        config = RunFolder(path).load()
        if config.rollout.top_k != 7:
            return super().__call__(path)
        write_run(
            path, {0: 0.1, 10: 0.5, 20: 0.9}, steps=20,
            extra=lambda step: {
                "replay/ess": 0.9, "replay/age_mean": 2.0, "replay/age_max": float(step),
                "replay/bucket/0.25": 3.0, "replay/bucket/0.5": 4.0, "replay/mixed": 0.0,
                "critic/explained_variance": 0.3,
            },
        )  # fmt: skip
        (path / "checkpoints" / "step_000020").mkdir(parents=True)
        return Finished()


def study(folder: Path, launch: FakeTraining | None = None, **other: object) -> Study:
    arms = [Arm("replay", ("rollout.top_k=7",)), Arm("twin")]
    return run_study(
        arms, range(2), folder, source="demo", settings=SETTINGS,
        launch=launch or Replaying(), command="recollect compare <demo> && x", **other,  # type: ignore[arg-type]
    )  # fmt: skip


def test_one_file_with_everything(tmp_path: Path) -> None:
    found = study(tmp_path)
    page = write_report(found).read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert verdict(found) in page
    for title in ("Measures", "Learning", "Replay", "What differs", "Every run", "To do it again"):
        assert f"{title}" in page
    assert "Tuning" not in page
    assert "recollect compare &lt;demo&gt; &amp;&amp; x" in page
    assert "recollect train demo run.steps=20" in page
    assert "rollout.top_k" in page


def test_nothing_from_outside_and_nothing_that_runs(tmp_path: Path) -> None:
    page = report_page(study(tmp_path))
    assert not re.search(r"https?://|<script|<link|<img|@import|url\(|\son\w+=", page)
    assert "prefers-color-scheme: dark" in page


def test_whatever_is_logged_about_replay_and_the_critic_is_drawn(tmp_path: Path) -> None:
    page = report_page(study(tmp_path))
    for panel in ("ess", "age (mean, max)", "bucket (0.25, 0.5)", "explained_variance"):
        assert f"<figcaption>{panel}<" in page
    assert "<h2>Critic</h2>" in page
    assert page.count("<svg") == 3 + 4
    assert "0 in every step: mixed." in page


def test_the_page_is_well_formed_and_always_the_same(tmp_path: Path) -> None:
    found = study(tmp_path)
    page = report_page(found)
    assert page == report_page(found)
    parser = Balanced()
    parser.feed(page)
    assert parser.stack == []
    assert {"svg", "table", "figure", "pre"} <= set(parser.seen)


def test_tuning_is_shown(tmp_path: Path) -> None:
    tuning = Tuning((1000,), (Axis("train.learning_rate", ("5e-4", "1e-3")),))
    page = report_page(study(tmp_path, tuning=tuning))
    assert "<h2>Tuning</h2>" in page
    assert page.count('class="best"') == 2


@pytest.mark.parametrize("target", [0.05, 1.0])
def test_targets_at_the_ends(tmp_path: Path, target: float) -> None:
    page = report_page(study(tmp_path, target=target))
    assert "nan" not in re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL).lower()


class Apart(FakeTraining):
    """Seeds that log a share in different steps, and one that logs a huge figure once."""

    def __call__(self, path: Path) -> Finished:
        config = RunFolder(path).load()
        if config.rollout.top_k != 7:
            return super().__call__(path)
        early = config.run.seed == 0

        def extra(step: int) -> dict[str, float]:
            found = {"replay/clip_share": 0.1} if (step < 4) == early else {}
            return {**found, "replay/ratio_max": 1e20} if early and step == 1 else found

        write_run(path, {0: 0.1, 10: 0.5, 20: 0.9}, steps=20, extra=extra)
        (path / "checkpoints" / "step_000020").mkdir(parents=True)
        return Finished()


def test_seeds_that_share_no_step_are_drawn_beside_each_other(tmp_path: Path) -> None:
    page = report_page(study(tmp_path, launch=Apart()))
    for panel in ("clip_share", "ratio_max"):
        assert f"<figcaption>{panel}<" in page


def test_why_a_figure_is_undefined(tmp_path: Path) -> None:
    """Runs that diverge before anything is measured are not runs that never got there."""
    page = report_page(study(tmp_path, launch=Unmeasured()))
    final = page.partition("Final success, points")[2].partition("</div>")[0]
    assert "undefined" in final
    assert "a run was not examined often enough" in final


def test_a_target_that_was_there_at_once(tmp_path: Path) -> None:
    page = report_page(study(tmp_path, target=0.05))
    cost = page.partition("Rollouts to 5%, twin / replay")[2].partition("</div>")[0]
    assert "were there at once" in cost


class Unmeasured(FakeTraining):
    """Gives up in the first step, before it was examined."""

    def __call__(self, path: Path) -> Finished:
        write_run(path, {}, steps=1)
        (path / "diverged.json").write_text("{}")
        return Finished(3)
