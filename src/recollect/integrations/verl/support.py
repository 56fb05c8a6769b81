"""Which of our settings a run under verl takes, and which values it must refuse.

Every setting is in exactly one of four places: a section that the loop reads, which is the same
loop; the keys below, which something here carries over; the keys of a process that computes the
model itself, in whose place verl's servers and workers are; or nowhere. In the last two it is
refused unless it has its default. `REFUSED` narrows some of the others down to the values whose
meaning is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from recollect.canonical import Json
from recollect.config.schema.config import Config
from recollect.config.settings import all_settings
from recollect.config.values import values_of
from recollect.errors import BadConfig
from recollect.models.catalog import folder_of

# Sections that only the loop in the driver reads.
LOOP = frozenset(
    {
        "run",
        "environment",
        "replay",
        "pool",
        "draw",
        "adapt",
        "continual",
        "notes",
        "distill",
        "remote",
        "eval",
        "checkpoint",
        "store",
        "telemetry",
    }
)
# Sections that the registered loss reads on the workers, from the run's own configuration.
LOSS = frozenset({"correction"})
# Sections without effect, because what they belong to is refused.
VOID = frozenset({"critic"})

# Keys of the process that samples and trains in a run without verl.
IN_PROCESS = frozenset(
    {
        "model.threads",
        "rollout.engine",
        "rollout.url",
        "rollout.vllm_memory",
        "rollout.mismatch_cap",
    }
)

CARRIED = frozenset(
    {
        "model.name",
        "model.revision",
        "model.dtype",
        "model.device",
        "model.gradient_checkpointing",
        "model.lora.rank",
        "model.lora.alpha",
        "model.lora.dropout",
        "model.lora.targets",
        "model.lora.merge",
        "rollout.tasks_per_step",
        "rollout.rows_per_task",
        "rollout.temperature",
        "rollout.top_p",
        "rollout.top_k",
        "rollout.max_tokens",
        "rollout.max_turn_tokens",
        "rollout.max_turns",
        "rollout.batch_rows",
        "rollout.call_seconds",
        "rollout.episode_seconds",
        "rollout.max_failed_share",
        "algo.advantage",
        "algo.gamma",
        "algo.lam",
        "algo.whiten",
        "algo.loss",
        "algo.clip_low",
        "algo.clip_high",
        "algo.dual_clip",
        "algo.aggregation",
        "algo.aggregation_norm",
        "algo.kl_coef",
        "algo.kl_reference",
        "algo.kl_revision",
        "algo.kl_estimator",
        "algo.kl_in",
        "algo.entropy_coef",
        "train.learning_rate",
        "train.schedule",
        "train.warmup_steps",
        "train.weight_decay",
        "train.beta1",
        "train.beta2",
        "train.eps",
        "train.max_grad_norm",
        "train.epochs",
        "train.minibatches",
        "train.pack_tokens",
        "train.shared_prompts",
        "train.parallel",
        "train.max_bad_steps",
    }
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A setting of which only some values are taken, why, and what to write instead."""

    key: str
    takes: Callable[[Config], bool]
    why: str
    instead: str


REFUSED = (
    Refusal(
        "model.name",
        lambda c: folder_of(c.model.name) is not None or Path(c.model.name).is_dir(),
        "every node must read the same files, so a model on the hub has to be a folder first",
        "Download it, and give the folder.",
    ),
    Refusal(
        "model.name",
        lambda c: not (Path(c.model.name) / "adapter_config.json").is_file(),
        "adapters are not trained under verl yet",
        "Merge it first: recollect model export.",
    ),
    Refusal(
        "model.lora.rank",
        lambda c: c.model.lora.rank == 0,
        "adapters are not trained under verl yet",
        "Set model.lora.rank=0.",
    ),
    Refusal(
        "rollout.top_p",
        lambda c: c.rollout.top_p == 1,
        "its servers report log-probs after the cut, which no training pass gives again",
        "Set rollout.top_p=1.",
    ),
    Refusal(
        "rollout.top_k",
        lambda c: c.rollout.top_k == 0,
        "its servers report log-probs after the cut, which no training pass gives again",
        "Set rollout.top_k=0.",
    ),
    Refusal(
        "algo.advantage",
        lambda c: c.algo.advantage != "gae",
        "there is no critic under verl yet",
        "Set algo.advantage=grpo, or another without a critic.",
    ),
    Refusal(
        "algo.kl_coef",
        lambda c: c.algo.kl_coef == 0,
        "there is no reference model under verl yet",
        "Set algo.kl_coef=0.",
    ),
    Refusal(
        "algo.entropy_coef",
        lambda c: c.algo.entropy_coef == 0,
        "verl's bonus would count replayed tokens too",
        "Set algo.entropy_coef=0.",
    ),
    Refusal(
        "train.weight_decay",
        lambda c: c.train.weight_decay == 0,
        "verl would decay norms and biases too",
        "Set train.weight_decay=0.",
    ),
    Refusal(
        "draw.choice",
        lambda c: c.draw.choice not in ("lowest_entropy", "highest_entropy"),
        "rollout servers report no entropies",
        "Set draw.choice=newest, random or likeliest.",
    ),
    Refusal(
        "distill.by",
        lambda c: not c.distill.every or c.distill.by != "policy",
        "the policy is not in the driver's process",
        "Set distill.by=rules or endpoint.",
    ),
)


def check(config: Config) -> None:
    """Raise BadConfig that names every setting which would mean something else, or nothing."""
    problems = [
        (f"{r.key} = {_shown(config, r.key)} cannot be kept under verl: {r.why}.", r.instead)
        for r in REFUSED
        if not r.takes(config)
    ]
    values = values_of(config)
    problems += [
        (f"{key} = {values.get(key)} is not carried over to verl.", f"Leave {key} at its default.")
        for key, setting in all_settings().items()
        if (key in IN_PROCESS or not is_known(key))
        and key in values
        and values[key] != setting.default
    ]
    if problems:
        raise BadConfig(problems)


def is_known(key: str) -> bool:
    """Tell whether it was decided who reads a setting under verl, or that nobody does."""
    return key.partition(".")[0] in LOOP | LOSS | VOID or key in CARRIED | IN_PROCESS


def _shown(config: Config, key: str) -> Json:
    found: Mapping[str, Json] = values_of(config)
    return found[key]
