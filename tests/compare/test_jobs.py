from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from recollect.compare.arms import Arm, arm_config
from recollect.compare.jobs import Job, Standing, last_step, run_jobs
from recollect.errors import BadComparison, ComparisonFailed, ComparisonStopped

from .samples import SETTINGS, FakeTraining, Finished, write_run


def jobs(folder: Path, count: int = 4, *settings: str) -> list[Job]:
    flags = [*SETTINGS, *settings]
    return [
        Job("a", seed, folder / f"seed-{seed}", arm_config("demo", flags, Arm("a"), seed))
        for seed in range(count)
    ]


class Slow:
    """A worker that needs some looks, and whose end is given."""

    def __init__(self, path: Path, end: Callable[[], int], looks: int = 3) -> None:
        self.path, self.end, self.looks = path, end, looks
        self.stopped = self.killed = False

    def poll(self) -> int | None:
        self.looks -= 1
        if self.stopped:
            return 143
        return None if self.looks > 0 else self.end()

    def stop(self) -> None:
        self.stopped = True

    def kill(self) -> None:
        self.killed = True


def test_finished_runs_are_not_repeated(tmp_path: Path) -> None:
    training = FakeTraining()
    run_jobs(jobs(tmp_path, 2), training, pause=0)
    run_jobs(jobs(tmp_path, 4), training, pause=0)
    assert [path.name for path in training.started] == ["seed-0", "seed-1", "seed-2", "seed-3"]


def test_one_server_has_the_weights_of_one_run(tmp_path: Path) -> None:
    flags = "rollout.engine=vllm-server", "rollout.url=http://127.0.0.1:8000"
    with pytest.raises(BadComparison, match=r"http://127.0.0.1:8000") as caught:
        run_jobs(jobs(tmp_path, 2, *flags), FakeTraining(), parallel=2, pause=0)
    assert "--jobs 1" in caught.value.hint
    assert list(tmp_path.iterdir()) == []
    training = FakeTraining()
    run_jobs(jobs(tmp_path, 2, *flags), training, pause=0)
    assert len(training.started) == 2


def test_so_many_at_a_time(tmp_path: Path) -> None:
    fake, at_work, most = FakeTraining(), set[Path](), []

    def launch(path: Path) -> Slow:
        at_work.add(path)
        most.append(len(at_work))

        def end() -> int:
            at_work.remove(path)
            return fake(path).code

        return Slow(path, end)

    told: list[Standing] = []
    run_jobs(jobs(tmp_path, 5), launch, parallel=2, tell=told.append, pause=0)
    assert max(most) == 2
    assert (told[0].done, told[0].total, told[0].steps) == (0, 5, 100)
    assert (told[-1].done, told[-1].steps_done, told[-1].running) == (5, 100, ())
    assert [standing.ended.seed for standing in told if standing.ended] == [0, 1, 2, 3, 4]


def test_divergence_is_a_result(tmp_path: Path) -> None:
    training = FakeTraining()
    (job,) = jobs(tmp_path, 1, "train.learning_rate=1.0")
    run_jobs([job], training, pause=0)
    run_jobs([job], training, pause=0)
    assert job.diverged
    assert len(training.started) == 1  # it would diverge again


def test_a_failure_stops_the_others_in_order_and_is_told(tmp_path: Path) -> None:
    workers: list[Slow] = []

    def launch(path: Path) -> Slow:
        (path / "log.txt").write_text("step 1\nerror: The disk is full.\n")
        workers.append(Slow(path, lambda: 2, looks=2 if path.name == "seed-0" else 99))
        return workers[-1]

    with pytest.raises(ComparisonFailed, match=r"seed-0 failed: The disk is full\. Its output"):
        run_jobs(jobs(tmp_path), launch, parallel=2, pause=0)
    assert len(workers) == 2
    assert workers[1].stopped
    assert not workers[1].killed


@pytest.mark.parametrize(("code", "words"), [(-9, "killed by signal 9"), (2, "exit code 2")])
def test_a_silent_failure(tmp_path: Path, code: int, words: str) -> None:
    with pytest.raises(ComparisonFailed, match=f"{words}.*__main__"):
        run_jobs(jobs(tmp_path, 1), lambda path: Finished(code), pause=0)


def test_ending_with_0_before_the_last_step_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(ComparisonFailed):
        run_jobs(jobs(tmp_path, 1), lambda path: Finished(0), pause=0)


def test_a_signal_lets_running_ones_save_and_starts_no_more(tmp_path: Path) -> None:
    workers: list[Slow] = []

    def launch(path: Path) -> Slow:
        workers.append(Slow(path, lambda: 0, looks=99))
        os.kill(os.getpid(), signal.SIGTERM)
        return workers[-1]

    told: list[Standing] = []
    with pytest.raises(ComparisonStopped, match="same command again") as stopped:
        run_jobs(jobs(tmp_path), launch, pause=0, tell=told.append)
    assert stopped.value.exit_code == 143
    assert {standing.done for standing in told} == {0}  # saved is not finished
    assert [worker.stopped for worker in workers] == [True]


def test_a_second_signal_kills(tmp_path: Path) -> None:
    class Stubborn(Slow):
        def poll(self) -> int | None:
            os.kill(os.getpid(), signal.SIGINT)
            return None

    workers: list[Stubborn] = []

    def launch(path: Path) -> Stubborn:
        workers.append(Stubborn(path, lambda: 0))
        return workers[-1]

    with pytest.raises(KeyboardInterrupt):
        run_jobs(jobs(tmp_path), launch, pause=0)
    assert workers[0].killed


def test_a_folder_of_another_comparison_is_refused(tmp_path: Path) -> None:
    training = FakeTraining()
    run_jobs(jobs(tmp_path, 1), training, pause=0)
    with pytest.raises(BadComparison, match=r"train\.epochs was 1, is 2.*--out"):
        run_jobs(jobs(tmp_path, 2, "train.epochs=2"), training, pause=0)
    assert not (tmp_path / "seed-1").exists()  # refused before anything was made


def test_files_that_are_named_from_here_are_the_same_when_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run writes down where they are; the command names them as before."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "world.py").write_text("")
    flags = ("model.name=model", "environment.name=world.py:World")
    training = FakeTraining()
    run_jobs(jobs(tmp_path / "out", 1, *flags), training, pause=0)
    run_jobs(jobs(tmp_path / "out", 2, *flags), training, pause=0)
    assert [path.name for path in training.started] == ["seed-0", "seed-1"]


def test_the_last_step(tmp_path: Path) -> None:
    assert last_step(tmp_path) == 0
    write_run(tmp_path, {0: 0.1}, steps=3)
    assert last_step(tmp_path) == 3
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"kind":"step","st')  # torn
    assert last_step(tmp_path) == 3
    (tmp_path / "metrics.jsonl").write_text("")
    assert last_step(tmp_path) == 0
