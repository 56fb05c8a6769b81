"""The pages of the documentation, taken apart: blocks of code, and the commands in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Languages that a block may have. `text` is what is printed, or a formula, and is not tried.
LANGUAGES = ("sh", "python", "yaml", "jsonl", "toml", "text")
# A block of help on docs/cli.md is `text`; its examples are tried by command, not by page.
HELP = "docs/cli.md"
PAGES = (
    "README.md",
    "README.zh-CN.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
)


@dataclass(frozen=True)
class Block:
    """A fenced piece of a page; `line` is that of its first fence."""

    page: str
    line: int
    language: str
    text: str

    @property
    def name(self) -> str:
        """Where it stands, as an editor understands it."""
        return f"{self.page}:{self.line}"


def read(page: str) -> str:
    """Read a page."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str) -> list[Block]:
    """Find the fenced blocks of a page, in order."""
    text = read(page)
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(page, text[: m.start()].count("\n") + 1, m[1], m[2]) for m in found]


def indented(page: str) -> list[str]:
    """Find code that is indented instead of fenced: nobody would try it."""
    plain = re.sub(r"^```.*?^```$", "", read(page), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"(?:^|\n)(?:\n|#[^\n]*\n)( {4}[^\n]+)", plain)


def commands(text: str) -> list[str]:
    """Take a shell block apart into commands, without comments and broken lines."""
    whole = text.replace("\\\n", " ")
    bare = (re.sub(r"(^|\s)#.*$", "", line).strip() for line in whole.splitlines())
    return [re.sub(r"\s+", " ", line) if "'" not in line else line for line in bare if line]


def examples() -> dict[str, list[str]]:
    """Collect the examples of every command's help, by command, from docs/cli.md."""
    found: dict[str, list[str]] = {}
    whole = re.compile(r"^## recollect ([^\n]+)\n+```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
    for title, text in whole.findall(read(HELP)):
        part = re.search(r"^ *Examples:\n(.*?)\n\n", text, re.MULTILINE | re.DOTALL)
        if part is not None:
            found[title] = commands(re.sub(r"\n {6,}", " ", part[1]))
    return found
