from recollect.telemetry.events import EvaluationFinished, StepFinished
from recollect.telemetry.lines import (
    detail_lines,
    evaluation_line,
    evaluation_table,
    step_line,
)
from recollect.telemetry.scores import Score

from .samples import METRICS, evaluation, step

NAN = float("nan")


def test_the_step_line() -> None:
    assert step_line(step(12)) == (
        "step 12/60 | loss 0.0123 | reward 0.456 | kl 0.0012 | rollouts 768 | 1.2 s"
    )


def test_a_run_with_replay_shows_its_pool_and_its_use() -> None:
    metrics = {**METRICS, "replay/pool_rows": 450.0, "replay/ratio": 2.34}
    assert step_line(StepFinished(12, 60, metrics)).endswith(
        "rollouts 768 | BUF 450 | EFF 2.3x | 1.2 s"
    )


def test_a_run_with_a_critic_shows_the_seeds_word() -> None:
    metrics = {**METRICS, "critic/loss": 0.12}
    assert step_line(StepFinished(12, 60, metrics)) == (
        "step 12/60 | PL:0.0123 VL:0.1200 R:0.456 | kl 0.0012 | rollouts 768 | 1.2 s"
    )
    metrics |= {"replay/pool_rows": 450.0, "replay/ratio": 2.34}
    line = step_line(StepFinished(12, 60, metrics))
    assert "| PL:0.0123 VL:0.1200 R:0.456 BUF:450 EFF:2.3x | kl" in line
    # Every number stands on the line once, and not among the details again.
    assert "critic" not in "".join(detail_lines(metrics))


def test_nan_is_shown_and_tiny_numbers_are_not_zero() -> None:
    line = step_line(step(1, train__loss=NAN, policy__kl=3e-9))
    assert "loss nan" in line
    assert "kl 3.0e-09" in line


def test_troubles_appear_only_when_there_are_any() -> None:
    quiet = step_line(step(1, train__skipped_steps=0, rollout__failed=0, health__sink_drops=0))
    assert quiet == step_line(step(1))
    loud = step_line(step(1, train__skipped_steps=1, rollout__failed=3, health__sink_drops=1200))
    assert "| skipped 1 | failed 3 | drops 1,200 |" in loud


def test_missing_metrics_are_left_out() -> None:
    assert step_line(StepFinished(1, 2, {})) == "step 1/2"
    assert "rollouts 64" in step_line(StepFinished(1, 2, {"rollout/rows": 64}))


def test_details_follow_the_table_room_by_room() -> None:
    lines = detail_lines({**METRICS, "policy/entropy": 1.25, "time/update": 0.5, "time/plan": 0.1})
    assert lines == [
        "    policy: entropy 1.2500",
        "    time: plan 0.100 s | update 0.500 s",
    ]


def test_the_evaluation_line() -> None:
    assert evaluation_line(evaluation(20)) == (
        "[EVAL] step 20 | success 37.5% (floor 5.0%) | reward 0.400±0.100 "
        "| airline 37.5% | retail 37.5% | n 160 | 3.2 s"
    )


def test_an_evaluation_without_attempts_has_no_success() -> None:
    assert evaluation_line(EvaluationFinished(0, ())) == "[EVAL] step 0 | success - | n 0"


def test_the_table_has_levels_sums_and_floors() -> None:
    table = evaluation_table(evaluation(60, 30), evaluation(0, 4))
    assert [line.rstrip() for line in table] == table
    assert table[0].split() == [
        "domain", "level", "n", "before", "success", "95%", "interval", "floor", "reward",
    ]  # fmt: skip
    assert [line.split()[:5] for line in table[1:]] == [
        ["airline", "1", "40", "10.0%", "75.0%"],
        ["airline", "2", "40", "5.0%", "37.5%"],
        ["airline", "all", "80", "7.5%", "56.2%"],
        ["retail", "1", "40", "10.0%", "75.0%"],
        ["retail", "2", "40", "5.0%", "37.5%"],
        ["retail", "all", "80", "7.5%", "56.2%"],
        ["all", "all", "160", "7.5%", "56.2%"],
    ]
    assert len({len(line) for line in table[1:]}) == 1


def test_columns_nobody_knows_are_left_out() -> None:
    table = evaluation_table(EvaluationFinished(1, (Score("x", None, 10, 5),)))
    assert table == [
        "  domain  level   n  success   95% interval",
        "  x         all  10    50.0%  23.7% - 76.3%",
    ]


def test_domain_names_cannot_send_escape_codes() -> None:
    scores = (Score("a\x1b[2J", 1, 1, 1), Score("b", 1, 1, 0))
    event = EvaluationFinished(1, scores)
    assert "\x1b" not in evaluation_line(event) + "".join(evaluation_table(event))
