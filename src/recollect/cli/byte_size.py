"""Sizes as people write them: 500MB, 2GiB, 1.5 TB."""

from __future__ import annotations

import re

import typer

_UNITS = {
    "": 1,
    "b": 1,
    **{unit: 1000**power for power, unit in enumerate(("kb", "mb", "gb", "tb"), start=1)},
    **{unit: 1024**power for power, unit in enumerate(("kib", "mib", "gib", "tib"), start=1)},
}
_MOST = 2.0**62
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)\Z")


def parse_size(text: str) -> int:
    """Read a number of bytes; kB and MB count in thousands, KiB and MiB in 1024."""
    match = _SIZE.match(text.strip().lower())
    if match is None or match[2] not in _UNITS:
        raise typer.BadParameter(f"{text!r} is not a size; write it like 500MB or 2GiB")
    size = float(match[1]) * _UNITS[match[2]]
    if size > _MOST:
        raise typer.BadParameter(f"{text[:20]}... is larger than any disk")
    return int(size)
