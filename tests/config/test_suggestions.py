"""Who guesses must guess things that exist."""

import pytest

from recollect.config.settings import all_settings
from recollect.config.suggestions import (
    FOREIGN_CHOICES,
    FOREIGN_NAMES,
    suggest_choice,
    suggest_key,
)


def test_every_target_exists_and_no_source_does() -> None:
    settings = all_settings()
    assert set(FOREIGN_NAMES.values()) <= set(settings)
    ours = {key.rpartition(".")[2] for key in settings}
    # beta is the KL coefficient elsewhere and a priority weight here: both are named.
    assert set(FOREIGN_NAMES) & ours == {"beta"}
    for key, spellings in FOREIGN_CHOICES.items():
        assert set(spellings.values()) <= set(settings[key].choices)
        assert not set(spellings) & set(settings[key].choices)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("train.learning_rat", "Did you mean train.learning_rate?"),
        ("optimizer.LR", "Did you mean train.learning_rate?"),
        ("algo.temperature", "Did you mean rollout.temperature or eval.temperature?"),
        ("rollouts.temperature", "Did you mean rollout.temperature or eval.temperature?"),
        ("lora.rank", "Did you mean model.lora.rank?"),
        ("lora", "Did you mean model.lora?"),
        ("evaluation.every", "Did you mean distill.every or eval.every or checkpoint.every?"),
        ("checkpoint.zzzz", "Settings of checkpoint: every, keep."),
        ("model.zzzz", "Settings of model: name, revision, dtype, device, threads, "
                           "gradient_checkpointing."),
        ("off_cliprange_high", "Did you mean correction.clip_high or notes.clip_high?"),
        ("MAX_REPLAY_REUSE", "Did you mean pool.max_uses?"),
        ("replay.beta", "Did you mean algo.kl_coef or draw.beta?"),
        ("train_rollout_expmode", "Did you mean notes.rollout?"),
        ("zzzz", "Sections: run, model, environment, rollout, algo, critic, train, replay, pool, "
                 "draw, correction, adapt, continual, notes, distill, remote, eval, checkpoint, "
                 "store, telemetry."),
    ],
)  # fmt: skip
def test_unknown_keys(key: str, said: str) -> None:
    assert suggest_key(key) == said


@pytest.mark.parametrize(
    ("key", "given", "said"),
    [
        ("algo.advantage", "reinforce++", "Did you mean reinforce_plus_plus?"),
        ("algo.advantage", "PPO", "Did you mean gae?"),
        ("algo.advantage", "GRPO", "Did you mean grpo?"),
        ("algo.aggregation", "seq_mean_token_mean", "Did you mean seq-mean-token-mean?"),
        ("algo.loss", "zzz", ""),
        ("algo.loss", 3, ""),
        ("model.device", "gpu", "Did you mean cuda?"),
    ],
)
def test_unknown_choices(key: str, given: object, said: str) -> None:
    assert suggest_choice(key, given) == said
