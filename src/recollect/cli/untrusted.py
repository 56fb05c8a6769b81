"""Making text from a store safe to look at.

What an agent, a tool or an imported file wrote may hold anything: escape sequences that move
the cursor or set the title, direction overrides that reorder a line, invisible characters.
Terminals must show such text, never obey it.
"""

from __future__ import annotations

import unicodedata

# Control, format, surrogate, line separator, paragraph separator.
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
# Joiners that ordinary words of some scripts, and many emoji, are spelt with.
_SPELLING = {"\u200c", "\u200d"}
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str, *, keep: str = "") -> str:
    r"""Show every control and invisible character as an escape such as \x1b or \u202e.

    Characters in `keep` stay as they are; give "\n\t" for text of several lines.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char in keep or not _is_hidden(char) else _escape(char) for char in text)


def visible_lines(text: str) -> list[str]:
    """Split text of several lines, with every other control character made visible.

    Carriage returns before a line end are dropped: they are how some tools spell one.
    """
    return visible(text.replace("\r\n", "\n"), keep="\n\t").expandtabs(4).split("\n")


def visible_json(text: str) -> str:
    """Escape hidden characters in a JSON text, which then means the same as before."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape_json(char) if _is_hidden(char) else char for char in text)


def safe_cell(value: str) -> str:
    """Keep a spreadsheet from taking text for a formula: such text gets a leading quote."""
    return "'" + value if value[:1] in ("=", "+", "-", "@", "\t", "\r") and value else value


def _is_hidden(char: str) -> bool:
    return unicodedata.category(char) in _HIDDEN and char not in _SPELLING


def _escape_json(char: str) -> str:
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\u{0xD800 + (code - 0x10000 >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def _escape(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
