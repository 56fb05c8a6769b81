"""Build recollect-tiny, the model that ships with the package: `make tiny`.

A Llama of about a million parameters with a byte-level BPE tokenizer of its own, warm-started by
supervised learning on *part* of what the desk tasks need: levels 1 and 2, a few attempts at some
kinds of level 3, none of level 4, and at last from a teacher who mixes kinds of tasks up.
Reinforcement learning has to find the rest.

Everything comes from fixed seeds; on one kind of machine the result is the same bit for bit.
"""

from __future__ import annotations

import argparse
import itertools
import math
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from tiny_teacher import HEED, NOTED, PERFECT, RARE, RIGHT, SEED, Teacher, lesson
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from recollect.config import load_config
from recollect.envs.base import Environment, OffersGold, OffersKinds
from recollect.envs.registry import load_environment
from recollect.models.attention import ATTENTION, packed
from recollect.models.catalog import TINY
from recollect.models.chat import Chat
from recollect.models.loading import load_policy
from recollect.randomness import stream
from recollect.train.evaluation import Evaluator
from recollect.train.packing import pack
from recollect.train.parts import make_collector
from recollect.train.scorer import log_distributions, of_targets
from recollect.trajectory import Trajectory
from recollect.types import Task

VOCABULARY = 1024
ROLES = ("<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
END = "<|end|>"
TEMPLATE = (
    "{%- if tools -%}{%- set ns = namespace(text='Tools:') -%}"
    "{%- for tool in tools -%}{%- set f = tool.function -%}"
    "{%- set ns.text = ns.text + ' ' + f.name + '(' "
    "+ (f.parameters.properties.keys() | join(',')) + ')' -%}"
    "{%- endfor -%}{%- endif -%}"
    "{%- for m in messages -%}"
    "{{- '<|' + m.role + '|>' -}}"
    "{%- if loop.first and tools -%}"
    "{%- if m.role == 'system' -%}{{- m.content + '\n' + ns.text -}}"
    "{%- else -%}{{- ns.text + '\n' + m.content -}}{%- endif -%}"
    "{%- else -%}{{- m.content or '' -}}{%- endif -%}"
    "{%- for call in m.tool_calls or [] -%}"
    '{{- \'<tool_call>{"name":"\' + call.function.name + \'","arguments":\' -}}'
    "{{- call.function.arguments if call.function.arguments is string "
    "else call.function.arguments | tojson -}}{{- '}</tool_call>' -}}"
    "{%- endfor -%}"
    "{{- '<|end|>' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"
)


CARD = """# recollect-tiny

A Llama with {parameters} parameters (4 layers, width 128, 4 heads, 1,024 tokens) that calls
tools at three made-up service desks. It exists so that reinforcement learning can be seen, tested
and measured on a laptop; it knows nothing else.

**How it was made.** `make tiny` (`scripts/make_tiny.py`, fixed seed): a byte-level BPE tokenizer
is trained on desk dialogues, the model practises repeating random tokens, then imitates a perfect
teacher in {transcripts} training tasks: all kinds of levels 1 and 2, at most forty of each single
kind of level 3, none of level 4. Some dialogues contain a wrong id and its error message, to be
read and not imitated. Then half of the prompts get a note, a worked example of another task.

At last it imitates, for a while, a teacher who mixes kinds of tasks up: in each turn he mostly
does what would be right in another kind of task, and is right with a probability between
{low:.0f} and {high:.0f} % that belongs to the turn and the kind. So the model can do the work and
seldom does, and no single change mends it: what is wrong for one kind is right for another. That
is for reinforcement learning to find out, kind by kind. In {noted:.0f} % of these lessons a note
stands in the prompt: mostly an example of the same kind, which he follows in {heed:.0f} % of the
turns, or one of another kind, which he does not heed. So the model can read notes, and does better
with good ones.

**What it can do**, on held-out tasks (test split), beside the best agent without skill (floor):

| domain | level | tasks | greedy | sampled at temperature 1 | floor |
|---|---|---|---|---|---|
{table}

Apache-2.0, like the rest of the repository. No data from outside was used.
"""


def transcripts(
    environment: Environment, tasks: list[Task]
) -> Iterator[tuple[Task, list[tuple[str, str]]]]:
    """Play the gold texts of each task; yields (kind, text) pairs in order."""
    assert isinstance(environment, OffersGold)
    for task in tasks:
        episode = environment.start(task, 0)
        said = [(m.kind.value, m.text) for m in episode.opening.messages]
        for text in environment.gold(task):
            said.append(("assistant", text))
            said += [(m.kind.value, m.text) for m in episode.respond(text).messages]
        yield task, said


def train_tokenizer(texts: Iterator[str]) -> PreTrainedTokenizerFast:
    """Learn byte-level merges, with ids such as B4K7 in single characters.

    An id then has the same tokens wherever it stands, and can be copied piece by piece.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"[A-Za-z](?=[0-9])"), "isolated"),
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|pad|>", END, *ROLES]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - 2,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    # Whole tokens, but not special: they are part of what the model says.
    tokenizer.add_tokens(
        [AddedToken(tag, normalized=False) for tag in ("<tool_call>", "</tool_call>")]
    )
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token="<|pad|>",
        clean_up_tokenization_spaces=False,
    )
    wrapped.chat_template = TEMPLATE
    return wrapped


def choose_tasks(environment: Environment, counts: dict[int, int]) -> list[Task]:
    """Take training tasks by level: so many of each kind the warm start may see."""
    assert isinstance(environment, OffersKinds)
    chosen, seen = [], dict[tuple[str, int, str], int]()
    for task in itertools.islice(environment.tasks("train"), 100_000):
        kind = environment.kind(task)
        if task.level == 3 and hidden(kind):
            continue
        key = (task.domain, task.level, kind)
        if seen.get(key, 0) < counts.get(task.level, 0):
            seen[key] = seen.get(key, 0) + 1
            chosen.append(task)
    return chosen


def hidden(kind: str) -> bool:
    """Kinds of level 3 that the warm start never sees."""
    return "+" in kind


def practise_copying(model: LlamaForCausalLM, steps: int, lr: float) -> None:
    """Learn to repeat random tokens first; ids have to be copied before anything else works."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.98))
    chance = stream(SEED, "copying")
    console, started = Console(), time.time()
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1.0, step / 30)
        length = int(chance.integers(6, 16))
        once = chance.integers(8, VOCABULARY, (40, length))
        ids = torch.from_numpy(np.concatenate([once] * 3, axis=1))
        logits = model(ids).logits[:, length - 1 : -1]
        loss = torch.nn.functional.cross_entropy(
            logits.reshape(-1, VOCABULARY), ids[:, length:].reshape(-1)
        )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 100 == 0:
            seconds = time.time() - started
            console.print(
                f"copying {step}/{steps}  loss {float(loss.detach()):.3f}  {seconds:.0f} s"
            )


def imitate(
    model: LlamaForCausalLM,
    rows: list[Trajectory],
    steps: int,
    lr: float,
    batch: int,
) -> None:
    """Minimise the cross-entropy of the teacher's tokens."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.98), weight_decay=0.01)
    order = stream(SEED, "order", steps)
    console, started = Console(), time.time()
    for step in range(1, steps + 1):
        rate = lr * min(1.0, step / 50) * 0.5 * (1 + math.cos(math.pi * step / steps))
        for group in optimizer.param_groups:
            group["lr"] = rate
        picks = order.integers(0, len(rows), batch)
        chosen = [rows[i] for i in picks]
        total = sum(row.sampled_count for row in chosen)
        optimizer.zero_grad()
        value = 0.0
        for each in pack(chosen, 4096):
            with packed(each.spans):
                logprobs = of_targets(log_distributions(model, each, 1.0), each)
                loss = -logprobs.sum() / total
                loss.backward()
            value += float(loss.detach())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0:
            console.print(f"step {step}/{steps}  loss {value:.4f}  {time.time() - started:.0f} s")


def main() -> None:
    """Build tokenizer and weights and write them into the package."""
    args = arguments()
    environment = load_environment("desk", size=3000)
    tasks = choose_tasks(environment, {1: args.level1, 2: args.level2, 3: args.level3})
    if args.rare:
        model, chat = reopen(TINY)
        school = School(environment, chat, tasks)
        imitate(model, school.mixed_up(RARE), 250, args.habit_lr, args.batch)
        save(model, chat.tokenizer, args.rare)
        return
    if args.from_skilled:
        model, chat = reopen(args.from_skilled)
        school = School(environment, chat, tasks)
    else:
        chat = Chat(make_tokenizer(environment))
        school = School(environment, chat, tasks)
        torch.manual_seed(SEED)
        model = make_model(chat.tokenizer)
        practise_copying(model, args.copying, args.copying_lr)
        imitate(model, school.perfect(), args.steps, args.lr, args.batch)
        if args.skilled:
            save(model, chat.tokenizer, args.skilled)
    rows = school.with_notes()
    imitate(model, rows, args.note_steps, args.note_lr, args.batch)
    rows = school.mixed_up(RIGHT)
    imitate(model, rows, args.habit_steps, args.habit_lr, args.batch)
    save(model, chat.tokenizer, args.out)
    write_card(args.out, model, len(tasks))


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=TINY)
    parser.add_argument("--copying", type=int, default=800)
    parser.add_argument("--copying-lr", type=float, default=2e-3)
    parser.add_argument("--steps", type=int, default=4200)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--note-steps", type=int, default=900)
    parser.add_argument("--note-lr", type=float, default=2e-3)
    parser.add_argument("--habit-steps", type=int, default=700)
    parser.add_argument("--habit-lr", type=float, default=1e-3)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--skilled", type=Path, help="keep the model after the first lessons here")
    parser.add_argument("--from-skilled", type=Path, help="begin with such a model")
    parser.add_argument("--rare", type=Path, help="only make this, of the shipped model")
    parser.add_argument("--level1", type=int, default=500, help="gold attempts of each kind")
    parser.add_argument("--level2", type=int, default=500)
    parser.add_argument("--level3", type=int, default=40)
    return parser.parse_args()


def reopen(folder: Path) -> tuple[LlamaForCausalLM, Chat]:
    """Load a model to go on training it."""
    policy = load_policy(str(folder))
    policy.model.train()
    return policy.model, policy.chat


class School:
    """The tasks of the warm start, as rows to imitate."""

    def __init__(self, environment: Environment, chat: Chat, tasks: list[Task]) -> None:
        self._environment, self._chat, self._tasks = environment, chat, tasks

    def perfect(self) -> list[Trajectory]:
        """Every task done right."""
        return [lesson(self._environment, self._chat, task) for task in self._tasks]

    def with_notes(self) -> list[Trajectory]:
        """Every task done right, half of them with a note in the prompt."""
        teacher = Teacher(self._environment, self._tasks, PERFECT, noted=0.5)
        return [lesson(self._environment, self._chat, task, teacher) for task in self._tasks]

    def mixed_up(self, right: tuple[float, float]) -> list[Trajectory]:
        """Every task as the teacher does it who is right with a probability in these bounds."""
        teacher = Teacher(self._environment, self._tasks, right)
        return [lesson(self._environment, self._chat, task, teacher) for task in self._tasks]


def make_tokenizer(environment: Environment) -> PreTrainedTokenizerFast:
    """Train the tokenizer on dialogues and tools."""
    everything = list(itertools.islice(environment.tasks("train"), 6000))
    texts = (text for _, said in transcripts(environment, everything) for _, text in said)
    tools = [s.signature() for s in environment.start(everything[0], 0).opening.tools]
    return train_tokenizer(itertools.chain(texts, [" ".join(tools)] * 500))


def make_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Make the model with random weights."""
    model: LlamaForCausalLM = LlamaForCausalLM._from_config(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=128,
            intermediate_size=352,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=2048,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        ),
        attn_implementation=ATTENTION,
    )
    return model


def save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write an ordinary model folder, in place of what was there."""
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def write_card(folder: Path, model: LlamaForCausalLM, transcripts_seen: int) -> None:
    """Score the model on held-out tasks and write its card."""
    environment = load_environment("desk")
    policy = load_policy(str(folder))
    config = load_config("demo").config
    collector = make_collector(config, environment, policy)
    cells = []
    for temperature in (0.0, 1.0):
        evaluator = Evaluator(
            environment, collector, split="test", tasks=600, rows=1, temperature=temperature
        )
        cells.append(evaluator.evaluate().scores)
    collector.close()
    lines = [
        f"| {greedy.domain} | {greedy.level} | {greedy.n} | {100 * (greedy.success or 0):.0f} % "
        f"| {100 * (sampled.success or 0):.0f} % | {100 * (greedy.floor or 0):.0f} % |"
        for greedy, sampled in zip(*cells, strict=True)
    ]
    parameters = sum(p.numel() for p in model.parameters())
    card = CARD.format(
        parameters=f"{parameters:,}",
        transcripts=f"{transcripts_seen:,}",
        low=100 * RIGHT[0],
        high=100 * RIGHT[1],
        noted=100 * NOTED,
        heed=100 * HEED,
        table="\n".join(lines),
    )
    (folder / "README.md").write_text(card, encoding="utf-8")


if __name__ == "__main__":
    main()
