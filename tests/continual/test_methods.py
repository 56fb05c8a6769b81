"""Every method, on two desk domains: it changes the weights as its formula says it does."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch

from recollect.continual.examiner import divergence
from recollect.continual.fisher import fisher, load_weights
from recollect.continual.holding import Hold, quadratic_penalty
from recollect.continual.journey import Journey
from recollect.continual.merging import average, candidate_shares, performance_shares
from recollect.continual.methods import METHODS
from recollect.continual.methods.ewc import FILE
from recollect.continual.methods.fusion import put
from recollect.envs.registry import load_environment
from recollect.models.columns import read_plan
from recollect.store import open_reader
from recollect.store.records import Query
from recollect.train.parts import load_as_is
from recollect.types import Origin

from .small import desk_branch, desk_journey, distance, go, stage_weights


def method_of(journey: Journey) -> object:
    config = journey.config
    environment = load_environment(config.environment.name, **config.environment.options)
    return METHODS[config.continual.method](journey, environment)


def rows_of(journey: Journey, number: int) -> list[object]:
    folder = journey.run(journey.stage(number))
    with open_reader(folder.path / "store.db") as store:
        found = store.rows(Query(run=folder.run(folder.load())), limit=1000).rows
        return list(store.get([row.id for row in found]))


def test_there_is_something_to_learn_from(desks: Journey) -> None:
    """Or none of the tests below would mean anything."""
    first, second = stage_weights(desks, 0), stage_weights(desks, 1)
    base = {n: p.detach() for n, p in load_as_is(desks.config, "tiny").trainable()}
    assert distance(first, base) > 0
    assert distance(second, first) > 0


def test_replay_attempts_earlier_tasks_in_their_own_domain(desks: Journey, tmp_path: Path) -> None:
    flags = ["continual.method=replay", "continual.replay.ratio=0.25"]
    other = desk_branch(desks, tmp_path / "r", *flags)
    go(other)
    assert distance(stage_weights(other, 1), stage_weights(desks, 1)) > 0
    folder = other.run(other.stage(1))
    with open_reader(folder.path / "store.db") as store:
        groups = [store.groups(folder.run(folder.load()), step) for step in (1, 2)]
        domains = [[store.task(group.task).domain for group in here] for here in groups]
        known = {task.key: task for task in store.tasks().values()}
        first = desks.run(desks.stage(0))
        with open_reader(first.path / "store.db") as earlier:
            before = {state.task for state in earlier.task_states(first.run(first.load()))}
        rehearsed = {key for key, task in known.items() if task.domain == "airline"}
    # A quarter of 2 tasks a step is one every second step: nothing is rounded away.
    assert sorted([*domains[0], *domains[1]]) == ["airline", "retail", "retail", "retail"]
    assert rehearsed <= before
    environment = load_environment("desk:airline,retail", shaped=True, size=16)
    for row in rows_of(other, 1):
        task = known[row.task]  # type: ignore[attr-defined]
        opening = environment.start(task, 0).opening.messages
        shown = row.segments[-1].text, row.segments[1].text  # type: ignore[attr-defined]
        assert opening[-1].text in {s.text for s in row.segments}, shown  # type: ignore[attr-defined]


def test_trajectory_replay_trains_on_stored_rows_of_earlier_domains(
    desks: Journey, tmp_path: Path
) -> None:
    flags = ["continual.method=replay", "continual.replay.kind=trajectories",
             "continual.replay.ratio=0.2", "continual.replay.strategy=balanced"]  # fmt: skip
    other = desk_branch(desks, tmp_path / "r", *flags)
    go(other)
    assert distance(stage_weights(other, 1), stage_weights(desks, 1)) > 0
    folder = other.run(other.stage(1))
    with open_reader(folder.path / "store.db") as store:
        draws = store.draws(run=folder.run(folder.load()))
        owners = {row.run for row in store.rows(Query(ids=[d.trajectory for d in draws])).rows}
    # 0.2 of the 32 rows of a step, over 2 steps: floor(12.8) rows.
    assert len(draws) == 12
    assert owners == {"00-airline"}


@pytest.mark.parametrize("strategy", ["recent", "high_reward"])
def test_stored_rows_of_all_earlier_tasks_may_come_back(
    desks: Journey, tmp_path: Path, strategy: str
) -> None:
    """The draw prefers some of them; where tasks are rehearsed, the others are left out."""
    flags = ["continual.method=replay", f"continual.replay.strategy={strategy}"]
    known = {}
    for kind in ("tasks", "trajectories"):
        other = desk_branch(desks, tmp_path / kind, *flags, f"continual.replay.kind={kind}")
        known[kind] = method_of(other).remembered(1)  # type: ignore[attr-defined]
    assert len(known["tasks"]) == len(known["trajectories"]) // 2 > 0


@pytest.mark.parametrize("name", ["ewc", "online_ewc", "ewc_pp"])
def test_ewc_holds_the_weights_that_matter(desks: Journey, tmp_path: Path, name: str) -> None:
    """With the penalty in the loss, weighted distance from the anchor is smaller than without."""
    flags = [f"continual.method={name}", "continual.ewc.strength=1e4"]
    other = desk_journey(tmp_path / "e", *flags)
    go(other)
    assert distance(stage_weights(other, 0), stage_weights(desks, 0)) == 0  # nothing to hold yet
    found = load_weights(other.state(0) / FILE, torch.device("cpu"))
    hold = Hold(found["fisher"], found["anchor"])
    assert distance(hold.anchor, stage_weights(other, 0)) == 0
    held = float(quadratic_penalty(list(stage_weights(other, 1).items()), [hold], 2.0))
    free = float(quadratic_penalty(list(stage_weights(desks, 1).items()), [hold], 2.0))
    assert 0 < held < free


def test_online_ewc_lets_the_past_fade(desks: Journey, tmp_path: Path) -> None:
    flags = ["continual.method=online_ewc", "continual.ewc.gamma=0.5"]
    other = desk_branch(desks, tmp_path / "o", *flags)
    go(other)
    method = method_of(other)
    new = method.measure(1, method.policy_after(1))  # type: ignore[attr-defined]
    kept = [load_weights(other.state(k) / FILE, torch.device("cpu"))["fisher"] for k in (0, 1)]
    for name, value in kept[1].items():
        torch.testing.assert_close(value, 0.5 * kept[0][name] + new[name])


def test_ewc_pp_averages_over_steps(tmp_path: Path) -> None:
    """With one step the average is that step's Fisher information, of its own fresh rows."""
    flags = ["continual.method=ewc_pp", "run.steps=1", "continual.ewc.fisher_rows=3"]
    other = desk_journey(tmp_path / "p", *flags)
    go(other)
    method = method_of(other)
    policy = method.policy_after(0)  # type: ignore[attr-defined]
    rows = rows_of(other, 0)[:3]
    expected = fisher(policy, rows, 1.0)  # type: ignore[arg-type]
    kept = load_weights(other.state(0) / FILE, torch.device("cpu"))["fisher"]
    assert max(float(value.max()) for value in kept.values()) > 0
    for name, value in kept.items():
        torch.testing.assert_close(value, expected[name])


def test_kl_anchor_stays_near_the_previous_policy(desks: Journey, tmp_path: Path) -> None:
    flags = ["continual.method=kl_anchor", "continual.anchor_coef=50", "train.epochs=4"]
    free = desk_branch(desks, tmp_path / "free", "train.epochs=4")
    held = desk_branch(desks, tmp_path / "held", *flags)
    go(free)
    go(held)
    before = load_as_is(desks.config, str(desks.checkpoint(desks.stage(0))))
    rows = rows_of(desks, 1)[:8]
    drifts = []
    for journey in (held, free):
        after = load_as_is(journey.config, str(journey.checkpoint(journey.stage(1))))
        drifts.append(divergence(after, before, rows, journey.config))  # type: ignore[arg-type]
    assert 0 < drifts[0] < drifts[1]


def test_fusion_examines_and_keeps_the_mean(desks: Journey, tmp_path: Path) -> None:
    flags = ["continual.method=fusion", "continual.fusion.rule=average"]
    other = desk_branch(desks, tmp_path / "f", *flags)
    go(other)
    merged = {n: p.detach() for n, p in load_as_is(other.config, str(other.state(1))).trainable()}
    ends = [stage_weights(other, k) for k in (0, 1)]
    for name, value in merged.items():
        torch.testing.assert_close(value, (ends[0][name] + ends[1][name]) / 2)
    assert distance(merged, ends[1]) > 0
    # What was examined is the merged model: its divergence from the base is the merged one's.
    found = other.examined("1")
    assert found is not None
    assert found.of("airline").kl != desks.examinations["1"].of("airline").kl


def test_fusion_by_task_arithmetic(desks: Journey, tmp_path: Path) -> None:
    base = {n: p.detach() for n, p in load_as_is(desks.config, "tiny").trainable()}
    flags = ["continual.method=fusion", "continual.fusion.rule=task_arithmetic",
             "continual.fusion.start=base", "continual.fusion.scale=0.7"]  # fmt: skip
    other = desk_branch(desks, tmp_path / "t", *flags)
    go(other)
    ends = [stage_weights(other, k) for k in (0, 1)]
    for name, value in load_as_is(other.config, str(other.state(1))).trainable():
        change = sum((end[name] - base[name] for end in ends), torch.zeros(()))
        torch.testing.assert_close(value.detach(), base[name] + 0.7 * change)


def test_fusion_by_fisher_information(desks: Journey, tmp_path: Path) -> None:
    """Each weight is nearer to the model that needs it more; where none does, in the middle."""
    flags = ["continual.method=fusion", "continual.fusion.rule=fisher",
             "continual.fusion.start=base"]  # fmt: skip
    other = desk_branch(desks, tmp_path / "f", *flags)
    go(other)
    one, two = (stage_weights(other, k) for k in (0, 1))
    merged = {n: p.detach() for n, p in load_as_is(other.config, str(other.state(1))).trainable()}
    method = method_of(other)
    files = [other.state(k) / "fisher.safetensors" for k in (0, 1)]
    kept = [load_weights(file, torch.device("cpu"))["fisher"] for file in files]
    measured = method.measure(1, method.policy_after(1))  # type: ignore[attr-defined]
    for name, value in merged.items():
        torch.testing.assert_close(kept[1][name], measured[name])
        first, second = (each[name].double() for each in kept)
        by_need = (first * one[name] + second * two[name]) / (first + second)
        middle = (one[name].double() + two[name]) / 2
        expected = torch.where(first + second > 0, by_need, middle)
        torch.testing.assert_close(value, expected.float())
    # A plain average is something else.
    assert distance(merged, average([one, two], [0.5, 0.5])) > 0.1 * distance(one, two)


def test_fusion_weighs_by_what_each_model_can_do(desks: Journey, tmp_path: Path) -> None:
    other = desk_branch(desks, tmp_path / "w", "continual.method=fusion")
    go(other)
    method = method_of(other)
    scores = [method.summary(k)["own_score"] for k in (0, 1)]  # type: ignore[attr-defined]
    shares = performance_shares(scores)
    expected = average([stage_weights(other, k) for k in (0, 1)], shares)
    for name, value in load_as_is(other.config, str(other.state(1))).trainable():
        torch.testing.assert_close(value.detach(), expected[name])
    last = load_as_is(other.config, str(other.checkpoint(other.stage(1))))
    assert method.score(last, ("retail",)) == scores[1]  # type: ignore[attr-defined]


def test_adaptive_fusion_keeps_the_best_that_it_tried(desks: Journey, tmp_path: Path) -> None:
    flags = ["continual.method=adaptive_fusion", "continual.fusion.candidates=5",
             "continual.fusion.search_tasks=8"]  # fmt: skip
    other = desk_branch(desks, tmp_path / "a", *flags)
    go(other)
    method = method_of(other)
    note = method.summary(1)  # type: ignore[attr-defined]
    shares = [note["share_0"], note["share_1"]]
    assert sum(shares) == pytest.approx(1)
    merged = dict(load_as_is(other.config, str(other.state(1))).trainable())
    ends = [stage_weights(other, k) for k in (0, 1)]
    expected = average(ends, shares)
    for name, value in merged.items():
        torch.testing.assert_close(value.detach(), expected[name])
    # All candidates once more: none of them scores higher than what was kept.
    wanted = other.config.continual.fusion
    candidates = candidate_shares(2, wanted.candidates, other.config.run.seed)
    policy = load_as_is(other.config, str(other.state(1)))
    scores = []
    for each in candidates:
        put(policy, average(ends, each))
        scores.append(method.score(policy, other.order))  # type: ignore[attr-defined]
    assert len(set(scores)) > 1, "all are alike, so any of them would pass"
    assert note["search_score"] == max(scores)
    assert shares == candidates[scores.index(max(scores))]


def test_progressive_adds_a_column_and_changes_nothing_else(tmp_path: Path) -> None:
    other = desk_journey(tmp_path / "p", "continual.method=progressive",
                         "continual.columns.width=4")  # fmt: skip
    stream = io.StringIO()
    go(other, stream)
    assert "Trainable parameters: a column of adapters for each domain" in stream.getvalue()
    plan = read_plan(str(other.checkpoint(other.stage(1))))
    assert [(c.domain, c.width) for c in plan.columns] == [("airline", 4), ("retail", 4)]
    first = load_as_is(other.config, str(other.checkpoint(other.stage(0))))
    second = load_as_is(other.config, str(other.checkpoint(other.stage(1))))
    base = dict(load_as_is(other.config, "tiny").model.named_parameters())
    before, after = dict(first.model.named_parameters()), dict(second.model.named_parameters())
    assert all(torch.equal(after[name], value) for name, value in base.items())
    columns = [name for name in before if name not in base]
    assert columns
    assert all(torch.equal(after[name], before[name]) for name in columns)
    new = [name for name in after if name not in before]
    assert any(".links." in name for name in new)
    assert any(float(after[name].detach().abs().max()) > 0 for name in new if ".up." in name)
    assert {name for name, _ in second.trainable()} == set(new)
    # Routed by domain, the first one is done exactly as it was.
    found = [other.examinations[label].of("airline") for label in ("0", "1")]
    assert found[0].tasks == found[1].tasks
    assert found[0].kl == pytest.approx(found[1].kl)


def test_dynamic_expansion_grows_by_need(tmp_path: Path) -> None:
    flags = ["continual.method=dynamic_expansion", "continual.columns.largest=6",
             "continual.columns.smallest=2", "continual.columns.width=4"]  # fmt: skip
    other = desk_journey(tmp_path / "d", *flags)
    go(other)
    widths = [c.width for c in read_plan(str(other.checkpoint(other.stage(1)))).columns]
    for number, label in enumerate(("base", "0")):
        scores = other.examinations[label].of(other.order[number]).by_task("reward")
        score = sum(scores) / len(scores)
        assert widths[number] == (6 if score < 0.3 else 2 if score > 0.6 else 4)
    before = dict(load_as_is(other.config, str(other.checkpoint(other.stage(0)))).trainable())
    after = dict(load_as_is(other.config, str(other.checkpoint(other.stage(1))))
                 .model.named_parameters())  # fmt: skip
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_sft_imitates_gold_attempts(desks: Journey, tmp_path: Path) -> None:
    other = desk_journey(tmp_path / "s", "continual.method=sft", "rollout.tasks_per_step=1")
    go(other)
    rows = rows_of(other, 0)
    assert {row.origin for row in rows} == {Origin.DEMO}  # type: ignore[attr-defined]
    assert all(row.success for row in rows)  # type: ignore[attr-defined]
    assert distance(stage_weights(other, 1), stage_weights(desks, 1)) > 0
    base = load_as_is(other.config, "tiny")
    after = load_as_is(other.config, str(other.checkpoint(other.stage(0))))
    assert likelihood(after, rows) > likelihood(base, rows)


def likelihood(policy: object, rows: list[object]) -> float:
    from recollect.train.packing import pack
    from recollect.train.scorer import target_logprobs

    return sum(
        float(target_logprobs(policy.model, each, 1.0).sum())  # type: ignore[attr-defined]
        for each in pack(rows, 2000, False)  # type: ignore[arg-type]
    )
