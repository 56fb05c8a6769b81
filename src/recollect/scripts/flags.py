"""The flags of seed 001's `train_grpo_cl`, and the settings of ours that they stand for."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from recollect.config.schema.continual import Method
from recollect.errors import BadContinual

METHODS: tuple[str, ...] = get_args(Method)
TINY = "tiny"
TAU2 = "tau2"
_BASE_URL = "OPENAI_BASE_URL"

# Where the tiny model wants other values than a model of billions of weights.
_LARGE = {"learning_rate": 1e-6, "max_new_tokens": 2048}
_SMALL = {"learning_rate": 5e-4, "max_new_tokens": 40}
_TURNS = 6  # answers of the longest length that fit into a trajectory, with as much to read


def parser() -> argparse.ArgumentParser:
    """Make the parser. Every flag may be written with `_` or with `-`."""
    made = _Parser(
        prog="python -m recollect.scripts.train_grpo_cl",
        description="Train one agent on a sequence of domains with GRPO (seed 001's command). "
        "Settings of ours follow as key=value.",
    )
    _add_model(made)
    _add_training(made)
    _add_continual(made)
    _add_output(made)
    made.add_argument("settings", nargs="*", help="any setting of docs/config.md as key=value")
    return made


def given_flags(arguments: Sequence[str] | None) -> list[str]:
    """Name the flags that somebody wrote down, and `settings` where there are any."""
    made = parser()
    for action in made._actions:
        action.default = argparse.SUPPRESS
    return sorted(vars(made.parse_args(arguments)))


class _Parser(argparse.ArgumentParser):
    """Reads --no-use_progress_bar and --log-interval like --no_use_progress_bar, --log_interval."""

    def parse_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        import sys

        given = sys.argv[1:] if args is None else list(args)
        return super().parse_args([_underscored(word) for word in given], namespace)


def _underscored(word: str) -> str:
    if not word.startswith("--"):
        return word
    name, equals, value = word[2:].partition("=")
    return f"--{name.replace('-', '_')}{equals}{value}"


def _switch(group: argparse._ArgumentGroup, name: str, *off: str, default: bool, text: str) -> None:
    group.add_argument(f"--{name}", dest=name, action="store_true", default=default, help=text)
    for spelling in off:
        group.add_argument(f"--{spelling}", dest=name, action="store_false",
                           help=argparse.SUPPRESS)  # fmt: skip


def _add_model(made: argparse.ArgumentParser) -> None:
    group = made.add_argument_group("model")
    group.add_argument("--model_name_or_path", default=TINY,
                       help="tiny (built in), a folder, or a hub id; default: tiny")  # fmt: skip
    group.add_argument("--model_dtype", default="bfloat16", choices=("bfloat16", "float32"),
                       help="bfloat16 where there is a GPU that has it, else float32")  # fmt: skip
    group.add_argument("--temperature", type=float, default=0.7, help="of rollouts")
    group.add_argument("--max_new_tokens", type=int, help="per answer; 2048, or 40 for tiny")
    _switch(group, "use_flash_attention", "no_flash_attention", "no_use_flash_attention",
            default=True, text="accepted: attention is ours, packed and exact")  # fmt: skip
    _switch(group, "gradient_checkpointing", "no_gradient_checkpointing", default=False,
            text="recompute activations: less memory, more time")  # fmt: skip
    group.add_argument("--user_model", help="model that plays the user (tau2), at --user_model_url")
    group.add_argument("--user_model_url", help="OpenAI's interface; default: $OPENAI_BASE_URL")
    _switch(group, "use_local_user_model", "no_local_user_model", "no_use_local_user_model",
            default=False, text="run the user simulator here")  # fmt: skip
    group.add_argument("--user_model_temperature", type=float)


def _add_training(made: argparse.ArgumentParser) -> None:
    group = made.add_argument_group("training")
    group.add_argument("--num_samples_per_prompt", type=int, default=4, help="group size")
    group.add_argument("--kl_coef", type=float, default=0.1, help="KL to the base model")
    group.add_argument("--gamma", type=float, default=1.0, help="1: GRPO does not discount")
    group.add_argument("--batch_size_per_gpu", type=int, default=4, help="tasks per step")
    group.add_argument("--gradient_accumulation_steps", type=int, default=2,
                       help="tasks per optimiser update")  # fmt: skip
    group.add_argument("--num_steps_per_task", type=int, default=100, help="steps of a domain")
    group.add_argument("--learning_rate", type=float, help="1e-6, or 5e-4 for tiny")
    group.add_argument("--warmup_steps", type=int, default=10)
    group.add_argument("--max_grad_norm", type=float, default=1.0)
    group.add_argument("--seed", type=int, default=0)


def _add_continual(made: argparse.ArgumentParser) -> None:
    group = made.add_argument_group("continual learning")
    group.add_argument("--cl_algorithm", default="sequential", choices=METHODS)
    group.add_argument("--replay_buffer_size", type=int, default=1000, help="tasks of a domain")
    group.add_argument("--replay_ratio", type=float, default=0.2)
    group.add_argument("--environment", default="desk", help="desk, or tau2 (docs/tau2.md)")
    group.add_argument("--task_order", "--domains", nargs="+",
                       default=["airline", "retail", "telecom"])  # fmt: skip
    group.add_argument("--max_tasks_per_domain", type=int)
    group.add_argument("--train_split", type=float, default=0.8,
                       help="share of max_tasks_per_domain to train on")  # fmt: skip


def _add_output(made: argparse.ArgumentParser) -> None:
    group = made.add_argument_group("output")
    group.add_argument("--log_dir", type=Path, default=Path("logs/grpo_cl"))
    group.add_argument("--save_interval", type=int, default=10)
    group.add_argument("--eval_interval", type=int, default=5)
    group.add_argument("--wandb_project")
    group.add_argument("--verbose", action="store_true")
    group.add_argument("--log_interval", type=int, default=10)
    _switch(group, "use_progress_bar", "no_progress_bar", "no_use_progress_bar", default=True,
            text="a bar, or lines")  # fmt: skip
    _switch(group, "save_trajectory_logs", "no_trajectory_logs", "no_save_trajectory_logs",
            default=False, text="write conversations to LOG_DIR/trajectory_logs")  # fmt: skip
    group.add_argument("--trajectory_log_interval", type=int, default=1)
    group.add_argument("--resume_from", type=Path, help="a folder that an earlier run made")


def settings_of(flags: argparse.Namespace, world_size: int) -> list[str]:
    """Spell the flags as our settings; what somebody adds as key=value comes last and wins."""
    tiny = flags.model_name_or_path == TINY
    sizes = _SMALL if tiny else _LARGE
    turn = flags.max_new_tokens or sizes["max_new_tokens"]
    longest = 480 if tiny and turn <= 80 else 2 * _TURNS * int(turn)
    rate = sizes["learning_rate"] if flags.learning_rate is None else flags.learning_rate
    tasks = flags.batch_size_per_gpu * world_size
    updates = _updates(flags, tasks * flags.num_samples_per_prompt)
    found = [
        f"model.name={flags.model_name_or_path}",
        f"model.dtype={'auto' if flags.model_dtype == 'bfloat16' else 'float32'}",
        "model.device=auto",
        f"model.gradient_checkpointing={str(flags.gradient_checkpointing).lower()}",
        f"environment.name={flags.environment}",
        f"rollout.temperature={flags.temperature}",
        f"rollout.max_turn_tokens={turn}",
        f"rollout.max_tokens={longest}",
        f"rollout.tasks_per_step={tasks}",
        f"rollout.rows_per_task={flags.num_samples_per_prompt}",
        f"rollout.batch_rows={max(64, flags.num_samples_per_prompt)}",
        f"train.pack_tokens={max(4096, longest)}",
        f"train.minibatches={updates}",
        f"train.learning_rate={rate}",
        f"train.warmup_steps={min(flags.warmup_steps, flags.num_steps_per_task)}",
        f"train.max_grad_norm={flags.max_grad_norm}",
        f"algo.kl_coef={flags.kl_coef}",
        f"run.steps={flags.num_steps_per_task}",
        f"run.seed={flags.seed}",
        f"continual.method={flags.cl_algorithm}",
        f"continual.task_order=[{','.join(flags.task_order)}]",
        f"continual.replay.ratio={flags.replay_ratio}",
        f"continual.replay.capacity={flags.replay_buffer_size}",
        f"eval.every={flags.eval_interval}",
        "eval.split=test",
        "eval.tasks=20",
        f"checkpoint.every={flags.save_interval}",
    ]
    return [*found, *_tau2(flags), *_limits(flags), *_places(flags), *flags.settings]


def _updates(flags: argparse.Namespace, rows: int) -> int:
    """Updates of a step, each of as many tasks as gradients are gathered from."""
    updates: int = max(1, flags.batch_size_per_gpu // flags.gradient_accumulation_steps)
    if rows % updates:
        raise BadContinual(
            f"the {rows} rows of a step cannot be divided into {updates} equal updates",
            "Make --batch_size_per_gpu a multiple of --gradient_accumulation_steps.",
        )
    return updates


def _tau2(flags: argparse.Namespace) -> Sequence[str]:
    """What tau2 is told: no levels, which only desks have, and the model that plays the user."""
    if flags.environment.partition(":")[0] != TAU2:
        return ()
    found = ["environment.levels=none"]
    if not flags.user_model:
        return found
    found += [
        "environment.options.user=endpoint",
        f"environment.options.user_model={flags.user_model}",
        f"environment.options.user_url={flags.user_model_url or os.environ.get(_BASE_URL, '')}",
    ]
    if flags.user_model_temperature is not None:
        found.append(f"environment.options.user_temperature={flags.user_model_temperature}")
    return found


def _limits(flags: argparse.Namespace) -> Sequence[str]:
    """The first N tasks of a domain, divided: so many to train on, the rest to examine on."""
    if flags.max_tasks_per_domain is None:
        return ()
    train = max(1, int(flags.max_tasks_per_domain * flags.train_split))
    left = max(1, flags.max_tasks_per_domain - train)
    return f"environment.tasks={train}", f"eval.tasks={left}"


def _places(flags: argparse.Namespace) -> list[str]:
    found = [f"run.folder={flags.log_dir.parent}", f"run.name={flags.log_dir.name}"]
    if flags.wandb_project:
        found += ["telemetry.sinks=[wandb]", f"telemetry.project={flags.wandb_project}"]
    return found
