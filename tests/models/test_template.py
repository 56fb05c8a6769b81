"""Chat templates and tokenizers that are strange: refused with a reason, or read right."""

from __future__ import annotations

from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from recollect.envs.base import Opening, ToolSpec, system, tool, user
from recollect.errors import InvalidRecord, UnusableChatTemplate
from recollect.models.chat import Chat

from .tokenizers_for_tests import (
    make_tokenizer,
    shared_tokenizer,
    template,
    train_tokenizer,
    wrap,
)

SEAT = ToolSpec("seat", "Change a seat.")


def _chat(name: str) -> Chat:
    return Chat(shared_tokenizer(name))


# -- templates that cannot be used ---------------------------------------------------------

_END = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
_LOOP = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
) + _END


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it has none"),
        ("{{ messages[0].content }}" + _END, "drops or rewrites a message"),
        (_LOOP.replace("<|im_end|>", "\n"), "no special token ends"),
        ("{% for m in messages %}", "Unexpected end of template"),
        ("{{ raise_exception('go away') }}", "go away"),
        ("{{ 1 + 'a' }}", "unsupported operand"),
    ],
)
def test_a_template_that_is_useless_from_the_start(text: str, reason: str) -> None:
    with pytest.raises(UnusableChatTemplate, match=reason):
        Chat(make_tokenizer("chatml", text))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (_LOOP.replace("{{ m.content }}", "{{ m.content }} {{ m.content }}"), "repeats a turn"),
        (_LOOP.replace("messages %}", "messages|reverse %}", 1), "moves a user message"),
        (_LOOP.replace("messages %}", "messages if m.role != 'system' %}", 1), "drops, repeats"),
        (_LOOP.replace("m.role }}", "m.role }} {{ m.content|length }}", 1), "changes what is"),
        (_LOOP.replace("{{ m.content }}", "{{ m.content|upper }}"), "drops or rewrites"),
    ],
)
def test_a_template_that_loses_or_rewrites_messages_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UnusableChatTemplate, match=reason):
        Chat(make_tokenizer("chatml", text)).opening(Opening((system("Be brief."), user("hi"))))


def test_a_turn_that_ends_otherwise_in_the_middle_is_refused() -> None:
    text = _LOOP.replace("<|im_end|>\n", "{{ '<|im_end|>' if loop.last else '</s>' }}\n")
    chat = Chat(make_tokenizer("chatml", text))
    with pytest.raises(UnusableChatTemplate, match="differently when the conversation goes on"):
        chat.reply([user("hi")])


@pytest.mark.parametrize("name", ["gemma", "mistral"])
def test_a_template_that_knows_no_tools_says_so(name: str) -> None:
    with pytest.raises(UnusableChatTemplate, match="must alternate"):
        _chat(name).reply([tool("ok")])


def test_a_template_without_system_messages_says_so() -> None:
    with pytest.raises(UnusableChatTemplate, match="System role not supported"):
        _chat("gemma").opening(Opening((system("Be brief."), user("hi"))))


def test_messages_are_needed() -> None:
    for empty in (lambda c: c.opening(Opening(())), lambda c: c.reply([])):
        with pytest.raises(InvalidRecord, match="are missing"):
            empty(_chat("chatml"))


def test_several_templates_by_name() -> None:
    tokenizer = make_tokenizer("chatml")
    tokenizer.chat_template = {"default": template("chatml"), "tool_use": template("qwen2.5")}
    assert Chat(tokenizer).opening(Opening((user("hi"),), (SEAT,))) == _chat("chatml").opening(
        Opening((user("hi"),), (SEAT,))
    )


# -- tokenizers that put a space before a text ---------------------------------------------


def _sentencepiece(scheme: str) -> Any:
    """Make a tokenizer like Llama 2's, or like its older conversion."""
    backend = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    special = ["<unk>", "<s>", "</s>"]
    if scheme == "normalizer":
        backend.normalizer = normalizers.Sequence(
            [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        )
    else:
        backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    alphabet = ["▁", *map(chr, range(33, 127))]
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=[*special, *(f"<0x{n:02X}>" for n in range(256))],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    backend.train_from_iterator(["the user asks a thing"], trainer)
    return wrap(backend, template("zephyr"), "</s>")


@pytest.mark.parametrize("scheme", ["metaspace", "normalizer"])
def test_no_space_is_put_before_a_piece(scheme: str) -> None:
    chat = Chat(_sentencepiece(scheme))
    anchor = chat._encode("\n", True)
    for text in ("ask", " ask", "é\n", "the user"):
        assert chat.decode([*anchor, *chat.plain(text)]) == "\n" + text
        assert chat.spoken(text) == chat.plain(text)  # what a demo has the assistant say
    pieces = chat.opening(Opening((system("the thing"), user("ask"))))
    ids = [token for piece in pieces for token in piece.ids]
    wanted = "<|system|>\nthe thing</s>\n<|user|>\nask</s>\n<|assistant|>\n"
    assert chat.decode([*anchor, *ids]).replace("</s> ", "</s>") == "\n" + wanted


def test_a_byte_level_tokenizer_that_puts_a_space_before_a_text() -> None:
    backend = train_tokenizer(("<|im_start|>", "<|im_end|>"))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    chat = Chat(wrap(backend, template("chatml"), "<|im_end|>"))
    pieces = chat.opening(Opening((system("Be brief."), user("hi"))))
    text = chat.decode([token for piece in pieces for token in piece.ids])
    assert "system\nBe brief.<|im_end|>" in text  # spaces behind special tokens are its own
    assert "user\nhi<|im_end|>" in text


def test_a_tokenizer_that_does_not_give_back_its_text_is_refused() -> None:
    backend = train_tokenizer(("<|im_start|>", "<|im_end|>"))
    backend.normalizer = normalizers.Replace("a", "b")
    with pytest.raises(UnusableChatTemplate, match="does not give back the text"):
        Chat(wrap(backend, template("chatml"), "<|im_end|>"))
