"""A model's chat template, asked what it writes around messages.

A template is a program; the only way to know it is to run it. It is run on marks instead of
contents, and what stands around a mark is the frame of such a message. Whatever the marks cannot
show for certain (a message lost, repeated or moved, a turn without an end) is refused: a prompt
that is silently wrong would train a silently worse model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from recollect.envs.base import ToolSpec
from recollect.errors import UnusableChatTemplate
from recollect.types import SegmentKind

# Words that no template knows. The last bracket tells message 1 from message 10.
_MARK = "RECOLLECT[{}]"
_TURN = "RECOLLECT[turn]"
# Around a mark, what a template might trim or escape.
_NASTY = "\n \t{}\"\\'&<é\n \t"
_ROLES = {SegmentKind.NOTE: "system"}
# Stands in for today in templates that write the date: prompts must not change at midnight.
_FIXED_DATE = (
    "{%- macro strftime_now(pattern) -%}{{- pattern | replace('%d', '26') | replace('%b', 'Jul')"
    " | replace('%B', 'July') | replace('%m', '07') | replace('%Y', '2024') -}}{%- endmacro -%}"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """What a template knows of messages apart from their texts.

    `after_turn`: they answer a turn of the assistant instead of opening the conversation.
    `messages` are (kind, name).
    """

    after_turn: bool
    messages: tuple[tuple[SegmentKind, str], ...]
    tools: tuple[ToolSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class Outline:
    """What a template writes around the contents of a shape.

    `gaps` are the texts before, between and behind the contents, one more than there are
    messages. The last gap ends with the header of the assistant's turn, if the template has
    one. `ends` [messages] say what would stand behind each message if it were the last and
    nobody's turn. `is_verbatim`: contents stand in it as they are.
    """

    gaps: tuple[str, ...]
    ends: tuple[str, ...]
    is_verbatim: bool


class Template:
    """The chat template of a tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.text = _only_template(tokenizer)
        self._program = _FIXED_DATE + self.text if "strftime_now" in self.text else self.text
        self.knows_tools = self._probe_tools()

    def closing(self) -> str:
        """What is written behind a turn of the assistant that ends the conversation."""
        messages = [_message(SegmentKind.USER, "hi"), _message(SegmentKind.ASSISTANT, _TURN)]
        behind = _behind(_TURN, self._render(messages, (), False))
        if _TURN in behind:
            raise UnusableChatTemplate("it repeats a turn of the assistant")
        return behind

    def outline(self, shape: Shape) -> Outline:
        """Find what is written around the contents of messages of this shape."""
        marks = [_MARK.format(number) for number in range(len(shape.messages))]
        text = self._filled(shape, marks)
        nasty = [_NASTY.format(mark) for mark in marks]
        gaps = _split(text, marks, shape)
        return Outline(
            gaps=gaps,
            ends=tuple(self._end(shape, marks[: n + 1]) for n in range(len(marks))),
            is_verbatim=self._filled(shape, nasty) == _join(gaps, nasty),
        )

    def content(self, shape: Shape, outline: Outline, number: int, text: str) -> str:
        """Tell how the template writes a text as the content of one message of a shape."""
        marks = [_MARK.format(n) for n in range(len(shape.messages))]
        before = _join(outline.gaps[: number + 1], marks[:number])
        behind = _join(outline.gaps[number + 1 :], marks[number + 1 :])
        marks[number] = text
        filled = self._filled(shape, marks)
        middle = filled[len(before) : len(filled) - len(behind)]
        if filled != before + middle + behind:
            kind = shape.messages[number][0].value
            raise UnusableChatTemplate(f"the text of a {kind} message changes what is around it")
        return middle

    def _filled(self, shape: Shape, contents: Sequence[str], ask: bool = True) -> str:
        """Render the first messages of a shape with contents; what precedes them is left out."""
        named = zip(shape.messages[: len(contents)], contents, strict=True)
        messages = [_message(kind, content, name) for (kind, name), content in named]
        if not shape.after_turn:
            return self._render(messages, shape.tools, ask)
        past = [_message(SegmentKind.USER, "hi"), _message(SegmentKind.ASSISTANT, _TURN)]
        return _behind(_TURN, self._render(past + messages, shape.tools, ask))

    def _end(self, shape: Shape, marks: Sequence[str]) -> str:
        try:
            return _behind(marks[-1], self._filled(shape, marks, ask=False))
        except UnusableChatTemplate:  # some refuse or drop a system message without a question
            return self.closing()

    def _render(self, messages: list[dict[str, str]], tools: Sequence[ToolSpec], ask: bool) -> str:
        from jinja2.exceptions import TemplateError

        try:
            text: str = self._tokenizer.apply_chat_template(
                messages,
                chat_template=self._program,
                tools=[tool.schema() for tool in tools] or None,
                add_generation_prompt=ask,
                tokenize=False,
            )
        except (TemplateError, TypeError, ValueError, LookupError, AttributeError) as error:
            raise UnusableChatTemplate(str(error) or type(error).__name__) from error
        return text

    def _probe_tools(self) -> bool:
        tool = ToolSpec("recollect_probe", "")
        try:
            return tool.name in self._render([_message(SegmentKind.USER, "hi")], [tool], False)
        except UnusableChatTemplate:
            return False


def _only_template(tokenizer: Any) -> str:
    found = getattr(tokenizer, "chat_template", None)
    if isinstance(found, dict):  # several, by name; replies must come from the same as openings
        found = found.get("default")
    if not found:
        raise UnusableChatTemplate("it has none")
    return str(found)


def _message(kind: SegmentKind, content: str, name: str = "") -> dict[str, str]:
    message = {"role": _ROLES.get(kind, kind.value), "content": content}
    if name:
        message["name"] = name
    return message


def _behind(mark: str, text: str) -> str:
    _, found, behind = text.partition(mark)
    if not found:
        raise UnusableChatTemplate("it drops or rewrites a message")
    return behind


def _split(text: str, marks: Sequence[str], shape: Shape) -> tuple[str, ...]:
    gaps = []
    rest = text
    for mark, (kind, _) in zip(marks, shape.messages, strict=True):
        gap, found, rest = rest.partition(mark)
        if not found or text.count(mark) != 1:
            raise UnusableChatTemplate(f"it drops, repeats or moves a {kind.value} message")
        gaps.append(gap)
    return (*gaps, rest)


def _join(gaps: Sequence[str], contents: Sequence[str]) -> str:
    """Put contents between gaps, of which there is one more."""
    pairs = zip(gaps[:-1], contents, strict=True)
    return "".join([*(part for pair in pairs for part in pair), gaps[-1]])
