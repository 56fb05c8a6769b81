from pathlib import Path

from recollect.telemetry.events import RunFinished, RunStarted, StepFinished, Warned
from recollect.telemetry.narrator import Narrator

from .samples import evaluation, step, whole_run


def said(narrator: Narrator, *events: object) -> list[str]:
    return [line.text for event in events for line in narrator.lines(event)]  # type: ignore[arg-type]


def test_the_interval_and_the_last_step() -> None:
    lines = said(Narrator(interval=4), *(step(number, 10) for number in range(1, 11)))
    assert [line.split(" |")[0] for line in lines] == ["step 4/10", "step 8/10", "step 10/10"]


def test_a_step_in_trouble_always_speaks() -> None:
    narrator = Narrator(interval=100)
    assert said(narrator, step(1)) == []
    assert len(said(narrator, step(2, train__skipped_steps=1))) == 1
    assert len(said(narrator, step(3, policy__kl=float("nan")))) == 1


def test_verbose_adds_details_tables_and_checkpoints(tmp_path: Path) -> None:
    short, long = Narrator(), Narrator(verbose=True)
    events = whole_run(tmp_path)
    brief, full = said(short, *events), said(long, *events)
    assert set(brief) < set(full)
    assert any(line.startswith("checkpoint step 3") for line in full)


def test_the_end_compares_with_the_beginning() -> None:
    end = RunFinished(60, ("It learned.",))
    lines = said(Narrator(), evaluation(0, 4), evaluation(30, 9), evaluation(60, 30), end)
    assert lines[3] == "Scores after step 60 (before: step 0)"
    assert "7.5%    56.2%" in lines[-2]
    assert lines[-1] == "It learned."


def test_one_evaluation_is_not_compared_with_itself() -> None:
    lines = said(Narrator(), evaluation(60), RunFinished(60))
    assert lines[1] == "Scores after step 60"
    assert "before" not in lines[2]


def test_beginnings() -> None:
    start = RunStarted("demo-0", Path("runs/demo-0"), 60, title="tiny on desk")
    assert said(Narrator(), start) == ["run demo-0 | tiny on desk | 60 steps | runs/demo-0"]
    resumed = RunStarted("demo-0", Path("runs/demo-0"), 60, done=20)
    assert "| goes on after step 20 |" in said(Narrator(), resumed)[0]


def test_warnings_hide_secrets_and_stay_on_one_line() -> None:
    assert said(Narrator(), Warned("a\nb api_key=hunter22")) == ["[WARN] a b api_key=[redacted]"]


def test_a_step_with_nothing_to_show_still_counts() -> None:
    assert said(Narrator(interval=0), StepFinished(1, 2, {})) == ["step 1/2"]
