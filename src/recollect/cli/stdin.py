"""What is typed, or piped, into a command."""

from __future__ import annotations

import sys

from recollect.canonical import is_text
from recollect.errors import BadFile


def read_stdin() -> str:
    """Read stdin to its end; BadFile where it is not UTF-8 text."""
    try:
        return _checked(sys.stdin.read())
    except UnicodeDecodeError as error:
        raise _not_text() from error


def read_stdin_line() -> str:
    """Read one line of stdin, empty at its end; BadFile where it is not UTF-8 text."""
    try:
        return _checked(sys.stdin.readline())
    except UnicodeDecodeError as error:
        raise _not_text() from error


def _checked(text: str) -> str:
    if not is_text(text):  # a locale without UTF-8 lets such bytes through
        raise _not_text()
    return text


def _not_text() -> BadFile:
    return BadFile("stdin", "it is not UTF-8 text", "Convert it first, for example with: iconv")
