"""What a user does on the phone because the agent said so: calls found in a plain text.

The agent names a tool of the user's, with arguments in brackets where it has some:
`set_network_mode_preference(mode=4g_5g_preferred)`. The words alone will do, too: "please toggle
airplane mode".
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection

from recollect.canonical import Json, is_plain_json
from recollect.envs.tools import Call

# Requests to a person are short; reading more would let a runaway sample cost time.
_MOST_READ = 4000
_PAIR = re.compile(r"\s*(\w+)\s*[=:]\s*(\"[^\"]*\"|'[^']*'|[^,]*)")


def find_calls(text: str, names: Collection[str], most: int) -> tuple[Call, ...]:
    """Find the first `most` tools that a text names, with the arguments that stand behind them."""
    if not names:
        return ()
    found = []
    spoken = {_spelling(name): name for name in names}
    pattern = "|".join(re.escape(each) for each in sorted(spoken, key=len, reverse=True))
    finder = re.compile(rf"\b({pattern})\b(?:[`'\"]?\s*\(([^()]*)\))?")
    read = text[:_MOST_READ]
    # Same length as the text, so that arguments are cut out of it as they were written.
    lowered = "".join(low if len(low := letter.lower()) == 1 else letter for letter in read)
    lowered = re.sub(r"[ _-]", " ", lowered)
    for match in finder.finditer(lowered):
        start, end = match.span(2)
        found.append(Call(spoken[match[1]], _arguments(read[start:end] if start >= 0 else "")))
        if len(found) == most:
            break
    return tuple(found)


def write_call(name: str, arguments: dict[str, Json]) -> str:
    """Write a request as `find_calls` reads it."""
    listed = ", ".join(f"{key}={json.dumps(value)}" for key, value in arguments.items())
    return f"Please run {name}({listed}) now."


def _spelling(name: str) -> str:
    return re.sub(r"[_-]", " ", name.lower())


def _arguments(text: str) -> dict[str, Json]:
    """Read `key=value, key=value`; a value that is no JSON is a text."""
    found: dict[str, Json] = {}
    for key, value in _PAIR.findall(text):
        found[key] = _value(value.strip())
    return found if is_plain_json(found) else {}


def _value(text: str) -> Json:
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1]
    try:
        read: Json = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return read
