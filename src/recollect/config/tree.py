"""Settings as somebody wrote them, each with where it was written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from recollect.canonical import Json
from recollect.redaction import redact

MAX_DEPTH = 30  # of mappings and lists in each other


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value comes from; `text` is how it is shown, without secrets.

    `name` is the file, the preset or the whole flag; `line` counts from 1, 0 where there is none.
    """

    kind: Literal["default", "preset", "file", "code", "flag"]
    name: str = ""
    line: int = 0

    @property
    def text(self) -> str:
        """Say it in a few words: `default`, `run.yaml:3`, `preset demo, line 3`, `flag a.b=1`."""
        if self.kind == "file":
            return f"{self.name}:{self.line}" if self.line else self.name
        if self.kind == "preset":
            return f"preset {self.name}, line {self.line}" if self.line else f"preset {self.name}"
        if self.kind == "flag":
            return f"flag {shortened(redact(self.name))}"
        return self.kind

    def at(self, line: int) -> Source:
        """The same source, at another line."""
        return Source(self.kind, self.name, line)


DEFAULT = Source("default")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value without settings below it; mappings inside lists are part of the value."""

    value: Json
    source: Source


@dataclass(frozen=True, slots=True)
class Branch:
    """A mapping: a section, or the options of an environment."""

    entries: dict[str, Node]
    source: Source


Node: TypeAlias = "Leaf | Branch"


def plain(node: Node) -> Json:
    """Give the value without where it came from."""
    if isinstance(node, Leaf):
        return node.value
    return {key: plain(entry) for key, entry in node.entries.items()}


def shortened(text: str, most: int = 60) -> str:
    """Cut a long text, which may be anything, for a message."""
    return text if len(text) <= most else text[: most - 3] + "..."
