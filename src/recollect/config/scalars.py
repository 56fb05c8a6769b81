"""One spelling for every value: how text becomes a value, and a value text.

The words are those of YAML 1.2, so `off` and `no` are text and 1e-3 is a number; `none` means
null as well. A text that could be taken for anything else is written in quotes.
"""

from __future__ import annotations

import re

from recollect.canonical import Json

MAX_INT = 2**63 - 1

_INT = re.compile(r"[-+]?(0|[1-9][0-9_]*)\Z")
_FLOAT = re.compile(r"[-+]?((\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)\Z")
_SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z")
_WORDS: dict[str, bool | None] = {
    "": None,
    "~": None,
    "null": None,
    "none": None,
    "true": True,
    "false": False,
}
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*\Z")
_OLD_WORDS = ("y", "n", "yes", "no", "on", "off")  # true and false to readers of YAML 1.1
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


class BadScalar(ValueError):
    """Text that is a number by its form but cannot be used as one."""


def parse_scalar(text: str) -> bool | int | float | str | None:
    """Read an unquoted word. Raises BadScalar for numbers that nothing can hold."""
    word = text.lower()
    if word in _WORDS and text in (word, word.capitalize(), word.upper()):
        return _WORDS[word]
    if _SPECIAL.match(text):
        raise BadScalar(f"{text} is not a finite number")
    if _INT.match(text):
        return _whole(text.replace("_", ""))
    if _FLOAT.match(text):
        return _decimal(text)
    return text


def _whole(digits: str) -> int:
    if len(digits) > 20 or abs(int(digits)) > MAX_INT:
        raise BadScalar(f"{digits[:20]}... is too large: whole numbers must fit 64 bits")
    return int(digits)


def _decimal(text: str) -> float:
    value = float(text)
    if abs(value) == float("inf"):
        raise BadScalar(f"{text[:20]} is too large for a 64-bit number")
    return value


def spell(value: Json, null: str = "none") -> str:
    """Write a value on one line so that reading it gives the same value of the same type.

    With `null="null"` that holds for any reader of YAML, not only for ours.
    """
    if value is None:
        return null
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        digits, e, exponent = repr(value).partition("e")
        return digits + (".0" if e and "." not in digits else "") + e + exponent
    if isinstance(value, int):
        return repr(value)
    if isinstance(value, str):
        return spell_text(value)
    if isinstance(value, list):
        return "[" + ", ".join(spell(item, null) for item in value) + "]"
    entries = (f"{spell_text(key)}: {spell(item, null)}" for key, item in value.items())
    return "{" + ", ".join(entries) + "}"


def spell_text(text: str) -> str:
    """Write a text, in quotes unless it is a word that cannot be mistaken."""
    is_word = _PLAIN.match(text) and isinstance(parse_scalar(text), str)
    if is_word and text.lower() not in _OLD_WORDS:
        return text
    return '"' + "".join(_escaped(char) for char in text) + '"'


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
