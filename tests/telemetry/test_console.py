import io
from pathlib import Path

from recollect.telemetry.console import PlainConsole
from recollect.telemetry.events import EpisodeFinished, PhaseStarted, RunStarted
from recollect.telemetry.narrator import Narrator

from .samples import Clock, evaluation, step, whole_run


def test_a_whole_run_is_plain_text(tmp_path: Path) -> None:
    stream = io.StringIO()
    console = PlainConsole(stream, Narrator(), clock=Clock())
    for event in whole_run(tmp_path):
        console.emit(event)
    console.close()
    text = stream.getvalue()
    assert "\x1b" not in text
    assert "\r" not in text
    assert [line.split(" |")[0] for line in text.splitlines()[:3]] == [
        "run demo-0", "[EVAL] step 0", "step 1/3",
    ]  # fmt: skip
    assert not stream.closed


def test_long_steps_are_not_silent() -> None:
    stream, clock = io.StringIO(), Clock()
    console = PlainConsole(stream, Narrator(), patience=30, clock=clock)
    console.emit(RunStarted("r", Path("r"), 9))
    console.emit(PhaseStarted(1, "collect"))
    for done in range(1, 100):
        clock.now += 1
        console.emit(EpisodeFinished(1, done, 200))
    motion = stream.getvalue().splitlines()[1:]
    assert [line.split(" | ")[2] for line in motion] == [
        "30/200 episodes", "60/200 episodes", "90/200 episodes",
    ]  # fmt: skip
    console.emit(step(1, 9))
    clock.now += 29
    console.emit(PhaseStarted(2, "collect"))
    assert stream.getvalue().splitlines()[-1].startswith("step 1/9 | loss")


def test_streams_that_cannot_spell_everything() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    PlainConsole(stream, Narrator()).emit(evaluation(1))
    assert b"reward 0.400?0.100" in raw.getvalue()


def test_lines_are_flushed() -> None:
    raw = io.BytesIO()
    console = PlainConsole(io.TextIOWrapper(raw, encoding="utf-8"), Narrator())
    console.emit(step(1))
    assert raw.getvalue().endswith(b"1.2 s\n")
