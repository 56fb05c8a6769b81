"""Which setting somebody may have meant: other tools' words, near misses."""

from __future__ import annotations

import difflib

from recollect.config.settings import all_sections, all_settings

# Names that other trainers give to the same thing; ours are the right-hand side.
FOREIGN_NAMES = {
    "lr": "train.learning_rate",
    "n": "rollout.rows_per_task",
    "group_size": "rollout.rows_per_task",
    "num_generations": "rollout.rows_per_task",
    "num_samples": "rollout.rows_per_task",
    "train_batch_size": "rollout.tasks_per_step",
    "batch_size": "rollout.tasks_per_step",
    "max_steps": "run.steps",
    "num_steps": "run.steps",
    "total_training_steps": "run.steps",
    "output_dir": "run.folder",
    "run_name": "run.name",
    "experiment_name": "run.name",
    "model_name": "model.name",
    "model_path": "model.name",
    "model_name_or_path": "model.name",
    "use_lora": "model.lora.rank",
    "lora_rank": "model.lora.rank",
    "lora_alpha": "model.lora.alpha",
    "lora_target_modules": "model.lora.targets",
    "target_modules": "model.lora.targets",
    "max_completion_length": "rollout.max_tokens",
    "max_response_length": "rollout.max_tokens",
    "max_new_tokens": "rollout.max_turn_tokens",
    "max_length": "rollout.max_tokens",
    "epsilon": "algo.clip_low",
    "epsilon_high": "algo.clip_high",
    "clip_eps": "algo.clip_low",
    "clip_ratio": "algo.clip_low",
    "clip_ratio_low": "algo.clip_low",
    "clip_ratio_high": "algo.clip_high",
    "clip_ratio_c": "algo.dual_clip",
    "cliprange": "algo.clip_low",
    "beta": "algo.kl_coef",
    "kl_loss_coef": "algo.kl_coef",
    "kl_loss_type": "algo.kl_estimator",
    "entropy_coeff": "algo.entropy_coef",
    "ent_coef": "algo.entropy_coef",
    "adv_estimator": "algo.advantage",
    "loss_type": "algo.loss",
    "loss_agg_mode": "algo.aggregation",
    "num_iterations": "train.epochs",
    "ppo_epochs": "train.epochs",
    "num_mini_batches": "train.minibatches",
    "lr_scheduler_type": "train.schedule",
    "warmup": "train.warmup_steps",
    "grad_clip": "train.max_grad_norm",
    "adam_beta1": "train.beta1",
    "adam_beta2": "train.beta2",
    "adam_epsilon": "train.eps",
    "eval_steps": "eval.every",
    "eval_interval": "eval.every",
    "test_freq": "eval.every",
    "save_steps": "checkpoint.every",
    "save_freq": "checkpoint.every",
    "save_total_limit": "checkpoint.keep",
    "logging_steps": "telemetry.log_interval",
    "report_to": "telemetry.sinks",
    "logger": "telemetry.sinks",
    "use_progress_bar": "telemetry.progress",
    "vf_coef": "critic.policy_weight",
    "cliprange_value": "critic.clip",
    "gae_lambda": "algo.lam",
    "use_replay_buffer": "replay.modes",
    "replay_buffer_size": "pool.max_rows",
    "min_replay_size": "replay.start_rows",
    "replay_sample_size": "replay.buffer_rows",
    "use_priority_sampling": "draw.priority",
    "priority_alpha": "draw.alpha",
    "priority_beta": "draw.beta",
    "priority_beta_increment": "draw.beta_growth",
    "max_replay_reuse": "pool.max_uses",
    "staleness_threshold": "pool.max_age",
    "train_rollout_expmode": "notes.rollout",
    "val_rollout_expmode": "notes.evaluation",
    "rollout_expratio": "notes.share",
    "train_sample_expmode": "notes.train",
    "train_sample_keepratio": "notes.keep_share",
    "experience_template": "notes.template",
    "updated_freq": "distill.every",
    "off_cliprange_high": "correction.clip_high",
}

# One name there, two settings here.
_ALSO = {"off_cliprange_high": "notes.clip_high"}

# Other spellings of a choice, by setting.
FOREIGN_CHOICES = {
    "algo.advantage": {
        "grpo_mean": "dr_grpo",
        "ppo": "gae",
        "reinforce_pp": "reinforce_plus_plus",
        "reinforce++": "reinforce_plus_plus",
        "reinforce_plus_plus_batch": "reinforce_plus_plus",
        "reinforce++_baseline": "reinforce_plus_plus_baseline",
    },
    "algo.loss": {"ppo": "ppo_clip", "grpo": "ppo_clip", "dapo": "ppo_clip", "vanilla": "ppo_clip"},
    "algo.aggregation": {"dr_grpo": "seq-mean-token-sum-norm", "grpo": "seq-mean-token-mean"},
    "model.dtype": {"fp32": "float32", "bf16": "bfloat16"},
    "model.device": {"gpu": "cuda"},
    "notes.rollout": {"woexp": "bare"},
    "notes.evaluation": {"woexp": "bare"},
    "notes.train": {"discard": "strip", "alldiscard": "strip", "allkeep": "keep"},
}


def suggest_key(key: str) -> str:
    """Say what an unknown dotted key may have meant, as a sentence, or where to look."""
    name = key.rpartition(".")[2]
    found = [names[name.lower()] for names in (FOREIGN_NAMES, _ALSO) if name.lower() in names]
    found = [*found, *_same_name(name)] or _near(key)
    if found:
        return f"Did you mean {' or '.join(found)}?"
    section = key.rpartition(".")[0]
    if section in all_sections():
        return f"Settings of {section}: {', '.join(_names_in(section))}."
    top = [name for name in all_sections() if "." not in name]
    return f"Sections: {', '.join(top)}."


def suggest_choice(key: str, given: object) -> str:
    """Say which of a setting's choices may have been meant, as a sentence, or nothing."""
    choices = all_settings()[key].choices
    if not isinstance(given, str):
        return ""
    other = FOREIGN_CHOICES.get(key, {}).get(given.lower().replace("-", "_"))
    if other is None:
        word = given.lower().replace("_", "-" if any("-" in c for c in choices) else "_")
        near = difflib.get_close_matches(word, choices, n=1)
        other = near[0] if near else None
    return f"Did you mean {other}?" if other else ""


def _same_name(name: str) -> list[str]:
    """Settings and sections of this very name that stand somewhere else."""
    known = [*all_sections(), *all_settings()]
    return [key for key in known if key.rpartition(".")[2] == name][:3]


def _near(key: str) -> list[str]:
    """The nearest setting: by the whole key, or by its last word in any section."""
    known = [k for k in (*all_sections(), *all_settings()) if not key.startswith(f"{k}.")]
    whole = difflib.get_close_matches(key, known, n=1, cutoff=0.75)
    if whole:
        return whole
    names = sorted({k.rpartition(".")[2] for k in known})
    last = difflib.get_close_matches(key.rpartition(".")[2], names, n=1, cutoff=0.75)
    return _same_name(last[0]) if last else []


def _names_in(section: str) -> list[str]:
    prefix = f"{section}."
    inner = [key[len(prefix) :] for key in all_settings() if key.startswith(prefix)]
    return [name for name in inner if "." not in name]
