"""Every finding, on a run that was made to show it; and a run that shows none."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from recollect.config.loading import load_config
from recollect.doctor import footprint
from recollect.doctor.diagnosis import Diagnosis, diagnose
from recollect.doctor.finding import Finding
from recollect.doctor.history import read_history
from recollect.doctor.learning import learning_findings
from recollect.doctor.stability import stability_findings
from recollect.errors import RunMissing
from recollect.telemetry.names import find_metric
from recollect.train.folder import RunFolder, create_run
from train.small import make_config

from .runs import CASES, QUIET, Case, Clinic

# What each run shows, and the change that is advised first (a prefix, where the value is measured).
FOUND = {
    "never": ("replay_never_began", "replay.start_rows=16"),
    "never by success": ("replay_never_began", "replay.start_success="),
    "never by progress": ("replay_never_began", "replay.start_progress=none"),
    "no successes": ("replay_never_began", "replay.modes=[mix,buffer]"),
    "late": ("replay_began_late", "replay.start_rows=16"),
    "age": ("pool_runs_dry", "pool.max_age="),
    "uses": ("pool_runs_dry", "pool.max_uses=2"),
    "budget": ("pool_runs_dry", "pool.max_rows=16"),
    "little": ("little_is_asked_for", "replay.buffer_updates=4"),
    "left out": ("drawn_rows_left_out", "correction.drop_above=2.002"),
    "stale": ("replayed_rows_are_stale", "train.learning_rate=0.05"),
    "large": ("updates_too_large", "train.learning_rate=0.025"),
    "leaps": ("gradients_leap", "train."),
    "absurd": ("updates_not_finite", "train.learning_rate=0.005"),
    "two policies": ("sampler_and_trainer_differ", None),
    "narrow": ("entropy_collapsed", "train.learning_rate=0.025"),
    "hopeless": ("reward_is_flat", None),
    "solved": ("groups_without_signal", "replay.retire=true"),
    "frozen critic": ("critic_does_not_learn", "critic.learning_rate=0.001"),
    "slow critic": ("critic_does_not_learn", "critic.learning_rate=0.001"),
    "wild critic": ("critic_misleads", "critic.learning_rate=0.5"),
    "cut": ("rollouts_are_cut", "rollout.max_turns=4"),
    "failing": ("episodes_fail", "rollout.call_seconds=20"),
    "pushed": ("fresh_rows_are_pushed_down", "replay.participation=train"),
    "slow disk": ("storing_is_slow", "rollout.tasks_per_step=4"),
    "slow draw": ("choosing_is_slow", "correction.drop_above=none"),
    "many evaluations": ("evaluating_takes_long", "eval.every=2"),
}


def finding(found: Diagnosis, name: str) -> Finding:
    named = {each.name: each for each in found.findings}
    assert name in named, list(named)
    return named[name]


def test_a_healthy_run(clinic: Clinic) -> None:
    found = diagnose(clinic["healthy"])
    assert [each.what for each in found.findings] == []
    assert found.unjudged == ()
    assert (found.step, found.steps, found.rollouts) == (12, 12, 384)
    assert found.asked_ratio == 2.0
    assert found.ratio is not None
    assert found.ratio > 1.5
    assert found.times.share("collect") == pytest.approx(1.0 / 1.505, rel=0.01)


def test_a_critic_that_is_of_use(clinic: Clinic) -> None:
    """It explains next to nothing of the variance, and yet knows what to expect."""
    found = diagnose(clinic["sound critic"])
    assert [each.name for each in found.findings if "critic" in each.name] == []
    assert found.unjudged == ("held-out success: fewer than two evaluations",)
    frozen = finding(diagnose(clinic["frozen critic"]), "critic_does_not_learn")
    figures = {item.what: item.value for item in frozen.evidence}
    assert figures["critic/value, mean"] == figures["critic/explained_variance, median"] == 0
    assert figures["critic/return, mean"] > 0.1


def test_every_case_has_its_finding() -> None:
    assert set(FOUND) | {"healthy", "sound critic"} == set(CASES)


@pytest.mark.parametrize("name", FOUND)
def test_a_run_that_was_made_to_show_it(clinic: Clinic, name: str) -> None:
    slug, flag = FOUND[name]
    folder = clinic[name]
    found = finding(diagnose(folder), slug)
    assert found.evidence
    for item in found.evidence:
        metric = item.what.partition(",")[0]
        assert "/" not in metric.split(" ")[0] or find_metric(metric.split(" ")[0]), item.what
    if flag is not None:
        assert found.changes[0].flag.startswith(flag)
    for change in found.changes:  # each can be given to `recollect train` as it stands
        assert load_config(folder.config, [change.flag]).config != folder.load()


def test_the_figures_are_the_runs_own(clinic: Clinic) -> None:
    dry = finding(diagnose(clinic["uses"]), "pool_runs_dry")
    figures = {item.what: item.value for item in dry.evidence}
    assert figures["asked for a step"] == 32
    assert figures["replay/draws a step"] < 0.8 * 32
    assert figures["rows in the pool now"] == 64
    # One use each: whatever was drawn is kept out by that rule, and nothing else can be.
    assert figures["kept out by pool.max_uses alone"] > 10
    assert figures["of them could be drawn next"] < 16


@pytest.mark.parametrize(
    ("cap", "said", "advised"), [(None, "off by as much", True), (2.0, "weighs for it", False)]
)
def test_an_engine_beside_the_trainer_that_differs(
    clinic: Clinic, cap: float | None, said: str, advised: bool
) -> None:
    history = read_history(clinic["two policies"])
    rollout = history.config.rollout.model_copy(update={"engine": "vllm", "mismatch_cap": cap})
    config = history.config.model_copy(update={"rollout": rollout})
    named = {each.name: each for each in stability_findings(replace(history, config=config))}
    found = named["sampler_and_trainer_differ"]
    assert said in found.what
    assert ("rollout.mismatch_cap=2.0" in {each.flag for each in found.changes}) is advised


def test_the_age_to_try_is_the_one_up_to_which_uses_were_good(clinic: Clinic) -> None:
    history = read_history(clinic["stale"])
    assert history.snapshot is not None
    # Mean effective sample size of the uses up to each age: 0.95, 0.9, 0.725, 0.52.
    ages, ess = np.array([9, 1, 2, 5, 1, 9]), np.array([0.1, 1.0, 0.8, 0.2, 0.9, 0.1])
    snapshot = replace(history.snapshot, ages=ages, ess=ess)
    named = {each.name: each for each in stability_findings(replace(history, snapshot=snapshot))}
    assert named["replayed_rows_are_stale"].changes[0].flag == "pool.max_age=5"


def test_where_the_reward_is_flat_replay_is_switched_off_first(clinic: Clinic) -> None:
    history = read_history(clinic["hopeless"])
    for modes, flags in ((("buffer",), ["replay.modes=[]"]), ((), [])):
        settings = history.config.replay.model_copy(update={"modes": modes})
        config = history.config.model_copy(update={"replay": settings})
        named = {each.name: each for each in learning_findings(replace(history, config=config))}
        assert [each.flag for each in named["reward_is_flat"].changes] == flags


def test_hard_and_solved_tasks_are_told_apart(clinic: Clinic) -> None:
    hard = finding(diagnose(clinic["hopeless"]), "groups_without_signal")
    assert hard.changes[0].flag == "replay.modes=[repair]"
    assert {item.what: item.value for item in hard.evidence}[
        "tasks whose last group had no success"
    ] == 20
    solved = finding(diagnose(clinic["solved"]), "groups_without_signal")
    assert solved.changes[0].flag == "replay.retire=true"


@pytest.mark.parametrize(("failed", "flags"), [(0, ["environment.levels=[1,2]"]), (9, [])])
def test_harder_levels_are_advised_where_hardly_anything_is_left(
    clinic: Clinic, failed: int, flags: list[str]
) -> None:
    history = read_history(clinic["solved"])
    assert history.snapshot is not None
    snapshot = replace(history.snapshot, failed=failed, solved=10)
    levels = history.config.environment.model_copy(update={"levels": (1,)})
    config = history.config.model_copy(update={"environment": levels})
    known = replace(history, snapshot=snapshot, config=config)
    (dead,) = (f for f in learning_findings(known) if f.name == "groups_without_signal")
    assert [change.flag for change in dead.changes if "levels" in change.flag] == flags


def test_easier_levels_are_advised_where_there_are_any(clinic: Clinic) -> None:
    history = read_history(clinic["hopeless"])
    assert history.snapshot is not None
    assert history.snapshot.levels == (1, 2)
    without = replace(history, snapshot=replace(history.snapshot, levels=(0,)))
    for known, expected in ((history, ["environment.levels=[1]"]), (without, [])):
        dead = [f for f in learning_findings(known) if f.name == "groups_without_signal"]
        flags = [change.flag for change in dead[0].changes]
        assert [flag for flag in flags if "levels" in flag] == expected


def test_a_run_that_forgets_what_it_knew(clinic: Clinic, tmp_path: Path) -> None:
    """It begins with weights that have learnt, and a learning rate that undoes them."""
    clinic["healthy"]
    trained = max((clinic["healthy"].checkpoints).iterdir())
    flags = (*QUIET, f"model.name={trained}", "run.steps=6", "train.learning_rate=0.5",
             "eval.every=3", "eval.tasks=12", "eval.split=train",
             "rollout.max_turn_tokens=24")  # fmt: skip
    clinic.train(tmp_path / "fell", Case(flags, "Half"))
    fell = finding(diagnose(RunFolder(tmp_path / "fell")), "success_fell")
    assert fell.evidence[0].value > fell.evidence[1].value + 0.5


def test_a_run_under_way_on_a_disk_that_fills(
    clinic: Clinic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clinic.train(tmp_path / "run", Case((*QUIET, "run.steps=50")), stop=3)
    found = diagnose(RunFolder(tmp_path / "run"))
    assert (found.step, found.steps) == (3, 50)
    assert [each.area for each in found.findings if each.area == "memory"] == []
    assert any("9" in text for text in found.unjudged)
    monkeypatch.setattr(footprint, "free_bytes", lambda folder: 1000)
    monkeypatch.setattr(footprint, "machine_memory", lambda: 1_000_000)
    found = diagnose(RunFolder(tmp_path / "run"))
    assert finding(found, "disk_will_be_full").changes[0].flag == "store.compress=true"
    full = finding(found, "disk_will_be_full").evidence[0].value
    own = read_history(RunFolder(tmp_path / "run")).snapshot
    assert own is not None
    assert own.own_bytes == full == (tmp_path / "run" / "store.db").stat().st_size
    tight = finding(found, "memory_is_tight")
    assert [c.flag for c in tight.changes[:2]] == ["train.pack_tokens=120", "rollout.batch_rows=4"]
    assert tight.evidence[0].value > 1e6


def test_rows_that_a_run_began_with_do_not_grow_with_its_steps(
    clinic: Clinic, tmp_path: Path
) -> None:
    clinic.train(tmp_path / "alone", Case((*QUIET, "run.steps=2")))
    seeded = (*QUIET, "run.steps=2", f"pool.start_from={tmp_path / 'alone'}", "pool.max_age=none")
    clinic.train(tmp_path / "heir", Case((*seeded, "replay.modes=[buffer]")))
    alone, heir = (read_history(RunFolder(tmp_path / name)) for name in ("alone", "heir"))
    assert alone.snapshot is not None
    assert heir.snapshot is not None
    assert heir.snapshot.rows == 2 * alone.snapshot.rows
    whole = (tmp_path / "heir" / "store.db").stat().st_size
    assert heir.snapshot.own_bytes == pytest.approx(whole / 2)


def test_a_damaged_frame_is_told_and_the_rest_judged(clinic: Clinic, tmp_path: Path) -> None:
    clinic.train(tmp_path / "run", Case((*QUIET, "run.steps=3")))
    folder = RunFolder(tmp_path / "run")
    edit = sqlite3.connect(folder.path / "store.db")
    edit.execute("UPDATE payloads SET frame = zeroblob(900) WHERE seq = 2")
    edit.commit()
    edit.close()
    history = read_history(folder)
    assert history.snapshot is not None
    assert sum(history.snapshot.stops.values()) + 1 == history.snapshot.rows
    told = [text for text in diagnose(folder).unjudged if "damaged" in text]
    assert told == [
        "how 1 of the newest rollouts ended: their frames are damaged (recollect pool verify)"
    ]


def test_before_the_first_step(clinic: Clinic, tmp_path: Path) -> None:
    with pytest.raises(RunMissing, match="no config"):
        diagnose(RunFolder(tmp_path))
    folder = create_run(tmp_path / "run", make_config(clinic.model))
    with pytest.raises(RunMissing, match="not finished a step"):
        diagnose(folder)
