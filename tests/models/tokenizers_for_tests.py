"""Real byte-level tokenizers, small, with the chat templates that models in the world carry."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

_FOLDER = Path(__file__).parent / "templates"
_TEXT = (
    "You are a helpful assistant. The user asks, the tool answers: {} [] <> | / end start im "
    "system user assistant tool\nCancel my flight B4K7, please.\n\nDone!  Seat 12A is yours. "
    '{"name": "seat", "arguments": {"id": "B4K7"}}'
)

# name of the template: special tokens, then ordinary added tokens, then begin and end of text
_TOKENS: dict[str, tuple[tuple[str, ...], tuple[str, ...], str | None, str]] = {
    "chatml": (("<|im_start|>", "<|im_end|>", "<|endoftext|>"), (), None, "<|im_end|>"),
    "smollm2": (("<|im_start|>", "<|im_end|>", "<|endoftext|>"), (), None, "<|im_end|>"),
    "qwen2.5": (
        ("<|im_start|>", "<|im_end|>", "<|endoftext|>"),
        ("<tool_call>", "</tool_call>"),
        None,
        "<|im_end|>",
    ),
    "qwen3": (
        ("<|im_start|>", "<|im_end|>", "<|endoftext|>"),
        ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>"),
        None,
        "<|im_end|>",
    ),
    "llama3": (
        (
            "<|begin_of_text|>",
            "<|end_of_text|>",
            "<|start_header_id|>",
            "<|end_header_id|>",
            "<|eot_id|>",
        ),
        (),
        "<|begin_of_text|>",
        "<|eot_id|>",
    ),
    "gemma": (("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"), (), "<bos>", "<eos>"),
    "phi3": (
        ("<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|end|>", "<|endoftext|>"),
        (),
        None,
        "<|endoftext|>",
    ),
    "mistral": (("<s>", "</s>", "[INST]", "[/INST]"), (), "<s>", "</s>"),
    "zephyr": (("<s>", "</s>"), (), "<s>", "</s>"),
}
TEMPLATES = tuple(_TOKENS)


def template(name: str) -> str:
    """Read a chat template."""
    return (_FOLDER / f"{name}.jinja").read_text(encoding="utf-8")


def train_tokenizer(special: tuple[str, ...], words: int = 300) -> Tokenizer:
    """Train a byte-level tokenizer on a few lines; deterministic."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=words,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([_TEXT], trainer)
    return tokenizer


def wrap(backend: Tokenizer, chat_template: str, eos: str, bos: str | None = None) -> Any:
    """Wrap a tokenizer as transformers loads it."""
    if bos:  # as real ones do: a text tokenised by itself gets a beginning
        backend.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, backend.token_to_id(bos))]
        )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=eos, bos_token=bos)
    tokenizer.chat_template = chat_template
    return tokenizer


def make_tokenizer(name: str, text: str | None = None) -> Any:
    """Make a tokenizer with one of the templates, or with another text for it."""
    special, added, bos, eos = _TOKENS[name]
    backend = train_tokenizer(special)
    backend.add_tokens(list(added))
    return wrap(backend, template(name) if text is None else text, eos, bos)


@cache
def shared_tokenizer(name: str) -> Any:
    """Make a tokenizer that no test changes."""
    return make_tokenizer(name)
