import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.errors import BadFile
from recollect.telemetry.events import CheckpointSaved, Event, RunStarted
from recollect.telemetry.fanout import Fanout
from recollect.telemetry.reading import read_metrics
from recollect.telemetry.scores import Score
from recollect.telemetry.sinks.jsonl import JsonlSink, truncate_after

from ..samples import Clock, Recorder, evaluation, step, whole_run

FULL = Path("/dev/full")


def write(path: Path, *events: Event) -> bytes:
    sink = JsonlSink(path, Clock())
    for event in events:
        sink.emit(event)
    sink.close()
    return path.read_bytes()


def test_lines_by_hand(tmp_path: Path) -> None:
    data = write(tmp_path / "new" / "m.jsonl", step(12), evaluation(20))
    first, second = (json.loads(line) for line in data.splitlines())
    metrics = first.pop("metrics")
    assert first == {"kind": "step", "step": 12, "steps": 60, "time": 1000.0}
    assert metrics["train/loss"] == 0.0123
    assert metrics["health/not_finite"] == 0
    assert (second["kind"], second["split"], second["seconds"]) == ("evaluation", "test", 3.21)
    assert second["metrics"]["eval/success/airline/2"] == 0.25
    assert second["scores"][0] == {
        "domain": "airline",
        "level": 1,
        "n": 40,
        "successes": 20,
        "floor": 0.05,
        "reward": 0.4,
        "reward_std": 0.1,
        "tools": None,
    }


def test_nan_is_null_and_counted(tmp_path: Path) -> None:
    data = write(tmp_path / "m", step(1, train__loss=float("nan"), policy__kl=float("inf")))
    assert b"NaN" not in data
    assert b"Infinity" not in data
    metrics = json.loads(data)["metrics"]
    assert (metrics["train/loss"], metrics["policy/kl"]) == (None, None)
    assert metrics["health/not_finite"] == 2


def test_no_figure_of_a_score_is_written_as_nan(tmp_path: Path) -> None:
    nan = float("nan")
    scores = (Score("airline", 1, 4, 2, floor=nan, reward=nan, reward_std=nan, tools=nan),)
    data = write(tmp_path / "m", replace(evaluation(20), scores=scores))
    assert b"NaN" not in data
    (score,) = json.loads(data)["scores"]
    assert [score[name] for name in ("floor", "reward", "reward_std", "tools")] == [None] * 4


def test_each_line_is_there_when_emit_returns(tmp_path: Path) -> None:
    path = tmp_path / "m"
    sink = JsonlSink(path)
    for number in range(1, 4):
        sink.emit(step(number))
        assert len(path.read_bytes().splitlines()) == number
    sink.emit(CheckpointSaved(3, tmp_path))
    sink.close()
    sink.close()
    sink.emit(step(4))
    assert len(path.read_bytes().splitlines()) == 3


def test_a_resumed_run_leaves_the_file_of_an_undisturbed_one(tmp_path: Path) -> None:
    start = RunStarted("r", tmp_path, 4)
    early: list[Event] = [start, evaluation(0, 4), step(1), step(2), evaluation(2, 9)]
    late: list[Event] = [step(3), step(4), evaluation(4, 30)]
    whole = write(tmp_path / "whole", *early, *late)
    broken = tmp_path / "broken"
    write(broken, *early, step(3, train__loss=9), step(4, train__loss=9))
    with broken.open("ab") as file:
        file.write(b'{"kind": "step", "st')
    # The checkpoint is of step 2; its evaluation is due again, and is not written twice.
    assert write(broken, RunStarted("r", tmp_path, 4, 2), evaluation(2, 9), *late) == whole


def test_another_split_of_the_same_step_is_written(tmp_path: Path) -> None:
    path = tmp_path / "m"
    write(path, evaluation(2))
    data = write(path, RunStarted("r", tmp_path, 4, 2), evaluation(2), evaluation(2, split="dev"))
    assert len(data.splitlines()) == 2


def test_a_torn_tail_is_cut_before_anything_is_added(tmp_path: Path) -> None:
    path = tmp_path / "m"
    clean = write(path, step(1))
    for tail in (b"{", b"\0" * 200_000, clean[:-1]):
        path.write_bytes(clean + tail)
        assert write(path) == clean
    path.write_bytes(b"{")
    assert write(path) == b""


def test_truncating(tmp_path: Path) -> None:
    path = tmp_path / "m"
    assert truncate_after(path, 3) == 0
    data = write(path, evaluation(0), step(1), step(2), evaluation(2), step(3))
    assert truncate_after(path, 3) == 0
    assert path.read_bytes() == data
    assert truncate_after(path, 2) == 1
    assert truncate_after(path, 1) == 2
    assert truncate_after(path, 0) == 1
    assert len(path.read_bytes().splitlines()) == 1


@given(st.integers(0, 7), st.integers(0, 3000))
def test_truncating_any_torn_file_leaves_whole_lines(
    tmp_path_factory: pytest.TempPathFactory, last: int, cut: int
) -> None:
    path = tmp_path_factory.mktemp("torn") / "m"
    data = write(path, *(step(number) for number in range(1, 7)))
    path.write_bytes(data[:cut])
    truncate_after(path, last)
    whole = data[:cut].count(b"\n")
    kept = path.read_bytes()
    assert kept == b"".join(data.splitlines(keepends=True)[: min(whole, last)])


def test_a_damaged_file_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "m"
    data = write(path, step(1), step(2))
    for damage in (b"nonsense\n", b"[]\n", b'{"step": "x"}\n'):
        path.write_bytes(damage + data)
        with pytest.raises(BadFile, match="byte 0"):
            truncate_after(path, 1)
        assert path.read_bytes() == damage + data
    path.write_bytes(data + data)
    with pytest.raises(BadFile, match="follows a later step"):
        truncate_after(path, 1)


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_a_full_disk_switches_the_file_off_and_the_run_goes_on() -> None:
    left = Recorder()
    fanout = Fanout({"metrics.jsonl": JsonlSink(FULL), "left": left})
    fanout.emit(step(1))
    fanout.emit(step(2))
    assert len(left.warnings) == 1
    assert "No space left" in left.warnings[0]


HALF_WRITTEN = """
import resource, signal, sys
from pathlib import Path
from tests_samples import step
from recollect.telemetry.sinks.jsonl import JsonlSink
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sink = JsonlSink(Path(sys.argv[1]))
sink.emit(step(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400))
for number in range(2, 9):
    try:
        sink.emit(step(number))
    except OSError:
        sys.exit(number)
"""

KILLED = """
import sys
from pathlib import Path
from tests_samples import step
from recollect.telemetry.sinks.jsonl import JsonlSink
sink = JsonlSink(Path(sys.argv[1]))
for number in range(1, 10**6):
    sink.emit(step(number, 10**6))
    print(number, flush=True)
"""


def child(code: str, path: Path) -> subprocess.Popen[str]:
    places = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    code = code.replace("tests_samples", "telemetry.samples")
    return subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": places},
    )


def test_a_write_that_fails_half_way_leaves_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "m"
    process = child(HALF_WRITTEN, path)
    process.communicate(timeout=30)
    assert process.returncode >= 2
    run = read_metrics(path)
    assert not run.torn
    assert len(run.steps) == process.returncode - 1


@pytest.mark.parametrize("lines", [1, 50, 400])
def test_what_was_emitted_survives_kill_9(tmp_path: Path, lines: int) -> None:
    path = tmp_path / "m"
    process = child(KILLED, path)
    assert process.stdout is not None
    for _ in range(lines):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    acknowledged = lines + process.stdout.read().count("\n")
    process.wait(timeout=10)
    process.stdout.close()
    assert len(read_metrics(path).steps) in (acknowledged, acknowledged + 1)


def test_events_without_numbers_leave_no_trace(tmp_path: Path) -> None:
    data = write(tmp_path / "m", *whole_run(tmp_path, steps=2))
    assert [json.loads(line)["kind"] for line in data.splitlines()] == [
        "evaluation", "step", "step", "evaluation",
    ]  # fmt: skip
