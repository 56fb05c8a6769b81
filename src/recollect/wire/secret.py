"""Keys and tokens that come from the environment."""

from __future__ import annotations

import os

from recollect.errors import BadSecret


def secret(variable: str) -> str:
    """Read a key or token from an environment variable; empty where it is not set.

    Space around it, such as the line break that ends a file, is no part of it. BadSecret, which
    names the variable and never the value, where it cannot stand in a header of HTTP.
    """
    value = os.environ.get(variable, "").strip()
    if not (value.isascii() and value.isprintable()):
        raise BadSecret(variable)
    return value
