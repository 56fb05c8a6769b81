"""Reading a file of JSON lines with bounded memory, whatever is in it."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import NoReturn

from recollect.canonical import Json
from recollect.errors import BadFile, InvalidRecord
from recollect.store.fields import Fields, shorten
from recollect.store.incoming import BadLine, Incoming, Limits, bad_line

_PIECE = 1 << 20
_FORGOTTEN = 16 << 20
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file; `data` is None where it is longer than the limit."""

    number: int
    data: bytes | None

    @property
    def size(self) -> int:
        """Length in bytes, 0 for a line that was passed over."""
        return 0 if self.data is None else len(self.data)


def read_lines(path: Path, file: BufferedReader, limits: Limits) -> Iterator[Line]:
    """Read the lines that are not blank; one that is too long is passed over, not loaded."""
    number = 0
    more = True
    while more:
        try:
            data, more = _read_line(file, limits.max_line_bytes)
        except OSError as error:
            raise BadFile(path, f"it cannot be read ({error.strerror or error})") from error
        number += 1
        if number == 1 and data is not None:
            data = data.removeprefix(_BOM)
        if data is None or data.strip():
            yield Line(number, data)


def _read_line(file: BufferedReader, limit: int) -> tuple[bytes | None, bool]:
    """Return the next line (None if it is longer than the limit) and whether more may follow."""
    piece = file.readline(_PIECE)
    if piece.endswith(b"\n") or len(piece) < _PIECE:
        return (piece if len(piece) <= limit + 1 else None), piece.endswith(b"\n")
    line = bytearray(piece)
    while piece and not piece.endswith(b"\n"):
        if len(line) > limit + 1:
            return None, _skip_line(file)
        piece = file.readline(_PIECE)
        line += piece
    return (bytes(line) if len(line) <= limit + 1 else None), bool(piece)


def _skip_line(file: BufferedReader) -> bool:
    """Pass over the rest of a line; tell whether more may follow."""
    passed = 0
    while ahead := file.peek():
        end = ahead.find(b"\n")
        passed += len(file.read(end + 1 if end >= 0 else len(ahead)))
        if end >= 0:
            return True
        if passed >= _FORGOTTEN:
            _forget(file, passed)
            passed = 0
    return False


def _forget(file: BufferedReader, size: int) -> None:
    """Let the kernel drop what was passed over: filling its cache is most of the time it takes."""
    if hasattr(os, "posix_fadvise") and file.seekable():
        with contextlib.suppress(OSError):
            start = file.tell() - size
            os.posix_fadvise(file.fileno(), start, size, os.POSIX_FADV_DONTNEED)


def convert(
    lines: Iterator[Line], limits: Limits, read: Callable[[Fields, Line], Incoming | None]
) -> Iterator[Incoming | BadLine]:
    """Parse each line and `read` it; what is refused becomes a BadLine, the others follow."""
    for line in lines:
        try:
            incoming = read(Fields(parse(line, limits)), line)
        except (InvalidRecord, RecursionError) as error:
            yield bad_line(line.number, error)
        else:
            if incoming is not None:
                yield incoming


def parse(line: Line, limits: Limits) -> Json:
    """Parse one line as strict JSON within the limits, or raise InvalidRecord."""
    data = line.data
    if data is None or len(data.rstrip(b"\r\n")) > limits.max_line_bytes:
        raise InvalidRecord("line", f"is longer than {limits.max_line_bytes:,} bytes")
    opened = data.count(b"[") + data.count(b"{")
    if opened + data.count(b",") > limits.max_values:
        raise InvalidRecord("line", f"holds more than {limits.max_values:,} values")
    try:
        value: Json = _DECODER.decode(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InvalidRecord("line", f"is not UTF-8 (byte {error.start + 1})") from None
    except json.JSONDecodeError as error:
        problem = f"is not JSON: {error.msg} (column {error.colno})"
        raise InvalidRecord("line", problem) from None
    except _Refused as error:
        raise InvalidRecord("line", f"is not JSON: {error}") from None
    except ValueError:  # Python's own limit on the digits of an integer
        raise InvalidRecord("line", "holds an integer with too many digits") from None
    if opened > limits.max_depth:
        _check_depth(value, limits.max_depth)
    return value


def _check_depth(value: Json, most: int) -> None:
    """Refuse a value of more than `most` containers within each other, level by level."""
    level: list[Json] = [value]
    for _ in range(most):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise InvalidRecord("line", f"is nested more than {most} levels deep")


class _Refused(ValueError):
    """Something that Python's parser lets through: not JSON, or saying two things at once."""


def _refuse_constant(name: str) -> NoReturn:
    raise _Refused(f"{name} is not a JSON number")


def _refuse_repeats(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """Build an object; of two equal keys, Python would silently keep the second."""
    members: dict[str, Json] = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _Refused(f"the key {shorten(name)} appears twice")
            seen.add(name)
    return members


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_refuse_repeats)
