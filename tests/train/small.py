"""A model of a few thousand weights and runs of a few steps: real parts, small sizes."""

from __future__ import annotations

import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from recollect.config.loading import load_config
from recollect.config.schema.config import Config
from recollect.models.loading import Policy, load_policy
from recollect.rollout.episode import Request
from recollect.telemetry.events import Event, Sink
from recollect.train.evaluation import Evaluator
from recollect.train.folder import create_run
from recollect.train.loop import Outcome, train
from recollect.train.parts import make_collector, make_evaluator
from recollect.train.schedule import training_tasks
from recollect.train.session import Session, open_session
from recollect.trajectory import Trajectory
from recollect.types import RunId, Sampling, group_id, trajectory_id

WORLDS = Path(__file__).with_name("worlds.py")
LETTERS = f"{WORLDS}:Letters"

_ROLES = ("system", "user", "assistant", "tool")
_SPECIAL = ("<|pad|>", "<|end|>", *(f"<|{role}|>" for role in _ROLES))
_TEMPLATE = (
    "{%- for m in messages -%}{{- '<|' + m.role + '|>' + m.content + '<|end|>' -}}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"
)
_END = 1.8  # strength of the stop token: about one turn in two ends by itself


def make_tokenizer() -> Any:
    """Make a tokenizer of single characters that no other change of ours can touch."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = [*_SPECIAL, "<unk>", *string.ascii_letters, *string.digits, *" .,!?:;'()-\n"]
    inner = Tokenizer(models.WordLevel({w: n for n, w in enumerate(words)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    inner.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<|pad|>",
        eos_token="<|end|>",
        additional_special_tokens=list(_SPECIAL[2:]),
        chat_template=_TEMPLATE,
    )


def make_model(folder: Path, seed: int = 0, layers: int = 1) -> Path:
    """Write a random Llama that reads and writes letters, and ends its turns now and then."""
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = make_tokenizer()
    end = tokenizer.eos_token_id
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=len(tokenizer),
                hidden_size=16,
                intermediate_size=24,
                num_hidden_layers=layers,
                num_attention_heads=2,
                num_key_value_heads=1,
                max_position_embeddings=256,
                initializer_range=0.3,
                tie_word_embeddings=False,
                bos_token_id=None,
                eos_token_id=end,
                pad_token_id=tokenizer.pad_token_id,
            )
        )
        with torch.no_grad():
            # One feature is the same everywhere; the stop token listens to it alone.
            model.model.embed_tokens.weight[:, 0] = 3.0
            model.lm_head.weight[:, 0] = 0.0
            model.lm_head.weight[end] = 0.0
            model.lm_head.weight[end, 0] = _END
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def settings(model: Path, *flags: str, world: str = LETTERS) -> list[str]:
    """Give the flags of a small run; later ones win."""
    return [
        f"model.name={model}",
        "model.dtype=float32",
        "model.device=cpu",
        f"environment.name={world}",
        "run.steps=3",
        "rollout.tasks_per_step=2",
        "rollout.rows_per_task=4",
        "rollout.batch_rows=8",
        "rollout.max_tokens=120",
        "rollout.max_turn_tokens=6",
        "train.learning_rate=0.01",
        "train.pack_tokens=200",
        "eval.tasks=4",
        "eval.every=2",
        "checkpoint.every=2",
        *flags,
    ]


def make_config(model: Path, *flags: str, world: str = LETTERS) -> Config:
    """Make the configuration of a small run."""
    return load_config(None, settings(model, *flags, world=world)).config


class Recorder:
    """A sink that keeps what it hears, and may do something at an event."""

    def __init__(self, then: Callable[[Event], None] = lambda event: None) -> None:
        self.events: list[Event] = []
        self.closed = False
        self._then = then

    def emit(self, event: Event) -> None:
        self.events.append(event)
        self._then(event)

    def close(self) -> None:
        self.closed = True


def open_run(folder: Path, config: Config, *sinks: Sink) -> Session:
    """Make a run and open it."""
    run = create_run(folder, config)
    return open_session(run, {f"sink {number}": sink for number, sink in enumerate(sinks)})


def run_to_end(folder: Path, config: Config, *sinks: Sink) -> Outcome:
    """Make a run and train it."""
    with open_run(folder, config, *sinks) as session:
        return train(session)


def load_small(model: Path) -> Policy:
    """Load a model for training."""
    return load_policy(str(model), device="cpu")


def collect_rows(
    policy: Policy, config: Config, step: int = 1, version: int = 0
) -> tuple[Trajectory, ...]:
    """Sample the groups of a step with the real collector."""
    from recollect.envs.registry import load_environment

    environment = load_environment(config.environment.name)
    tasks = training_tasks(environment, config.environment)[: config.rollout.tasks_per_step]
    run = RunId("small")
    requests = [
        Request(
            id=trajectory_id(run, step, task.key, row),
            task=task,
            run=run,
            step=step,
            group=group_id(run, step, task.key),
            policy_version=version,
            seed=config.run.seed,
            row=row,
        )
        for task in tasks
        for row in range(config.rollout.rows_per_task)
    ]
    collector = make_collector(config, environment, policy)
    try:
        sampling = Sampling(config.rollout.temperature)
        return collector.collect(requests, sampling).trajectories
    finally:
        collector.close()


def evaluator_of(policy: Policy, config: Config) -> Evaluator:
    """Make an evaluator with a collector of its own."""
    from recollect.envs.registry import load_environment

    environment = load_environment(config.environment.name)
    return make_evaluator(config, environment, make_collector(config, environment, policy))
