"""How much memory a run will need, calculated from its configuration: an estimate, part by part.

Weights, gradients, moments and the cache are exact sums; activations are the usual counts of what
a layer keeps for its backward pass (Korthikanti et al. 2022, arXiv 2205.05198, without the scores
of attention, which are never kept whole). The most tokens that may come are assumed.
"""

from __future__ import annotations

from dataclasses import dataclass

from recollect.config.schema.config import Config
from recollect.models.shape import ModelShape, shape_of

_BYTES = {"float32": 4, "bfloat16": 2}
# Numbers kept per token and layer, in units of the hidden and of the inner size.
_KEPT_HIDDEN, _KEPT_INNER = 10, 4
# Where rows share what they begin with, each keeps a copy of the keys and values that it sees. A
# pack is closed when these are so many times its tokens: short rows behind long rules would have a
# hundred times.
MOST_SEEN = 4
# Logits as they come, in float32, their log-softmax, and the gradients of both.
_LOGIT_BYTES = 4 * 4
# Generating: logits, log-probs and probabilities in float32, their running sum in float64.
_CHOICE_BYTES = 4 + 4 + 4 + 8
_CACHE_ROOM = 1.5  # it grows by halves
TITLE = "memory, estimated, of each process (torchrun starts one for each GPU)"


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes by part. Generating and training take turns, so only the larger counts."""

    parameters: int
    trained: int
    weights: float
    reference: float
    optimiser: float
    generating: float
    training: float
    critic: float = 0.0

    @property
    def peak(self) -> float:
        """Bytes at the fullest moment."""
        held = self.weights + self.reference + self.optimiser + self.critic
        return held + max(self.generating, self.training)


def estimate_memory(config: Config) -> Estimate | None:
    """Estimate a run's memory; None where the model's shape is not known."""
    shape = shape_of(config.model.name)
    if shape is None:
        return None
    model = config.model
    width = _BYTES.get(model.dtype, 2 if model.device == "cuda" else 4)
    lora = model.lora
    targets = tuple(lora.targets) if lora.targets else None
    trained = shape.adapters(lora.rank, targets) if lora.rank else shape.parameters
    # peft keeps adapters in float32 whatever the model is in.
    trained_width = 4 if lora.rank else width
    return Estimate(
        parameters=shape.parameters,
        trained=trained,
        weights=float(shape.parameters * width + (trained * 4 if lora.rank else 0)),
        reference=_reference(config, shape, width),
        optimiser=3.0 * trained * trained_width,  # gradients, and two moments
        generating=_generating(config, shape, width),
        training=_training(config, shape, width),
        critic=_critic(config, shape, width),
    )


def memory_lines(config: Config) -> list[str]:
    """Spell the estimate, a line per part."""
    found = estimate_memory(config)
    if found is None:
        return ["memory", f"  not estimated: the shape of {config.model.name} is not known here"]
    adapters = "adapters" if config.model.lora.rank else "weights"
    with_adapters = " and the adapters" if config.model.lora.rank else ""
    parts = [
        (f"{found.parameters / 1e6:,.0f} M weights{with_adapters}", found.weights),
        ("reference model", found.reference),
        ("critic with its gradients and moments", found.critic),
        (f"gradients and moments of {found.trained / 1e6:,.1f} M {adapters}", found.optimiser),
        (f"generating {config.rollout.batch_rows} rows", found.generating),
        (f"training packs of {config.train.pack_tokens:,} tokens", found.training),
        ("at most (the last two take turns)", found.peak),
    ]
    shown = [(what, f"{size / 2**30:,.1f} GiB") for what, size in parts if size]
    left = max(len(what) for what, _ in shown)
    right = max(len(size) for _, size in shown)
    lines = [TITLE, *(f"  {w.ljust(left)}  {s.rjust(right)}" for w, s in shown)]
    if config.train.parallel == "fsdp2":
        lines.append(
            "  uncut; of n processes, each holds 1/n of gradients and moments, and 1/n of the"
        )
        lines.append("  weights while it trains (train.parallel = fsdp2)")
    return lines


def _reference(config: Config, shape: ModelShape, width: int) -> float:
    """Weights of the model that a KL divergence is measured from; adapters have theirs below."""
    named, commit = config.algo.kl_reference, config.algo.kl_revision
    same = named in (None, config.model.name) and commit in (None, config.model.revision)
    if not config.algo.kl_coef or (config.model.lora.rank and same):
        return 0.0
    found = shape if named is None else shape_of(named) or shape
    return float(found.parameters * width)


def _critic(config: Config, shape: ModelShape, width: int) -> float:
    """Weights, gradients and moments of a critic that is a model; a head is next to nothing.

    What its passes keep is not counted: they go pack by pack, as the policy's do.
    """
    if config.algo.advantage != "gae" or config.critic.kind == "head":
        return 0.0
    found = shape_of(config.critic.model or config.model.name) or shape
    return 4.0 * found.parameters * width


def _generating(config: Config, shape: ModelShape, width: int) -> float:
    rows, tokens = config.rollout.batch_rows, config.rollout.max_tokens
    per_token = 2 * shape.layers * shape.kv_heads * shape.head_size * width
    cache = _CACHE_ROOM * rows * tokens * per_token
    return cache + rows * shape.vocabulary * _CHOICE_BYTES


def _training(config: Config, shape: ModelShape, width: int) -> float:
    tokens = config.train.pack_tokens
    seen = 2 * MOST_SEEN if config.train.shared_prompts else 0
    kept = ((_KEPT_HIDDEN + seen) * shape.hidden + _KEPT_INNER * shape.inner) * width * tokens
    if config.model.gradient_checkpointing:
        layers = shape.layers * shape.hidden * width * tokens + kept
    else:
        layers = shape.layers * kept
    sampled = min(
        config.rollout.max_tokens, config.rollout.max_turns * config.rollout.max_turn_tokens
    )
    share = sampled / config.rollout.max_tokens
    return layers + share * tokens * shape.vocabulary * _LOGIT_BYTES
