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
import shutil
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from transformers.utils import logging

from recollect.config.schema.config import Config
from recollect.envs.base import Opening, user
from recollect.errors import MissingExtra
from recollect.models.chat import Chat
from recollect.models.loading import TINY
from recollect.rollout.collector import Collector
from recollect.rollout.episode import Limits
from recollect.rollout.sampler import Row, Sampler
from recollect.telemetry.events import Event, PhaseStarted, StepFinished
from recollect.train.folder import create_run
from recollect.train.loop import train
from recollect.train.session import Session, open_session
from recollect.types import Sampling
from results_file import spread, write_results

SEED = 0
LEARNING_RATE = 1e-5
VOCABULARY = 8192  # of the 30M model
PACKAGES = ("torch", "transformers", "trl", "accelerate", "numpy")
SLACK = 16  # tokens that a prompt may be longer than wanted
SHARES = ("gen %", "train %", "rest %")
WORDS = ("change", "a", "seat", "on", "booking", "and", "tell", "the", "price", "of", "bags")


@dataclass(frozen=True)
class Case:
    """What both sides do in a step. `trl_rows` is how many rows TRL trains on at a time."""

    name: str
    model: str
    prompts: int
    rows: int
    tokens: int
    prompt_tokens: int
    trl_rows: int
    rounds: int

    @property
    def step_rows(self) -> int:
        """Rollouts of a step."""
        return self.prompts * self.rows

    @property
    def work(self) -> float:
        """Ratio of tokens that go through the model (a trained one counts three times).

        TRL reads the prompt in every row; we read it once for a group, in generation and in
        training. Where matrix products are all that counts, this is the ratio to expect.
        """
        answers = self.step_rows * (self.tokens - 1)  # the last token is never read
        ours = answers + self.prompts * self.prompt_tokens
        theirs = answers + self.step_rows * self.prompt_tokens
        return (theirs + 3 * (theirs + self.step_rows)) / (ours + 3 * ours)


CASES = (
    Case("tiny", "tiny", 8, 8, 64, 24, trl_rows=16, rounds=9),
    Case("30M", "30M", 4, 8, 48, 24, trl_rows=16, rounds=5),
    Case("tiny-long", "tiny", 8, 8, 64, 1000, trl_rows=8, rounds=5),
    Case("30M-long", "30M", 2, 8, 48, 1000, trl_rows=4, rounds=3),
)
# The same, small enough for a look on a busy machine.
SMALLER = {
    "tiny": {"rounds": 2},
    "30M": {"prompts": 2, "tokens": 16, "trl_rows": 16, "rounds": 2},
    "tiny-long": {"prompts": 2, "tokens": 32, "rounds": 2},
}


@dataclass(frozen=True)
class Step:
    """One training step of either side: by the clock, in CPU seconds, and what it went into."""

    seconds: float
    cpu: float
    generation: float
    training: float
    tokens: int

    @property
    def rest(self) -> float:
        """Seconds that were neither generation nor training."""
        return self.seconds - self.generation - self.training


def reward(text: str, fields: object) -> float:
    """Judge an answer by a checksum: cheap, the same for both, never the same for a group."""
    return sum(text.encode()) % 997 / 996


class Stopwatch:
    """Clock and CPU seconds since it was made."""

    def __init__(self) -> None:
        self._clock, self._cpu = time.perf_counter(), time.process_time()

    @property
    def seconds(self) -> float:
        """By the clock."""
        return time.perf_counter() - self._clock

    @property
    def cpu(self) -> float:
        """CPU seconds of all threads."""
        return time.process_time() - self._cpu


# -- model and prompts ---------------------------------------------------------------------------


def make_model(name: str, folder: Path) -> Path:
    """Put the weights that both sides start from into a folder."""
    target = folder / name
    if name == "tiny":
        shutil.copytree(TINY, target)
        return target
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(TINY)
    tokenizer.add_tokens([f"<w{number}>" for number in range(VOCABULARY - len(tokenizer))])
    torch.manual_seed(SEED)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=512,
            intermediate_size=1376,
            num_hidden_layers=8,
            num_attention_heads=8,
            max_position_embeddings=2048,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
    return target


def make_prompts(case: Case, tokenizer: Any) -> tuple[list[str], list[str]]:
    """Write prompts of at least the wanted size: as messages, and as the model reads them."""
    chat = Chat(tokenizer)
    plain, rendered = [], []
    for number in range(case.prompts):
        words = [f"Task {number}:"]
        while len(_prompt_ids(chat, " ".join(words))) < case.prompt_tokens:
            words.append(WORDS[(len(words) * (number + 1)) % len(WORDS)])
        text = " ".join(words)
        message = [{"role": "user", "content": text}]
        full = tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
        if tokenizer(full)["input_ids"] != _prompt_ids(chat, text):
            raise SystemExit("The two sides would read different prompt tokens.")
        plain.append(text)
        rendered.append(full)
    return plain, rendered


def _prompt_ids(chat: Chat, text: str) -> list[int]:
    return [token for piece in chat.opening(Opening((user(text),))) for token in piece.ids]


# -- TRL -----------------------------------------------------------------------------------------


class Trl:
    """A GRPOTrainer that makes one step at a time, keeping its optimiser."""

    def __init__(self, case: Case, model: Path, prompts: list[str], folder: Path) -> None:
        from datasets import Dataset
        from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback
        from trl import GRPOTrainer

        self._case = case
        self._done: Step | None = None
        self.model = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        self._trainer = GRPOTrainer(
            model=self.model,
            args=_trl_settings(case, folder),
            processing_class=AutoTokenizer.from_pretrained(model),
            train_dataset=Dataset.from_dict({"prompt": prompts}),
            reward_funcs=self._judge,
            callbacks=[_trl_callback(self._begin, self._end)],
        )
        self._trainer.remove_callback(PrinterCallback)

    def step(self) -> Step:
        """Make one training step."""
        self._done = None
        self._trainer.train()
        if self._done is None:
            raise SystemExit("TRL made no step.")
        return self._done

    def _begin(self) -> None:
        self._watch = Stopwatch()

    def _judge(
        self, completions: list[str], completion_ids: list[list[int]], **_: object
    ) -> list[float]:
        """Reward function; it is called between generation and training, and so divides them."""
        self._generation = self._watch.seconds
        rewards = [reward(text, {}) for text in completions]
        size = self._case.rows
        groups = [set(rewards[at : at + size]) for at in range(0, len(rewards), size)]
        if min(map(len, groups)) < 2 or len(rewards) != self._case.step_rows:
            raise SystemExit("TRL has a group without signal, or another number of rows.")
        self._tokens = sum(map(len, completion_ids))
        return rewards

    def _end(self) -> None:
        seconds = self._watch.seconds
        training = seconds - self._generation
        self._done = Step(seconds, self._watch.cpu, self._generation, training, self._tokens)


def _trl_settings(case: Case, folder: Path) -> Any:
    """TRL's fastest sensible settings on a CPU; the top of the file has the reasons."""
    from trl import GRPOConfig

    return GRPOConfig(
        output_dir=str(folder),
        seed=SEED,
        use_cpu=True,
        bf16=False,
        fp16=False,
        gradient_checkpointing=False,
        per_device_train_batch_size=case.trl_rows,
        gradient_accumulation_steps=case.step_rows // case.trl_rows,
        num_generations=case.rows,
        max_completion_length=case.tokens,
        generation_kwargs={"min_new_tokens": case.tokens},
        max_steps=1,  # per call of train()
        num_iterations=1,
        beta=0.0,
        loss_type="grpo",
        scale_rewards="group",
        optim="adamw_torch_fused",
        learning_rate=LEARNING_RATE,
        lr_scheduler_type="constant",
        weight_decay=0.0,
        max_grad_norm=1.0,
        use_vllm=False,
        torch_compile=False,
        dataloader_num_workers=0,
        dataloader_pin_memory=False,
        logging_strategy="no",
        save_strategy="no",
        eval_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )


def _trl_callback(begin: Callable[[], None], end: Callable[[], None]) -> Any:
    from transformers import TrainerCallback

    class Times(TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, *_: object, **__: object) -> None:
            begin()

        def on_step_end(self, *_: object, **__: object) -> None:
            end()

    return Times()


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
                "options": {"reward": f"{__file__}:reward", "split_field": "split"},
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


def fix_length(session: Session, case: Case) -> TimedSampler:
    """Give a session a collector whose answers all have the same length, and its sampler.

    The sampler stops at no token, and the chat takes any token for the end of an answer.
    """
    policy, rollout = session.learner.policy, session.config.rollout
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
        before = [_weights(session.learner.policy.model), _weights(other.model)]
        outcome = train(session)
        moved = [
            _moved(before[0], session.learner.policy.model),
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
