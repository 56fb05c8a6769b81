"""YAML as configuration needs it: with line numbers, without surprises.

Of YAML this reads mappings, lists and scalars. Keys given twice, anchors and aliases, tags and
several documents in one file are refused. Nothing is ever constructed but plain values, and
size and depth are bounded before anything is built.
"""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from recollect.canonical import Json, is_text
from recollect.config.scalars import BadScalar, parse_scalar
from recollect.config.tree import MAX_DEPTH, Branch, Leaf, Node, Source, plain, shortened
from recollect.errors import BadConfigFile

MAX_BYTES = 256 * 1024

_ANCHOR_HINT = "Write the value out wherever it is needed."


def parse_yaml(text: str, source: Source) -> Branch:
    """Read a file's text: a mapping at the top, or nothing at all.

    Raises BadConfigFile, naming the line, for anything else.
    """
    node = _Reader(text, source).document()
    if isinstance(node, Branch):
        return node
    if node.value is None:
        return Branch({}, source)
    raise BadConfigFile(
        node.source.text,
        f"expected sections with settings below them, found {shortened(repr(node.value))}",
        'Begin with a section, such as "run:", and indent its settings below it.',
    )


def parse_value(text: str, source: Source) -> Node:
    """Read one value that stands alone, such as a list in square brackets."""
    return _Reader(text, source).document()


def decode_yaml(raw: bytes, source: Source) -> str:
    """Turn a file's bytes into text, refusing too many of them and what is not UTF-8."""
    if len(raw) > MAX_BYTES:
        what = f"is larger than {MAX_BYTES // 1024} kB, too large for a configuration"
        raise BadConfigFile(source.text, what, "Name the YAML file of the run.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise BadConfigFile(
            source.at(line).text, "is not UTF-8 text", "Save the file as UTF-8."
        ) from error


class _Reader:
    """Builds the tree from YAML's events, one after the other."""

    def __init__(self, text: str, source: Source) -> None:
        self._text = text
        self._source = source
        self._events = self._guarded()

    def document(self) -> Node:
        """Read the one document there is; an empty text is null."""
        self._next()  # the stream's start
        event = self._next()
        if isinstance(event, yaml.StreamEndEvent):
            return Leaf(None, self._source)
        node = self._node(self._next(), 0)
        self._next()  # the document's end
        event = self._next()
        if not isinstance(event, yaml.StreamEndEvent):
            raise self._bad(event, "a second document begins", "Keep one document in a file.")
        return node

    def _guarded(self) -> Iterator[yaml.Event]:
        """Yield events; whatever PyYAML raises on odd text becomes a BadConfigFile."""
        try:
            yield from yaml.parse(self._text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = self._source.at(mark.line + 1) if mark else self._source
            why = error.problem or error.context or "it cannot be read"
            raise BadConfigFile(
                place.text, f"is not valid YAML: {why}", "Check indentation, colons and quotes."
            ) from error
        except yaml.reader.ReaderError as error:
            line = self._text.count("\n", 0, error.position) + 1
            what = "holds a character that YAML does not allow"
            raise BadConfigFile(self._source.at(line).text, what, "Remove it.") from error
        except (ValueError, OverflowError) as error:  # escapes such as "\UFFFFFFFF"
            raise BadConfigFile(
                self._source.text, f"is not valid YAML: {error}", "Check escapes in quotes."
            ) from error

    def _next(self) -> yaml.Event:
        return next(self._events)

    def _node(self, event: yaml.Event, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self._bad(event, f"is nested deeper than {MAX_DEPTH} levels", "Flatten it.")
        if isinstance(event, yaml.AliasEvent):
            raise self._bad(event, f"uses the alias *{shortened(str(event.anchor))}", _ANCHOR_HINT)
        if getattr(event, "anchor", None) is not None:
            raise self._bad(event, "defines an anchor (&)", _ANCHOR_HINT)
        if getattr(event, "tag", None) is not None:
            raise self._bad(event, "uses a tag (!)", "Write the plain value without it.")
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(event, depth)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(event, depth)
        assert isinstance(event, yaml.ScalarEvent)
        return Leaf(self._scalar(event), self._place(event))

    def _mapping(self, start: yaml.Event, depth: int) -> Branch:
        entries: dict[str, Node] = {}
        event = self._next()
        while not isinstance(event, yaml.MappingEndEvent):
            key = self._key(event)
            if key in entries:
                first = entries[key].source.line
                what = f"the key {shortened(key)!r} is given twice, first in line {first}"
                raise self._bad(event, what, "Keep one of them.")
            node = self._node(self._next(), depth + 1)
            # People look for the line of the key, wherever the value begins.
            at = self._place(event)
            entries[key] = (
                Leaf(node.value, at) if isinstance(node, Leaf) else Branch(node.entries, at)
            )
            event = self._next()
        return Branch(entries, self._place(start))

    def _key(self, event: yaml.Event) -> str:
        if not isinstance(event, yaml.ScalarEvent) or event.anchor or event.tag:
            raise self._bad(event, "a key must be a word", "Put the name of a setting before ':'.")
        return self._text_of(event)

    def _sequence(self, start: yaml.Event, depth: int) -> Leaf:
        items: list[Json] = []
        event = self._next()
        while not isinstance(event, yaml.SequenceEndEvent):
            items.append(plain(self._node(event, depth + 1)))
            event = self._next()
        return Leaf(items, self._place(start))

    def _scalar(self, event: yaml.ScalarEvent) -> Json:
        text = self._text_of(event)
        if event.style is not None:  # quoted, or a block of text
            return text
        try:
            return parse_scalar(text)
        except BadScalar as error:
            raise self._bad(
                event, str(error), "Put it in quotes if it is meant as text."
            ) from error

    def _text_of(self, event: yaml.ScalarEvent) -> str:
        text: str = event.value
        if not is_text(text):
            raise self._bad(event, "holds half of a surrogate pair", "Write the character itself.")
        return text

    def _place(self, event: yaml.Event) -> Source:
        mark = event.start_mark
        if self._source.kind == "flag" or mark is None:
            return self._source
        return self._source.at(mark.line + 1)

    def _bad(self, event: yaml.Event, what: str, hint: str) -> BadConfigFile:
        return BadConfigFile(self._place(event).text, what, hint)
