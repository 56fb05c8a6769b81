"""Turning messages into tokens, piece by piece.

A prompt is a concatenation of separately tokenised pieces, one per message, so that a piece
can be dropped as a span of tokens, exactly. What a message says is plain text: a special token
written inside it is spelled out, never obeyed. Only the model's own chat template contributes
special tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from recollect.canonical import digest
from recollect.envs.base import Message, Opening, ToolSpec
from recollect.envs.tools import with_signatures
from recollect.errors import InvalidRecord, UnusableChatTemplate
from recollect.models.template import Outline, Shape, Template
from recollect.types import SegmentKind

# Texts up to this many characters are worth remembering: tool answers repeat, essays do not.
_SHORT = 1000
# Stands before a text whose tokenizer would otherwise put a space there; merges with nothing.
_ANCHOR = "\n"


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens with one author, and the readable text they came from."""

    kind: SegmentKind
    text: str
    ids: tuple[int, ...]
    name: str = ""


@dataclass(frozen=True, slots=True)
class _Frames:
    """Tokens before and after each content of a shape, and of the header that follows."""

    around: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    header: tuple[int, ...]
    outline: Outline


class Chat:
    """A tokenizer with its chat template, as the rest of Recollect sees them.

    Promises: `opening` and `reply` end with the header after which the assistant speaks (an
    assistant piece, not sampled); the same messages always give the same tokens; a turn of the
    assistant ends with one of `stop_ids`, which the model samples itself; a template that
    would lose, repeat or move a message is refused. `stop_ids` adds tokens that end a turn to
    those of the template and the tokenizer. Not for use by several threads at once.
    """

    def __init__(self, tokenizer: Any, stop_ids: Sequence[int] = ()) -> None:
        self.tokenizer = tokenizer
        self._template = Template(tokenizer)
        self._special_ids = _special_ids(tokenizer)
        self._anchor = self._find_anchor()
        self._stop = self._find_stop()
        eos = tokenizer.eos_token_id
        stops = {self._stop, *stop_ids, *(() if eos is None else (int(eos),))}
        self.stop_ids = tuple(sorted(stops))
        self._short = lru_cache(maxsize=8192)(self._encode_plain)
        self._frames = lru_cache(maxsize=1024)(self._find_frames)

    @property
    def stop_id(self) -> int:
        """The token with which the template itself ends a turn of the assistant."""
        return self._stop

    @property
    def fingerprint(self) -> str:
        """Identify tokenizer and template: rows with another fingerprint do not train here."""
        words = sorted((index, word) for word, index in self.tokenizer.get_vocab().items())
        flat = [part for pair in words for part in pair]
        return digest("chat", self._template.text, *flat)

    def opening(
        self, opening: Opening, notes: Sequence[str] = (), place: Literal["user", "system"] = "user"
    ) -> list[Piece]:
        """Tokenise what the agent reads before its first word.

        `notes` are appended, each as a piece of its own, to the last message or to the system
        message (where there is one). Without those pieces the tokens are exactly those of the
        opening without notes.
        """
        messages, tools = opening.messages, tuple(opening.tools)
        if not self._template.knows_tools:
            messages, tools = with_signatures(opening), ()
        at = len(messages) - 1
        if place == "system":
            kinds = [message.kind for message in messages]
            at = kinds.index(SegmentKind.SYSTEM) if SegmentKind.SYSTEM in kinds else at
        return self._pieces(False, messages, tools, notes, at)

    def reply(self, messages: Sequence[Message]) -> list[Piece]:
        """Tokenise what the environment says after a turn of the assistant.

        The first piece begins with whatever the template puts behind the stop token.
        """
        return self._pieces(True, messages, ())

    def decode(self, ids: Sequence[int]) -> str:
        """Turn sampled tokens into the text that the environment gets."""
        text: str = self.tokenizer.decode(
            list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return text

    def plain(self, text: str) -> tuple[int, ...]:
        """Tokenise text in which nothing is special."""
        return self._short(text) if len(text) <= _SHORT else self._encode_plain(text)

    # -- frames ---------------------------------------------------------------------------

    def _pieces(
        self,
        after_turn: bool,
        messages: Sequence[Message],
        tools: tuple[ToolSpec, ...],
        notes: Sequence[str] = (),
        at: int = -1,
    ) -> list[Piece]:
        if not messages:
            raise InvalidRecord("messages", "are missing: the agent needs something to answer")
        shape = Shape(after_turn, tuple((m.kind, m.name) for m in messages), tools)
        frames = self._frames(shape)
        pieces = []
        held: tuple[int, ...] = ()  # the end of a message whose text is followed by notes
        for number, message in enumerate(messages):
            text = message.text
            if text and not frames.outline.is_verbatim:
                text = self._template.content(shape, frames.outline, number, text)
            left, right = frames.around[number]
            is_guided = bool(notes) and number == at
            ids = (*held, *left, *self.plain(text), *(() if is_guided else right))
            pieces.append(Piece(message.kind, message.text, ids, message.name))
            held = right if is_guided else ()
            if is_guided:
                pieces += [Piece(SegmentKind.NOTE, note, self.plain(note)) for note in notes]
        pieces.append(Piece(SegmentKind.ASSISTANT, "", (*held, *frames.header)))
        return pieces

    def _find_frames(self, shape: Shape) -> _Frames:
        """Tokenise what the template writes around contents.

        A gap between two contents is divided where the first message would have ended by
        itself. It is divided in tokens, so that no special token is ever cut.
        """
        for text in _spoken_by_template(shape):
            if self._special_ids.intersection(self._encode_framed(text)):
                raise InvalidRecord("name", f"{text[:60]!r} holds a special token of the model")
        outline = self._template.outline(shape)
        gaps = [self._encode_framed(gap) for gap in outline.gaps]
        left = self._behind_stop(gaps[0]) if shape.after_turn else gaps[0]
        around = []
        for gap, end in zip(gaps[1:], outline.ends, strict=True):
            cut = _common(gap, self._encode_framed(end))
            around.append((left, gap[:cut]))
            left = gap[cut:]
        return _Frames(tuple(around), left, outline)

    def _behind_stop(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        if self._stop not in ids:
            raise UnusableChatTemplate("it ends a turn differently when the conversation goes on")
        return ids[ids.index(self._stop) + 1 :]

    def _find_stop(self) -> int:
        """Find the token that ends a turn of the assistant."""
        added = {*self._special_ids, *getattr(self.tokenizer, "added_tokens_decoder", ())}
        for token in self._encode_framed(self._template.closing()):
            if token in added:
                return token
        raise UnusableChatTemplate("no special token ends the assistant's turn")

    def spoken(self, text: str) -> tuple[int, ...]:
        """Tokenise what the assistant says as it stands in the middle of a conversation."""
        return self._encode_framed(text)

    # -- tokens ---------------------------------------------------------------------------

    def _encode_framed(self, text: str) -> tuple[int, ...]:
        return self._anchored(text, split_special=False) if text else ()

    def _encode_plain(self, text: str) -> tuple[int, ...]:
        return self._anchored(text, split_special=True) if text else ()

    def _anchored(self, text: str, *, split_special: bool) -> tuple[int, ...]:
        if not self._anchor:
            return self._encode(text, split_special)
        ids = self._encode(_ANCHOR + text, split_special)
        if ids[: len(self._anchor)] != self._anchor:
            raise UnusableChatTemplate("its tokenizer changes a text with what stands before it")
        return ids[len(self._anchor) :]

    def _find_anchor(self) -> tuple[int, ...]:
        """Find out whether a text needs something before it to be tokenised as in the middle."""
        alone, anchor = self._encode("a", True), self._encode(_ANCHOR, True)
        joined = self._encode(_ANCHOR + "a", True)
        if joined != (*anchor, *alone) and joined[: len(anchor)] == anchor:
            return anchor
        if self.decode(alone) != "a":
            raise UnusableChatTemplate("its tokenizer does not give back the text it was given")
        return ()

    def _encode(self, text: str, split_special: bool) -> tuple[int, ...]:
        encoded = self.tokenizer(
            text, add_special_tokens=False, split_special_tokens=split_special, verbose=False
        )
        return tuple(map(int, encoded["input_ids"]))


def _special_ids(tokenizer: Any) -> frozenset[int]:
    added = getattr(tokenizer, "added_tokens_decoder", {})
    flagged = (index for index, token in added.items() if token.special)
    return frozenset([*flagged, *tokenizer.all_special_ids])


def _spoken_by_template(shape: Shape) -> Iterator[str]:
    """Yield texts that an environment chose and the template writes into a frame."""
    yield from (name for _, name in shape.messages if name)
    for tool in shape.tools:
        yield from (tool.name, tool.description, tool.given)
        for parameter in tool.parameters:
            yield from (parameter.name, parameter.description, *parameter.choices)


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    """Count the leading tokens that two sequences share."""
    pairs = enumerate(zip(first, second, strict=False))  # the shorter one decides
    return next((n for n, (a, b) in pairs if a != b), min(len(first), len(second)))
