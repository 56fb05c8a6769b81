import csv
import math
from pathlib import Path

import numpy as np

from recollect.telemetry.curves import label_of, make_curve, write_csv
from recollect.telemetry.reading import RunMetrics, read_metrics

from .samples import step
from .test_reading import written

NAN = float("nan")


def run(folder: Path, losses: dict[int, float]) -> RunMetrics:
    steps = [step(n, train__loss=v, rollout__rows_total=8 * n) for n, v in losses.items()]
    return read_metrics(written(folder, *steps))


def same(found: object, expected: list[float]) -> bool:
    return np.array_equal(np.asarray(found), np.array(expected), equal_nan=True)


def test_mean_and_range_over_runs(tmp_path: Path) -> None:
    runs = [run(tmp_path / "a", {1: 1.0, 2: 4.0}), run(tmp_path / "b", {1: 3.0, 2: 0.0})]
    curve = make_curve("x", runs, "train/loss", "rollouts")
    assert curve is not None
    assert same(curve.x, [8, 16])
    assert same(curve.mean, [2, 2])
    assert same(curve.low, [1, 0])
    assert same(curve.high, [3, 4])
    assert [thread.run for thread in curve.threads] == ["a", "b"]


def test_what_one_run_lacks_is_a_gap_for_all_but_its_thread_stays(tmp_path: Path) -> None:
    runs = [run(tmp_path / "a", {1: 1.0, 2: NAN, 3: 1.0}), run(tmp_path / "b", {1: 3.0, 2: 3.0})]
    curve = make_curve("x", runs, "train/loss", "step")
    assert curve is not None
    assert same(curve.mean, [2, NAN, NAN])
    assert same(curve.threads[0].values, [1, NAN, 1])
    assert same(curve.threads[1].values, [3, 3])


def test_missing_steps_are_a_gap(tmp_path: Path) -> None:
    curve = make_curve("x", [run(tmp_path, dict.fromkeys((1, 2, 3, 7, 8), 1.0))], "train/loss",
                       "step")  # fmt: skip
    assert curve is not None
    assert same(curve.mean, [1, 1, 1, NAN, 1, 1])
    assert math.isnan(curve.x[3])


def test_minutes(tmp_path: Path) -> None:
    curve = make_curve("x", [run(tmp_path, {1: 1.0, 2: 2.0})], "train/loss", "minutes")
    assert curve is not None
    assert same(curve.x, [0, 2 / 60])


def test_a_metric_nobody_logged_has_no_curve(tmp_path: Path) -> None:
    assert make_curve("x", [run(tmp_path, {1: 1.0})], "policy/entropy", "step") is None


def test_labels(tmp_path: Path) -> None:
    made = {n: run(tmp_path / n, {1: 1.0}) for n in ("demo-10", "demo-11", "x", "y")}
    assert label_of([made["x"]]) == "x"
    assert label_of([made["demo-10"], made["demo-11"]]) == "demo"
    assert label_of([made["x"], made["y"]]) == "2 runs"


def test_the_csv_has_every_point(tmp_path: Path) -> None:
    runs = {"x": [run(tmp_path / "a", {1: 0.1, 2: NAN})], "y": [run(tmp_path / "b", {1: 3.0})]}
    path = tmp_path / "curve.csv"
    write_csv(path, runs, ["train/loss"])
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["metric", "label", "run", "step", "rollouts", "seconds", "value"],
        ["train/loss", "x", "a", "1", "8.0", "0.0", "0.1"],
        ["train/loss", "x", "a", "2", "16.0", "2.0", ""],
        ["train/loss", "y", "b", "1", "8.0", "0.0", "3.0"],
    ]
