"""Recollect against TRL 1.16's GRPOTrainer: rollouts trained per second, side by side in one run.

    python benchmarks/vs_trl.py                 all cases, about twelve minutes on two quiet cores
    python benchmarks/vs_trl.py --case 30M      one of them; --rounds and --threads as you like
    python benchmarks/vs_trl.py --quick         smaller cases, two rounds; writes no results

Both sides start from the same folder of weights, and in every step sample the same number of
answers of the same length to the same prompt tokens, judge them by the same function, and make
one AdamW update of all weights in float32 with the same number of threads. They take turns, step
by step, in one process: the machine may be shared, so only ratios within a round mean something.
A first step of each is not counted. The ratio in CPU seconds of the process is given beside the
one by the clock, because it suffers less from what else the machine does.

Equal work. No answer may end early. TRL is told min_new_tokens = max_completion_length, so that
it never samples its stop token. Our sampler is made without stop tokens and our chat with every
token as one: an answer ends at its limit, whatever it says, and counts as complete. Rewards are a
checksum of the text, so that no group is ever without signal and nothing collapses as it learns.
Both sides are checked in every step: number of rows and tokens trained, a spread of rewards in
each group; and at the end, that the weights moved.

Our side is the real run, `recollect.train.loop.train`: schedule, environment calls with their
time limits, SQLite commits (rows before training, state after it), metrics.jsonl. Only the
checkpoint at the end is outside the timed steps. Its time is divided into generation (inside
Sampler.run, without the calls it makes to the environment), training (the update phase), and
everything else.

TRL's settings, and why they are as they are:
    use_cpu, bf16=False                 float32 on a CPU, as ours; bf16 is emulated here, and slow
    gradient_checkpointing=False        TRL's default saves memory and costs a third of training
    per_device_train_batch_size x gradient_accumulation_steps = all rows of the step
                                        one generation batch and one optimiser step per step; the
                                        split was chosen as the fastest of several for each case
    beta=0, num_iterations=1            no reference model, and no second pass for old log-probs
    loss_type="grpo"                    rows are equally long: the same mean as ours over tokens
    scale_rewards="group"               its default: group mean and standard deviation, as ours
    temperature=1, top_p=1, top_k=0     its defaults: plain sampling, no sorting of the vocabulary
    optim="adamw_torch_fused"           its default; the fastest AdamW that torch has
    learning_rate, weight_decay=0, max_grad_norm=1, lr_scheduler_type="constant": as ours
    use_vllm=False, torch_compile=False neither pays on a CPU for steps of seconds
    report_to, logging, saving, evaluation, tqdm off; dataloader_num_workers=0
                                        nothing but the step is left to be timed
The model is loaded with transformers' own sdpa attention. TRL's steps are timed from on_step_begin
to on_step_end, which leaves out its data loader and the ends of its loop.
"""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # neither side has anything to ask or tell the hub

import argparse
import json
import statistics
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from transformers.utils import logging

import side_by_side
from recollect.config.schema.config import Config
from recollect.errors import MissingExtra
from recollect.models.chat import Chat
from recollect.models.loading import Policy
from recollect.rollout.collector import Collector
from recollect.rollout.episode import Limits
from recollect.rollout.sampler import Row, Sampler
from recollect.telemetry.events import Event, PhaseStarted, StepFinished
from recollect.train.folder import create_run
from recollect.train.learner import Learner
from recollect.train.loop import train
from recollect.train.session import Session, open_session
from recollect.types import Sampling
from results_file import spread, write_results
from side_by_side import LEARNING_RATE, SEED, Case, Step, Stopwatch, make_model, make_prompts
from trl_side import Trl

PACKAGES = ("torch", "transformers", "trl", "accelerate", "numpy")
SLACK = 16  # tokens that a prompt may be longer than wanted
SHARES = ("gen %", "train %", "rest %")


CASES = (
    Case("tiny", "tiny", 8, 8, 64, 24, trl_rows=16, rounds=9),
    Case("30M", "30M", 4, 8, 48, 24, trl_rows=16, rounds=5),
    Case("tiny-long", "tiny", 8, 8, 64, 1000, trl_rows=8, rounds=5),
    Case("30M-long", "30M", 2, 8, 48, 1000, trl_rows=4, rounds=3),
)
# The same, small enough for a look on a busy machine.
SMALLER: dict[str, dict[str, Any]] = {
    "tiny": {"rounds": 2},
    "30M": {"prompts": 2, "tokens": 16, "trl_rows": 16, "rounds": 2},
    "tiny-long": {"prompts": 2, "tokens": 32, "rounds": 2},
}


# -- Recollect -----------------------------------------------------------------------------------


class TimedSampler(Sampler):
    """A sampler that knows how long it sampled, without the callers it waited for."""

    seconds = 0.0

    def run(
        self,
        rows: Iterable[Row],
        sampling: Sampling,
        end_turns: Callable[[Sequence[Row]], None],
    ) -> None:
        """Sample as always, and measure it."""
        outside, waiting = 0.0, iter(rows)

        def timed_rows() -> Iterator[Row]:
            nonlocal outside
            while True:
                watch = Stopwatch()
                row = next(waiting, None)
                outside += watch.seconds
                if row is None:
                    return
                yield row

        def timed_end(ended: Sequence[Row]) -> None:
            nonlocal outside
            watch = Stopwatch()
            end_turns(ended)
            outside += watch.seconds

        watch = Stopwatch()
        super().run(timed_rows(), sampling, timed_end)
        self.seconds = watch.seconds - outside


class Turns:
    """A sink that measures each step of ours, and then lets the other side make its own."""

    def __init__(self, case: Case, other: Trl, tell: Callable[[int, Step, Step], None]) -> None:
        self._case = case
        self._other = other
        self._tell = tell
        self._watch = Stopwatch()
        self.sampler: TimedSampler | None = None
        self.steps: list[tuple[Step, Step]] = []
        self.failure: BaseException | None = None

    def emit(self, event: Event) -> None:
        """Note when a step begins; take turns when it is finished."""
        if isinstance(event, PhaseStarted) and event.phase == "plan":
            self._watch = Stopwatch()
        if isinstance(event, StepFinished) and self.failure is None:
            ours = self._measure(event.metrics)
            try:
                self.steps.append((ours, self._other.step()))
            except (Exception, SystemExit) as error:  # a run ignores what its sinks raise
                self.failure = error
                return
            self._tell(event.step, *self.steps[-1])

    def close(self) -> None:
        """Nothing to let go of."""

    def _measure(self, metrics: Any) -> Step:
        assert self.sampler is not None
        if metrics["train/rows"] != self._case.step_rows:
            self.failure = SystemExit("Recollect has a group without signal, or lost a row.")
        return Step(
            self._watch.seconds,
            self._watch.cpu,
            self.sampler.seconds,
            metrics["time/update"],
            int(metrics["train/tokens"]),
        )


def our_config(case: Case, model: Path, prompts: Path) -> Config:
    """Write the configuration of our run: defaults but for what the case says."""
    return Config.model_validate(
        {
            "run": {"seed": SEED, "steps": case.rounds + 1},
            "model": {"name": str(model), "dtype": "float32", "device": "cpu"},
            "environment": {
                "name": f"single_turn:{prompts}",
                "options": {"reward": f"{side_by_side.__file__}:reward", "split_field": "split"},
            },
            "rollout": {
                "tasks_per_step": case.prompts,
                "rows_per_task": case.rows,
                "batch_rows": case.step_rows,
                "max_turn_tokens": case.tokens,
                "max_tokens": case.prompt_tokens + SLACK + case.tokens,
                "episode_seconds": 3600.0,
            },
            "train": {"learning_rate": LEARNING_RATE},
            "eval": {"every": 0},
            "checkpoint": {"every": 0},
        }
    )


def policy_of(session: Session) -> Policy:
    """Get what the learner of this process trains."""
    assert isinstance(session.learner, Learner)
    return session.learner.policy


def fix_length(session: Session, case: Case) -> TimedSampler:
    """Give a session a collector whose answers all have the same length, and its sampler.

    The sampler stops at no token, and the chat takes any token for the end of an answer.
    """
    policy, rollout = policy_of(session), session.config.rollout
    chat = Chat(policy.chat.tokenizer, range(policy.model.config.vocab_size))
    sampler = TimedSampler(policy.model, (), rollout.batch_rows)
    session.collector.close()
    session.collector = Collector(
        session.environment,
        chat,
        sampler,
        Limits(rollout.max_tokens, case.tokens, 1),
        call_seconds=rollout.call_seconds,
        episode_seconds=rollout.episode_seconds,
    )
    return sampler


# -- both ----------------------------------------------------------------------------------------


def run_case(case: Case, folder: Path, console: Console) -> dict[str, Any]:
    """Let both sides train in turns; the first turn is not counted."""
    from transformers import AutoTokenizer

    folder.mkdir()
    model = make_model(case.model, folder)
    plain, rendered = make_prompts(case, AutoTokenizer.from_pretrained(model))
    path = folder / "prompts.jsonl"
    lines = [json.dumps({"prompt": text, "split": "train"}) + "\n" for text in plain]
    path.write_text("".join(lines), encoding="utf-8")

    def tell(step: int, ours: Step, theirs: Step) -> None:
        number = f"round {step - 1}/{case.rounds}" if step > 1 else "warm-up"
        times = f"Recollect {ours.seconds:.2f} s, TRL {theirs.seconds:.2f} s"
        ratio = theirs.seconds / ours.seconds
        console.print(f"{case.name} {number}: {times}, ratio {ratio:.2f}", highlight=False)

    other = Trl(case, model, rendered, folder / "trl")
    turns = Turns(case, other, tell)
    run = create_run(folder / "run", our_config(case, model, path))
    with open_session(run, {"turns": turns}) as session:
        turns.sampler = fix_length(session, case)
        before = [_weights(policy_of(session).model), _weights(other.model)]
        outcome = train(session)
        moved = [
            _moved(before[0], policy_of(session).model),
            _moved(before[1], other.model),
        ]
    if turns.failure is not None:
        raise turns.failure
    if outcome.signal is not None:
        raise SystemExit("Stopped by a signal; nothing was written.")
    if min(moved) == 0.0 or not torch.equal(before[0], before[1]):
        raise SystemExit(f"Not the same training: weights moved by at most {moved}.")
    return summarise(case, turns.steps[1:], moved, int(before[0].numel()))


def _weights(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def _moved(before: torch.Tensor, model: torch.nn.Module) -> float:
    """Largest change of a weight."""
    return float((_weights(model) - before).abs().max())


def summarise(
    case: Case, steps: list[tuple[Step, Step]], moved: list[float], parameters: int
) -> dict[str, Any]:
    """Turn the steps of a case into figures."""
    expected = case.step_rows * case.tokens
    if any(step.tokens != expected for both in steps for step in both):
        raise SystemExit(f"A side trained on another number of tokens than {expected}.")
    ours, theirs = [a for a, _ in steps], [b for _, b in steps]
    return {
        "case": asdict(case),
        "parameters": parameters,
        "tokens_trained_per_step": expected,
        "ratio_of_tokens_computed": case.work,
        "ratio": spread([b.seconds / a.seconds for a, b in steps]),
        "ratio_cpu": spread([b.cpu / a.cpu for a, b in steps]),
        "recollect": _side(case, ours, moved[0]),
        "trl": _side(case, theirs, moved[1]),
    }


def _side(case: Case, steps: list[Step], moved: float) -> dict[str, Any]:
    def share(part: Callable[[Step], float]) -> float:
        return statistics.median(part(step) / step.seconds for step in steps)

    return {
        "rollouts_per_s": spread([case.step_rows / step.seconds for step in steps]),
        "generation_share": share(lambda step: step.generation),
        "training_share": share(lambda step: step.training),
        "rest_share": share(lambda step: step.rest),
        "generation_s": statistics.median(step.generation for step in steps),
        "training_s": statistics.median(step.training for step in steps),
        "rest_s": statistics.median(step.rest for step in steps),
        "weights_moved_most": moved,
    }


def show(figures: Sequence[dict[str, Any]]) -> Table:
    """Table of all cases."""
    table = Table(box=SIMPLE, title="rollouts trained per second: median of the rounds")
    for name in ("case", "step"):
        table.add_column(name, no_wrap=True)
    for name in ("ours", "TRL", "ratio (min-max)", "by CPU", "tokens", *SHARES):
        table.add_column(name, justify="right", no_wrap=True)
    for each in figures:
        case, ours, theirs, ratio = each["case"], each["recollect"], each["trl"], each["ratio"]
        table.add_row(
            case["name"],
            f"{case['prompts']}x{case['rows']}x{case['tokens']} +{case['prompt_tokens']}",
            f"{ours['rollouts_per_s']['median']:.2f}",
            f"{theirs['rollouts_per_s']['median']:.2f}",
            f"{ratio['median']:.2f} ({ratio['min']:.2f}-{ratio['max']:.2f})",
            f"{each['ratio_cpu']['median']:.2f}",
            f"{each['ratio_of_tokens_computed']:.2f}",
            *(f"{100 * ours[f'{part}_share']:.1f}" for part in ("generation", "training", "rest")),
        )
    table.caption = (
        "step: prompts x rows x tokens + prompt tokens; tokens: ratio of tokens computed; "
        "shares are of our step"
    )
    return table


def choose(args: argparse.Namespace) -> list[Case]:
    """List the cases that were asked for."""
    cases = [case for case in CASES if args.case in (None, case.name)]
    if args.quick:
        cases = [replace(case, **SMALLER[case.name]) for case in cases if case.name in SMALLER]
    if args.rounds:
        cases = [replace(case, rounds=args.rounds) for case in cases]
    return cases


def check_trl() -> None:
    """Leave with a word on what to install where TRL is missing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import trl  # noqa: F401
    except ImportError as error:
        missing = MissingExtra("benchmarks/vs_trl.py", "bench")
        raise SystemExit(f"{missing} ({error})") from error


def main() -> None:
    """Run the cases, print the table, write benchmarks/results/vs_trl.json."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="smaller, two rounds, no results")
    parser.add_argument("--case", choices=[case.name for case in CASES])
    parser.add_argument("--rounds", type=int, help="counted rounds of each case")
    parser.add_argument("--threads", type=int, help="of torch, for both sides")
    args = parser.parse_args()
    cases = choose(args)
    if not cases:
        parser.error(f"the case {args.case} has no quick form")
    check_trl()
    if args.threads:
        torch.set_num_threads(args.threads)
    logging.disable_progress_bar()
    console, figures = Console(width=max(112, Console().width)), []
    with tempfile.TemporaryDirectory(prefix="recollect-vs-trl-") as folder:
        for case in cases:
            figures.append(run_case(case, Path(folder) / f"case-{case.name}", console))
    console.print(show(figures))
    if args.quick:
        return
    about = {"threads": torch.get_num_threads(), "load": os.getloadavg(), "cases": figures}
    console.print(f"written to {write_results('vs_trl', about, [SEED], PACKAGES)}")


if __name__ == "__main__":
    main()
