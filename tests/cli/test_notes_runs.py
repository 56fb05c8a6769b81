"""Notes from the command line: the four methods on the desks, and taking a note out."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect.notes.store_bank import StoreBank
from recollect.store import open_reader
from recollect.telemetry.reading import read_metrics
from train.noted import GUIDED, write_bank
from train.small import make_config, make_model, run_to_end

from .conftest import ask_json, assert_refused, invoke

QUICK = (
    "run.steps=2",
    "rollout.tasks_per_step=3",
    "rollout.rows_per_task=4",
    "eval.tasks=3",
    "notes.top_k=1",
    "distill.kinds=[comparison,success,failure]",
    "notes.min_trust=0",
    "replay.modes=[]",
)


@pytest.mark.parametrize("method", ["baseline", "ec", "ei", "het"])
def test_the_four_methods_run_on_the_desks(tmp_path: Path, method: str) -> None:
    result = invoke(
        "train", "demo", "--method", method, *QUICK, f"run.folder={tmp_path}", "--no-progress"
    )
    assert result.exit_code == 0, result.output
    (folder,) = tmp_path.iterdir()
    found = read_metrics(folder)
    last = found.steps[-1].metrics
    if method == "baseline":
        assert not any(name.startswith("notes/") for name in last)
        assert "eval/guided_success" not in found.evaluations[-1].metrics
        return
    assert last["notes/guided"] in (2, 4, 6), "two of four rows of each task that a note fits"
    assert "eval/guided_success" in found.evaluations[-1].metrics
    with open_reader(folder / "store.db") as store:
        assert StoreBank(store).credits()
    assert last["notes/stripped"] <= {"ec": 0, "ei": 6, "het": 4}[method]


def test_a_method_is_a_preset_on_top() -> None:
    shown = invoke("train", "demo", "--method", "het", "notes.keep_share=0.25", "--dry-run").stdout
    assert "hybrid" in shown
    assert "preset het" in shown
    assert_refused_method = invoke("train", "demo", "--method", "hat", "--dry-run")
    assert assert_refused_method.exit_code == 2


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A small run that was guided by two notes."""
    root = tmp_path_factory.mktemp("noted")
    note, _ = write_bank(root / "bank.db", "abc abc", "zz top")
    model = make_model(root / "model")
    flags = (*GUIDED, "run.steps=2", "eval.every=0", f"notes.start_from={root / 'bank.db'}")
    run_to_end(root / "run", make_config(model, *flags))
    return root / "run", note


def test_a_note_is_taken_out(trained: tuple[Path, str]) -> None:
    folder, note = trained
    before = (folder / "store.db").read_bytes()
    found = ask_json("notes", "ablate", folder, note[:10], "--tasks", 4)
    assert found["note"] == note
    assert set(found["success"]) == {"with it", "without it", "without notes"}
    assert 0 <= found["tasks_given_it"] <= found["tasks"] == 4
    low, high = found["gain_interval"]
    assert low <= found["gain"] <= high
    twice = ("--tasks", 4, "--rows", 2, "--temperature", 1)
    text = invoke("notes", "ablate", folder, note[:10], *twice).stdout
    assert "The note changes success by" in text
    assert "of 4 tasks get the note; 8 attempts" in text
    assert (folder / "store.db").read_bytes() == before, "nothing is written"


def test_ablation_needs_a_run_and_a_note(trained: tuple[Path, str], tmp_path: Path) -> None:
    assert_refused(invoke("notes", "ablate", tmp_path, "x"), "no run")
    assert_refused(invoke("notes", "ablate", trained[0], "zz"), "notes ls")
