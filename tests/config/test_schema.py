"""The schema: strict, frozen, described; its choices exist, its rules say what to change."""

import pytest
from pydantic import ValidationError

from recollect.config import Config, load_config
from recollect.config.scalars import parse_scalar
from recollect.config.schema.run import RunSettings
from recollect.config.settings import all_sections, all_settings
from recollect.errors import BadConfig


def test_every_setting_and_section_is_described() -> None:
    for setting in all_settings().values():
        assert setting.description.endswith((".", "ls")), setting.key
        assert setting.description[0].isupper(), setting.key
    assert all(about.endswith(".") for about in all_sections().values())
    assert len({s.description for s in all_settings().values()}) == len(all_settings())


def test_defaults_are_a_valid_configuration() -> None:
    assert load_config().config == Config() == Config.model_validate({})


def test_the_sections_are_the_rooms() -> None:
    assert list(all_sections()) == [
        "run", "model", "model.lora", "environment", "rollout", "algo", "critic", "train",
        "replay", "pool", "draw", "correction", "adapt", "continual", "continual.replay",
        "continual.ewc", "continual.fusion", "continual.columns", "notes", "distill", "remote",
        "eval", "checkpoint", "store", "telemetry",
    ]  # fmt: skip


def test_nothing_changes_once_made() -> None:
    config = Config()
    with pytest.raises(ValidationError):
        config.run.steps = 3
    with pytest.raises(ValidationError):
        config.run = RunSettings()
    assert isinstance(
        load_config(None, ["environment.levels=[1]"]).config.environment.levels, tuple
    )


def test_configurations_do_not_share_options() -> None:
    first, second = load_config().config, load_config().config
    first.environment.options["size"] = 1
    assert second.environment.options == {}
    assert Config().environment.options == {}


def test_choices_can_be_written_without_quotes() -> None:
    for setting in all_settings().values():
        for choice in setting.choices:
            assert parse_scalar(choice) == choice, setting.key


def test_algo_choices_are_functions_of_algo() -> None:
    pytest.importorskip("torch")
    from recollect.algo import advantages, aggregation, gae, kl, losses

    settings = all_settings()
    *by_row, by_token = settings["algo.advantage"].choices
    assert all(callable(getattr(advantages, choice)) for choice in by_row)
    assert callable(getattr(gae, by_token))
    assert all(callable(getattr(losses, c)) for c in settings["algo.loss"].choices)
    assert settings["algo.aggregation"].choices == aggregation.MODES
    assert all(callable(getattr(kl, c)) for c in settings["algo.kl_estimator"].choices)


RULES = [
    (["train.warmup_steps=61"], "train.warmup_steps = 61", "raise run.steps"),
    (["rollout.rows_per_task=1"], "every advantage of grpo is 0", "2 or more"),
    (["rollout.rows_per_task=1", "rollout.tasks_per_step=1", "algo.advantage=reinforce_plus_plus"],
     "nothing would be learnt", "rollout.rows_per_task"),
    (["train.minibatches=5"], "the 64 rows of a step", "train.minibatches to 4 or 8."),
    (["train.minibatches=65"], "the 64 rows of a step", "train.minibatches to 64."),
    (["train.minibatches=999999937"], "do not divide", "train.minibatches to 64."),
    (["train.pack_tokens=639"], "does not fit", "at least 640"),
    (["environment.tasks=7"], "too few tasks", "Raise environment.tasks"),
    (["rollout.max_turn_tokens=641"], "641 tokens", "raise rollout.max_tokens"),
    (["rollout.batch_rows=7"], "would cut every group of 8", "at least 8"),
    (["rollout.call_seconds=121"], "121 s", "rollout.episode_seconds"),
    (["algo.loss=gspo"], "never act in gspo", "algo.clip_low=3e-4 algo.clip_high=4e-4"),
    (["algo.loss=topr", "algo.dual_clip=3"], "does nothing in the loss topr", "algo.loss=ppo_clip"),
    (["algo.aggregation_norm=64"], "does nothing in token-mean", "seq-mean-token-sum-norm"),
    (["algo.kl_estimator=k1"], "0 on average", "algo.kl_in=reward"),
    (["eval.rows=4"], "are the same", "eval.temperature above 0"),
    (["model.lora.targets=[q_proj]"], "means no adapters", "Set model.lora.rank"),
    (["environment.options={levels: [1]}"], "a setting of their own", "Use environment.levels"),
]  # fmt: skip


@pytest.mark.parametrize(("flags", "what", "change"), RULES)
def test_rules_name_the_flag_and_what_to_change(flags: list[str], what: str, change: str) -> None:
    with pytest.raises(BadConfig) as caught:
        load_config(None, flags)
    assert what in caught.value.what
    assert change in caught.value.hint
    assert any(f"flag {flag}" in caught.value.what for flag in flags)


@pytest.mark.parametrize(
    "flags",
    [
        ["train.warmup_steps=60"],
        ["rollout.rows_per_task=1", "algo.advantage=reinforce_plus_plus"],
        ["train.minibatches=8"],
        ["algo.loss=gspo", "algo.clip_low=3e-4", "algo.clip_high=4e-4"],
        ["algo.dual_clip=3"],
        ["algo.aggregation=seq-mean-token-sum-norm", "algo.aggregation_norm=64"],
        ["algo.kl_estimator=k1", "algo.kl_in=reward"],
        ["eval.rows=4", "eval.temperature=0.7"],
        ["model.lora.rank=8", "model.lora.targets=[q_proj]"],
    ],
)
def test_rules_let_sound_settings_pass(flags: list[str]) -> None:
    assert load_config(None, flags).config != Config()


def test_a_rule_names_every_place_it_reads() -> None:
    with pytest.raises(BadConfig, match=r"flag train.warmup_steps=9 and flag run.steps=5: "):
        load_config(None, ["train.warmup_steps=9", "run.steps=5"])


@pytest.mark.parametrize(
    "options",
    [
        {"a": "x" * 60_000},
        {"k" * 201: 1},
        {"a": [{"k" * 201: 1}]},
        {"a": float("nan")},
        {"a": [[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]},
    ],
)
def test_options_are_small_plain_json(options: dict[str, object]) -> None:
    with pytest.raises(BadConfig, match=r"environment.options"):
        load_config({"environment": {"options": options}})
