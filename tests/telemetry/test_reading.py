import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.errors import BadFile
from recollect.telemetry.events import Event, RunStarted
from recollect.telemetry.reading import read_metrics
from recollect.telemetry.sinks.jsonl import JsonlSink

from .samples import METRICS, Clock, evaluation, step


def written(folder: Path, *events: Event, seconds: float = 2.0) -> Path:
    clock = Clock()
    sink = JsonlSink(folder / "metrics.jsonl", clock)
    for event in events:
        sink.emit(event)
        clock.now += seconds
    sink.close()
    return folder


def test_everything_comes_back(tmp_path: Path) -> None:
    events = (evaluation(0, 4), step(1), step(2, train__loss=float("nan")), evaluation(2))
    run = read_metrics(written(tmp_path, *events))
    assert [line.step for line in run.steps] == [1, 2]
    assert run.steps[0].metrics.items() >= METRICS.items()
    assert math.isnan(run.steps[1].metrics["train/loss"])
    assert run.evaluations[1].scores == evaluation(2).scores
    assert run.last is run.steps[-1]
    assert not run.torn
    assert {"train/loss", "eval/success/airline/1"} <= set(run.names())


def test_series(tmp_path: Path) -> None:
    events = [evaluation(0), *(step(n, rollout__rows_total=64 * n) for n in (1, 2)), evaluation(2)]
    run = read_metrics(str(written(tmp_path, *events) / "metrics.jsonl"))
    success = run.series("eval/success")
    assert success.steps.tolist() == [0, 2]
    assert success.rollouts.tolist() == [0, 128]
    assert success.seconds.tolist() == [0, 6]
    loss = run.series("train/loss")
    assert (loss.steps.tolist(), loss.seconds.tolist()) == ([1, 2], [2, 4])
    assert len(run.series("train/nothing").values) == 0


def test_splits_are_not_mixed(tmp_path: Path) -> None:
    events = [evaluation(0), evaluation(0, 40, split="dev"), evaluation(1, split="dev")]
    run = read_metrics(written(tmp_path, *events))
    assert run.series("eval/success").steps.tolist() == [0]
    assert run.series("eval/success", split="dev").steps.tolist() == [0, 1]


def test_without_totals_rollouts_are_added_up(tmp_path: Path) -> None:
    events = [step(n) for n in (1, 2, 3)]
    for event in events:
        del event.metrics["rollout/rows_total"]  # type: ignore[attr-defined]
    series = read_metrics(written(tmp_path, *events)).series("train/loss")
    assert series.rollouts.tolist() == [64, 128, 192]


def test_an_empty_file_is_a_run_that_has_not_stepped(tmp_path: Path) -> None:
    run = read_metrics(written(tmp_path, RunStarted("r", tmp_path, 3)))
    assert (run.steps, run.evaluations, run.last, run.names()) == ((), (), None, [])


@given(st.integers(0, 5000))
def test_a_file_cut_anywhere_gives_its_whole_lines(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    folder = written(tmp_path_factory.mktemp("cut"), step(1), evaluation(1), step(2), step(3))
    path = folder / "metrics.jsonl"
    data = path.read_bytes()[:cut]
    path.write_bytes(data)
    run = read_metrics(path)
    assert len(run.steps) + len(run.evaluations) == data.count(b"\n")
    assert run.torn == (data != b"" and not data.endswith(b"\n"))


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "",
        "[]",
        "{}",
        '{"kind": "step", "step": 1, "steps": 2, "time": 0, "metrics": {"train/loss": NaN}}',
        '{"kind": "step", "step": 1, "steps": 2, "time": 0, "metrics": {"train/loss": "1"}}',
        '{"kind": "step", "step": 1, "steps": 2, "time": 0, "metrics": []}',
        '{"kind": "step", "step": 1, "steps": 2, "time": 1' + "0" * 400 + ', "metrics": {}}',
        '{"kind": "step", "step": true, "steps": 2, "time": 0, "metrics": {}}',
        '{"kind": "step", "step": 1.5, "steps": 2, "time": 0, "metrics": {}}',
        '{"kind": "other", "step": 1, "steps": 2, "time": 0, "metrics": {}}',
        '{"kind": "evaluation", "step": 1, "split": "t", "time": 0, "metrics": {}, "scores": 1}',
        '{"kind": "evaluation", "step": 1, "split": "t", "time": 0, "metrics": {}, "scores": [1]}',
    ],
)
def test_damage_in_the_middle_is_named_by_its_line(tmp_path: Path, line: str) -> None:
    folder = written(tmp_path, step(1), step(2))
    path = folder / "metrics.jsonl"
    first, second = path.read_text().splitlines()
    path.write_text(f"{first}\n{line}\n{second}\n")
    with pytest.raises(BadFile, match="line 2 is not a line of metrics"):
        read_metrics(folder)


def test_steps_may_not_go_back(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="line 2: step 1 follows step 2"):
        read_metrics(written(tmp_path, step(2), step(1)))


def test_a_missing_file_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="No such file"):
        read_metrics(tmp_path)
    with pytest.raises(BadFile, match="recollect runs ls"):
        read_metrics(tmp_path / "nowhere")
