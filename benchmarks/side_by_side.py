"""What both sides of vs_trl share: how a step is timed, the model, the prompts, the reward."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from recollect.envs.base import Opening, user
from recollect.models.catalog import TINY
from recollect.models.chat import Chat

SEED = 0
LEARNING_RATE = 1e-5
VOCABULARY = 8192  # of the 30M model
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
