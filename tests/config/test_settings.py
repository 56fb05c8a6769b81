"""The list of settings says what the schema says."""

from recollect.config.settings import all_sections, all_settings


def test_kinds_in_words() -> None:
    kinds = {key: setting.kind for key, setting in all_settings().items()}
    assert kinds["run.steps"] == "whole number from 1"
    assert kinds["run.name"] == "text"
    assert kinds["rollout.top_p"] == "number above 0 to 1"
    assert kinds["train.beta1"] == "number from 0 below 1"
    assert kinds["algo.dual_clip"] == "number above 1, or none"
    assert kinds["algo.kl_in"] == "one of loss, reward"
    assert kinds["environment.levels"] == "list, each whole number from 0 to 1000, or none"
    assert kinds["telemetry.sinks"] == "list, each one of wandb, swanlab, tensorboard, trackio"
    assert kinds["environment.options"] == "mapping"
    assert kinds["store.path"] == "text, or none"
    assert kinds["train.shared_prompts"] == "true or false"


def test_defaults_and_choices() -> None:
    settings = all_settings()
    assert settings["train.learning_rate"].default == 1e-3
    assert settings["telemetry.sinks"].default == []
    assert settings["environment.options"].default == {}
    assert settings["model.device"].choices == ("auto", "cpu", "cuda")
    assert settings["telemetry.sinks"].choices == ("wandb", "swanlab", "tensorboard", "trackio")
    assert [s.key for s in settings.values() if s.is_mapping] == ["environment.options"]
    assert [s.key for s in settings.values() if s.is_list] == [
        "model.lora.targets", "environment.levels", "environment.domains", "replay.modes",
        "continual.task_order", "continual.references", "distill.kinds", "telemetry.sinks",
    ]  # fmt: skip


def test_a_sections_own_settings_come_before_those_below_it() -> None:
    keys = list(all_settings())
    assert keys.index("model.gradient_checkpointing") < keys.index("model.lora.rank")
    assert all_sections()["model.lora"].startswith("Low-rank adapters")
