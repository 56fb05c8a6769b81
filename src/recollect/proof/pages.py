"""Where in a SQLite file the bytes of a table's blobs lie (https://sqlite.org/fileformat2.html)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

Span = tuple[int, int]  # offset in the file, length
_LEAF, _INTERIOR = 0x0D, 0x05


def blob_spans(path: Path, table: str) -> dict[int, list[Span]]:
    """Map each rowid of a table (rowid, blob) to the pieces of its blob, in order."""
    connection = sqlite3.connect(path)
    sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
    (root,) = connection.execute(sql, [table]).fetchone()
    connection.close()
    pages = _Pages(path.read_bytes())
    return dict(pages.blobs(root))


@dataclass(frozen=True)
class _Pages:
    data: bytes

    @property
    def size(self) -> int:
        size = int.from_bytes(self.data[16:18], "big")
        return 65536 if size == 1 else size

    def blobs(self, number: int) -> Iterator[tuple[int, list[Span]]]:
        """Walk a table's tree from the page with this number."""
        start = (number - 1) * self.size
        kind = self.data[start]
        cells = int.from_bytes(self.data[start + 3 : start + 5], "big")
        header = 12 if kind == _INTERIOR else 8
        assert kind in (_LEAF, _INTERIOR)
        for index in range(cells):
            at = start + header + 2 * index
            cell = start + int.from_bytes(self.data[at : at + 2], "big")
            if kind == _LEAF:
                yield self._blob(cell)
            else:
                yield from self.blobs(self._number(cell))
        if kind == _INTERIOR:
            yield from self.blobs(self._number(start + 8))

    def _blob(self, cell: int) -> tuple[int, list[Span]]:
        length, at = self._varint(cell)
        rowid, at = self._varint(at)
        spans = list(self._payload(at, length))
        header_length, _ = self._varint(at)
        return rowid, _without_start(spans, header_length)

    def _payload(self, at: int, length: int) -> Iterator[Span]:
        usable = self.size - self.data[20]
        most, least = usable - 35, (usable - 12) * 32 // 255 - 23
        if length <= most:
            yield at, length
            return
        local = least + (length - least) % (usable - 4)
        local = local if local <= most else least
        yield at, local
        page, left = self._number(at + local), length - local
        while left:
            start = (page - 1) * self.size
            yield start + 4, min(left, usable - 4)
            left -= min(left, usable - 4)
            page = self._number(start)

    def _number(self, at: int) -> int:
        return int.from_bytes(self.data[at : at + 4], "big")

    def _varint(self, at: int) -> tuple[int, int]:
        value = 0
        for index in range(8):
            byte = self.data[at + index]
            value = value << 7 | byte & 0x7F
            if byte < 0x80:
                return value, at + index + 1
        return value << 8 | self.data[at + 8], at + 9


def _without_start(spans: list[Span], count: int) -> list[Span]:
    (at, length), *rest = spans
    assert length > count
    return [(at + count, length - count), *rest]
