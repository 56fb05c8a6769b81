"""`recollect continual`, `recollect resume` of such a run, `recollect continual-report`."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from recollect.errors.extras import install_command
from train.small import settings

from .conftest import ask_json, assert_refused, invoke

HALVES = f"{Path(__file__).parents[1] / 'continual' / 'worlds.py'}:Halves"


def flags_of(model: Path, root: Path, name: str, *more: str) -> list[str]:
    own = ["run.steps=2", "eval.every=1", f"run.folder={root}", f"run.name={name}", *more]
    return [*settings(model, world=HALVES), *own]


def _often(by_setting: bool) -> list[str]:
    """Ask for a line at every step, in either way."""
    return ["telemetry.log_interval=1"] if by_setting else ["--log_interval", "1"]


@pytest.fixture(scope="module")
def runs(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    config = root / "mine.yaml"
    config.write_text("continual:\n  score: reward\n")
    for method, wordy in (("sequential", False), ("ewc", True)):
        flags = flags_of(model, root, method, f"continual.method={method}",
                         "continual.ewc.fisher_rows=2", f"telemetry.verbose={wordy}")  # fmt: skip
        result = invoke("continual", config, *flags, "--no-use_progress_bar", *_often(wordy))
        assert result.exit_code == 0, result.output
        assert "[Task 1] Step   1/2 | loss: " in result.stdout
        assert "=== Transfer Metrics after Task 1 ===" in result.stdout
        assert ("checkpoint step 2" in result.stdout) == wordy
    return root


def test_what_is_in_the_folder(runs: Path) -> None:
    folder = runs / "sequential"
    assert {path.name for path in folder.iterdir()} >= {
        "continual.yaml", "stages", "examinations", "metrics.json", "matrix.png", "curves.png",
    }  # fmt: skip
    assert json.loads((folder / "metrics.json").read_text())["method"] == "sequential"


def test_ctrl_c_in_an_examination_says_how_to_go_on(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object, **named: object) -> None:
        raise KeyboardInterrupt

    folder = runs / "sequential"
    kept = (folder / "examinations" / "1.json").rename(folder / "kept")
    try:
        with monkeypatch.context() as patch:
            patch.setattr("recollect.continual.runner.examine", interrupted)
            result = invoke("resume", folder)
    finally:
        kept.rename(folder / "examinations" / "1.json")
    assert result.exit_code == 130
    assert "stopped by SIGINT; what was done is saved" in result.stdout
    assert f"recollect resume {folder}" in result.stdout


def test_resume_goes_on_with_the_whole(runs: Path) -> None:
    result = invoke("resume", runs / "sequential")
    assert result.exit_code == 0, result.output
    assert "Training Complete!" in result.stdout
    assert_refused(invoke("resume", "--runs", runs), "no unfinished run")
    (runs / "ewc" / "examinations" / "1.json").unlink()
    result = invoke("resume", "--runs", runs)
    assert result.exit_code == 0, result.output
    assert "CL Algorithm: ewc" in result.stdout
    refused = invoke("resume", runs / "sequential" / "stages" / "00-early")
    assert_refused(refused, "is a stage of a continual run", "recollect resume")


def test_runs_ls_says_where_the_stages_are(runs: Path) -> None:
    listed = invoke("runs", "ls", "--runs", runs)
    assert listed.exit_code == 0
    assert f"recollect runs ls --runs {runs}/ewc/stages" in listed.stderr
    assert "Start one with" not in listed.stderr


def test_runs_ls_lists_them_as_json_too(runs: Path) -> None:
    ewc, sequential = ask_json("runs", "ls", "--runs", runs)
    assert (ewc["name"], ewc["continual"], ewc["finished"]) == ("ewc", True, True)
    assert [stage["name"] for stage in sequential["stages"]] == ["00-early", "01-late"]
    assert all(stage["finished"] and not stage["continual"] for stage in sequential["stages"])


@pytest.mark.parametrize(
    "command",
    [
        ["doctor", "RUN"],
        ["plot", "RUN"],
        ["model", "export", "RUN", "OUT"],
        ["pool", "ls", "--store", "RUN"],
        ["replay", "explain", "RUN", "1"],
        ["notes", "ls", "--store", "RUN"],
        ["eval", "RUN"],
        ["eval", "RUN", "--env", "desk"],
        ["serve", "policy", "RUN"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_a_continual_run_is_recognised(command: list[str], tmp_path: Path) -> None:
    """Its folder has no store, metrics or checkpoint; those are its stages'."""
    folder = tmp_path / "domains-1"
    stage = folder / "stages" / "00-airline"
    stage.mkdir(parents=True)
    (folder / "continual.yaml").write_text("run:\n  seed: 1\n")
    (stage / "config.yaml").write_text("run:\n  seed: 1\n")
    words = {"RUN": str(folder), "OUT": str(tmp_path / "out")}
    refused = invoke(*(words.get(word, word) for word in command))
    assert_refused(refused, f"{folder}: it is a continual run", f"such as {stage}")


def test_settings_of_continual_runs_can_be_compared(tmp_path: Path) -> None:
    for seed in (1, 2):
        (tmp_path / str(seed)).mkdir()
        (tmp_path / str(seed) / "continual.yaml").write_text(f"run:\n  seed: {seed}\n")
    result = invoke("config", "diff", tmp_path / "1", tmp_path / "2")
    assert result.exit_code == 0, result.output
    assert "run.seed" in result.stdout


def test_a_report_without_matplotlib(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.cli.continual.find_spec", lambda name: None)
    result = invoke("continual-report", runs / "ewc", "--out", tmp_path / "report")
    assert result.exit_code == 0, result.output
    assert install_command("plot") in result.stderr
    assert sorted(path.name for path in (tmp_path / "report").iterdir()) == [
        "comparison.json",
        "report.html",
    ]


def test_methods_beside_each_other(runs: Path, tmp_path: Path) -> None:
    folders = [runs / "sequential", runs / "ewc"]
    result = invoke("continual-report", *folders, "--out", tmp_path / "report")
    assert result.exit_code == 0, result.output
    assert "forgetting" in result.stdout
    page = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert "ewc" in page
    assert (tmp_path / "report" / "forgetting.png").is_file()
    also = tmp_path / "also"
    found = json.loads(invoke("continual-report", *folders, "--out", also, "--json").stdout)
    assert (also / "report.html").is_file()
    assert set(found["methods"]) == {"sequential", "ewc"}
    entry = found["methods"]["ewc"]["measures"]["forgetting"]
    assert entry["minus_sequential"]["mean"] is not None
    assert found["methods"]["ewc"]["measures"]["intransigence"]["mean"] is None
    assert_refused(invoke("continual-report", folders[0], folders[0]), "the same seed")


def test_runs_of_one_method_with_other_settings_are_not_averaged(
    runs: Path, tmp_path: Path
) -> None:
    other, page = tmp_path / "other", tmp_path / "report"
    shutil.copytree(runs / "ewc", other)
    file = other / "continual.yaml"
    text = file.read_text(encoding="utf-8")
    assert text.count("\n  seed: 0\n") == 1
    seeded = text.replace("\n  seed: 0\n", "\n  seed: 1\n")
    file.write_text(seeded.replace("log_interval: null", "log_interval: 2"), encoding="utf-8")
    assert invoke("continual-report", runs / "ewc", other, "--out", page).exit_code == 0
    file.write_text(re.sub(r"strength: .*", "strength: 77", seeded), encoding="utf-8")
    refused = invoke("continual-report", runs / "ewc", other, "--out", page)
    assert_refused(refused, "differ in continual.ewc.strength")


def test_dry_run_and_bad_input(model: Path, tmp_path: Path) -> None:
    shown = invoke("continual", "domains", "--dry-run")
    assert shown.exit_code == 0
    assert "task_order" in shown.stdout
    document = json.loads(invoke("continual", "domains", "--dry-run", "--json").stdout)
    assert document["continual"]["task_order"] == ["airline", "retail", "telecom"]
    assert invoke("continual", "domains", "--json").exit_code == 2
    flags = flags_of(model, tmp_path, "x", "continual.task_order=[north]")
    config = tmp_path / "mine.yaml"
    config.write_text("continual:\n  score: reward\n")
    assert_refused(invoke("continual", config, *flags), "no domain 'north'")
    assert_refused(invoke("continual-report", tmp_path), "no continual run")
    refused = ["train.parallel=fsdp2", f"run.folder={tmp_path / 'runs'}"]
    assert_refused(invoke("continual", "domains", *refused), "fsdp2")
    assert list((tmp_path / "runs").iterdir()) == []
    wrong = invoke("continual", "domains", "continual.method=magic", "--dry-run")
    assert wrong.exit_code == 2
    assert "continual.method" in wrong.stderr
