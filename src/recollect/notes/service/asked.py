"""Reading what a call was sent, member by member; BadRequest names the one that is wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping

from recollect.canonical import Json, is_text
from recollect.errors import BadRequest
from recollect.notes.note import WORKSPACE

_MOST_NAME = 200  # characters of a workspace's name


class Asked:
    """The JSON object of a request. Members that we do not know are passed over, as ReMe does."""

    def __init__(self, body: Json) -> None:
        if not isinstance(body, dict):
            raise BadRequest("body", "must be a JSON object")
        self._body: Mapping[str, Json] = body

    def text(self, name: str, default: str | None = None) -> str:
        """Read a text; a default makes it optional."""
        found = self._body.get(name, default)
        if not isinstance(found, str) or not is_text(found):
            raise BadRequest(name, "must be a text")
        return found

    def workspace(self, name: str = "workspace_id") -> str:
        """Read the name of a workspace; ours where none is given."""
        found = self.text(name, WORKSPACE)
        if not found or len(found) > _MOST_NAME:
            raise BadRequest(name, f"must have 1 to {_MOST_NAME} characters")
        return found

    def whole(self, name: str, default: int | None, least: int, most: int) -> int:
        """Read a whole number within bounds; 3.0 and "3" are none."""
        found = self._body.get(name, default)
        if isinstance(found, bool) or not isinstance(found, int) or not least <= found <= most:
            raise BadRequest(name, f"must be a whole number from {least} to {most}")
        return found

    def number(self, name: str) -> float:
        """Read a finite number."""
        found = self._body.get(name)
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise BadRequest(name, "must be a number")
        try:
            value = float(found)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value):
            raise BadRequest(name, "must be a finite number")
        return value

    def flag(self, name: str) -> bool:
        """Read true or false; absent is false."""
        found = self._body.get(name, False)
        if not isinstance(found, bool):
            raise BadRequest(name, "must be true or false")
        return found

    def items(self, name: str, most: int) -> list[Json]:
        """Read a list of at most so many."""
        found = self._body.get(name)
        if not isinstance(found, list) or len(found) > most:
            raise BadRequest(name, f"must be a list of at most {most:,}")
        return found
