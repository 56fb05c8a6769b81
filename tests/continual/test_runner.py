"""A continual run from its folder: what it writes, and that it goes on wherever it was killed."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
from pathlib import Path

import pytest

from recollect.continual.journey import CONFIG, Journey, write_whole
from recollect.continual.runner import create_journey, open_journey
from recollect.continual.schedule import Stage
from recollect.errors import BadContinual
from recollect.store import open_reader
from recollect.telemetry.names import is_reproducible
from recollect.telemetry.reading import read_metrics
from recollect.types import TaskKey
from train.processes import start

from .small import HALVES, distance, go, journey_of, stage_weights

_FLAGS = ("continual.ewc.fisher_rows=4", "run.steps=3", "continual.ewc.strength=10",
          "continual.replay.ratio=0.5", "algo.kl_coef=0.1")  # fmt: skip


def test_everything_is_examined_at_every_stage(model: Path, tmp_path: Path) -> None:
    journey = journey_of(tmp_path / "r", model, "continual.references=[joint,single]",
                         "eval.rows=2", "eval.temperature=1")  # fmt: skip
    stream = io.StringIO()
    assert go(journey, stream) is None
    assert journey.finished
    assert set(journey.examinations) == {"base", "0", "1", "joint", "single-early", "single-late"}
    found = json.loads((journey.path / "metrics.json").read_text())
    assert found["task_order"] == ["early", "late"]
    assert all(None not in row for row in found["matrix"]["stages"])
    assert None not in found["matrix"]["base"] + found["matrix"]["joint"]
    assert found["measures"]["intransigence"]["value"] is not None
    assert found["measures"]["forgetting"]["low"] is not None
    assert found["transfer"][0]["backward_transfer"].startswith("n/a (")
    assert [line["global_step"] for line in found["task_1/train"]] == [3, 4]
    cell = found["examinations"]["1"]["late"]
    assert cell["n"] == 8
    assert cell["pass^k"]["2"] <= cell["pass@k"]["2"]
    assert cell["kl_to_base"] > 0
    assert found["examinations"]["base"]["late"]["kl_to_base"] == 0
    assert cell["tool_accuracy"] is not None
    joint = journey.run(journey.stages[2]).load()
    assert (joint.run.steps, joint.environment.domains) == (4, ("early", "late"))
    words = stream.getvalue()
    for line in ("Task 0: EARLY", "Task order: early → late", "Training Complete!",
                 "=== Transfer Metrics after Task 1 ===", "Reference: JOINT"):  # fmt: skip
        assert line in words
    # Going on with what is finished trains nothing.
    before = (journey.path / "examinations" / "1.json").stat().st_mtime_ns
    assert go(open_journey(journey.path)) is None
    assert (journey.path / "examinations" / "1.json").stat().st_mtime_ns == before


def test_every_model_meets_the_same_tasks(model: Path, tmp_path: Path) -> None:
    journey = journey_of(tmp_path / "r", model)
    go(journey)
    met = [
        [(r.domain, task.task) for r in each.domains for task in r.tasks]
        for each in journey.examinations.values()
    ]
    assert met[0] == met[1] == met[2]
    assert len(met[0]) == 8


def test_the_joint_model_trains_on_the_tasks_of_all_stages(model: Path, tmp_path: Path) -> None:
    """`environment.tasks` is of a domain, and not of all domains at once."""
    journey = journey_of(tmp_path / "r", model, "continual.references=[joint]",
                         "environment.tasks=2")  # fmt: skip
    stream = io.StringIO()
    go(journey, stream)
    assert "Training on 4 tasks from all domains" in stream.getvalue()
    *alone, joint = (met_in(journey, stage) for stage in journey.stages)
    assert joint == set.union(*alone)
    assert len(joint) == 4


def test_a_run_that_was_trained_in_another_order_is_not_read_as_this_one(
    model: Path, tmp_path: Path
) -> None:
    journey = journey_of(tmp_path / "r", model)
    go(journey)
    file = journey.path / CONFIG
    text = file.read_text()
    file.write_text(text.replace("task_order: null", "task_order: [late, early]"))
    assert file.read_text() != text
    with pytest.raises(
        BadContinual, match=r"another order: it has stages/00-early where .* 00-late"
    ):
        open_journey(journey.path)


def met_in(journey: Journey, stage: Stage) -> set[TaskKey]:
    """The tasks that a stage's training attempted."""
    folder = journey.run(stage)
    with open_reader(folder.path / "store.db") as store:
        return {state.task for state in store.task_states(folder.run(folder.load()))}


def travel_to_end(path: str) -> None:
    go(open_journey(Path(path)))


def losses(journey: Journey) -> list[dict[str, float]]:
    return [
        {name: value for name, value in line.metrics.items() if is_reproducible(name)}
        for stage in journey.stages
        for line in read_metrics(journey.run(stage).path).steps
    ]


@pytest.mark.parametrize("method", ["ewc_pp", "replay", "progressive"])
def test_killed_in_a_domain_it_goes_on_exactly(model: Path, tmp_path: Path, method: str) -> None:
    """kill -9 after some step, several times; the end is the same bit for bit."""
    flags = [f"continual.method={method}", *_FLAGS]
    whole = journey_of(tmp_path / "whole" / "r", model, *flags)
    go(whole)
    broken = journey_of(tmp_path / "broken" / "r", model, *flags)
    for stage, step in ((0, 1), (0, 2), (1, 1), (1, 2)):
        child = start(travel_to_end, str(broken.path))
        metrics = broken.run(broken.stage(stage)).metrics
        while child.is_alive() and not (
            metrics.is_file() and f'"step":{step},' in metrics.read_text()
        ):
            child.join(0.02)
        child.kill()
        child.join()
    go(open_journey(broken.path))
    assert broken.finished
    assert losses(broken) == losses(whole)
    assert distance(stage_weights(broken, 1), stage_weights(whole, 1)) == 0
    for label, found in whole.examinations.items():
        assert broken.examinations[label] == found


def test_a_stage_whose_last_checkpoint_is_damaged_is_trained_again(
    model: Path, tmp_path: Path
) -> None:
    journey = journey_of(tmp_path / "r", model)
    go(journey)
    first, after = journey.stage(0), stage_weights(journey, 0)
    weights = journey.checkpoint(first) / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert not journey.is_trained(first)
    assert go(open_journey(journey.path)) is None
    assert journey.is_trained(first)
    assert distance(stage_weights(journey, 0), after) == 0


def test_a_product_is_whole_or_not_there(tmp_path: Path) -> None:
    target = tmp_path / "state"

    def half(folder: Path) -> None:
        (folder / "one").write_text("1")
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        write_whole(target, half)
    assert not target.exists()
    write_whole(target, lambda folder: (folder / "two").write_text("2") and None)
    assert [path.name for path in target.iterdir()] == ["two"]
    write_whole(target, half)  # is there: nothing is done again


def test_all_of_a_product_is_on_the_disk_before_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some tokenizers write templates into a folder within."""
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append(os.fstat(descriptor).st_ino))

    def write(folder: Path) -> None:
        (folder / "more").mkdir()
        (folder / "more" / "one").write_text("1")

    target = write_whole(tmp_path / "state", write)
    wanted = (target / "more" / "one", target / "more", target, tmp_path)
    assert {path.stat().st_ino for path in wanted} <= set(flushed)
    assert flushed[-1] == tmp_path.stat().st_ino  # the name itself, at the end


SEARCH = "continual.fusion.search_split=other"
STORED_ROWS = ("continual.method=replay", "continual.replay.kind=trajectories")


def test_bad_runs_are_refused_before_anything_is_trained(model: Path, tmp_path: Path) -> None:
    with pytest.raises(BadContinual, match="no domain 'south'"):
        journey_of(tmp_path / "a", model, "continual.task_order=[south]")
    with pytest.raises(BadContinual, match="not with vllm"):
        journey_of(tmp_path / "c", model, "rollout.engine=vllm")
    for flags, why in (
        (("continual.method=fusion", "continual.fusion.rule=fisher", "model.lora.rank=2"), "apart"),
        (("continual.method=sft", "notes.rollout=mixed"), "mixed would guide nobody"),
        (("continual.imitate=true", "notes.rollout=all"), "all would guide nobody"),
        ((*STORED_ROWS, "replay.modes=[mix]", "replay.participation=baseline"), "stage 1 would"),
        (("eval.split=other",), "no tasks of domain early in split 'other'"),
        (("continual.method=fusion", SEARCH), "no tasks of domain early in split 'other'"),
        (("continual.method=adaptive_fusion", SEARCH), "no tasks of domain early in split 'other'"),
        (("environment.domains=[late]", "continual.task_order=[late,early]"), "leaves out"),
    ):
        with pytest.raises(BadContinual, match=why):
            journey_of(tmp_path / "c", model, *flags)
    assert not (tmp_path / "c").exists()
    journey = journey_of(tmp_path / "b", model)
    assert journey_of(tmp_path / "b", model).path == journey.path  # the same again goes on
    file = tmp_path / "b" / CONFIG
    written = file.read_text()
    file.write_text(re.sub("  kl_revision:.*\n", "", written))
    assert file.read_text() != written
    journey_of(tmp_path / "b", model)  # as before there was this setting
    with pytest.raises(BadContinual, match="other settings"):
        journey_of(tmp_path / "b", model, "run.steps=9")
    with pytest.raises(BadContinual, match="no continual run"):
        open_journey(tmp_path)
    shutil.rmtree(tmp_path / "b")
    assert create_journey(tmp_path / "b", journey.config).order == ("early", "late")


def test_only_the_domains_of_the_environment_section_are_learnt(
    model: Path, tmp_path: Path
) -> None:
    assert journey_of(tmp_path / "a", model, "environment.domains=[late]").order == ("late",)
    both = ("environment.domains=[early,late]", "continual.task_order=[late,early]")
    assert journey_of(tmp_path / "b", model, *both).order == ("late", "early")


def test_what_searches_nothing_needs_no_split_for_it(model: Path, tmp_path: Path) -> None:
    flags = ("continual.method=fusion", "continual.fusion.rule=average", SEARCH)
    assert journey_of(tmp_path / "a", model, *flags).order == ("early", "late")


def test_a_run_goes_on_from_any_folder(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(HALVES.rpartition(":")[0], tmp_path / "halves.py")
    monkeypatch.chdir(tmp_path)
    journey = journey_of(tmp_path / "a", model, world="halves.py:Halves")
    assert journey_of(tmp_path / "a", model, world="halves.py:Halves") == journey
    monkeypatch.chdir("/")
    assert open_journey(tmp_path / "a").order == ("early", "late")
