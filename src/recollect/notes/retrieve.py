"""Finding notes for a task: the seam, and full-text search, which is the default.

The index lives in memory and holds exactly the notes that may be used, so a ranking is a function
of those notes and of the question: notes that were fenced, banned or retired leave no trace in its
statistics, and a resumed run finds what it found before.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from typing import Protocol

from recollect.ledger import Note
from recollect.types import NoteId

# Chinese and Japanese are written without spaces: there, two neighbouring characters are a word.
_DENSE = r"\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"([{_DENSE}]+)|[^\W{_DENSE}]+")
_MOST_WORDS = 128  # of a question; more of them do not find better notes
# `when_to_use` is written to be found by; it counts twice.
_RANK = "bm25(found, 0.0, 2.0, 1.0)"


class Retriever(Protocol):
    """An index of notes of one workspace.

    Promises: `search` depends only on the notes that were added and not removed, and on the
    question; equal scores are ordered by id. Scores compare within one answer only, higher is
    better.
    """

    def add(self, notes: Sequence[Note]) -> None:
        """Take notes up; none of them is in the index yet."""

    def remove(self, notes: Sequence[NoteId]) -> None:
        """Let go of notes."""

    def search(self, question: str, count: int) -> list[tuple[NoteId, float]]:
        """Name at most `count` notes that have to do with a question, best first."""


class TextRetriever:
    """Full-text search with BM25 (SQLite's FTS5): a note is found by the words it shares."""

    def __init__(self) -> None:
        # Callers hold a lock of their own; see `recollect.notes.store_bank`.
        self._index = sqlite3.connect(":memory:", check_same_thread=False)
        self._index.execute(
            "CREATE VIRTUAL TABLE found USING fts5(id UNINDEXED, when_to_use, content, "
            "tokenize = 'unicode61 remove_diacritics 2')"
        )

    def add(self, notes: Sequence[Note]) -> None:
        """Take notes up; none of them is in the index yet."""
        self._index.executemany(
            "INSERT INTO found (id, when_to_use, content) VALUES (?, ?, ?)",
            [(note.id, _searchable(note.when_to_use), _searchable(note.content)) for note in notes],
        )

    def remove(self, notes: Sequence[NoteId]) -> None:
        """Let go of notes."""
        self._index.executemany("DELETE FROM found WHERE id = ?", [(note,) for note in notes])

    def search(self, question: str, count: int) -> list[tuple[NoteId, float]]:
        """Name at most `count` notes that share words with a question, best first."""
        wanted = list(dict.fromkeys(word.lower() for word in _words(question)))
        if not wanted or count < 1:
            return []
        # Each word in quotes: nothing in a question is taken for the query language.
        query = " OR ".join(f'"{word}"' for word in wanted[:_MOST_WORDS])
        rows = self._index.execute(
            f"SELECT id, {_RANK} FROM found WHERE found MATCH ? ORDER BY {_RANK}, id LIMIT ?",
            (query, count),
        )
        return [(NoteId(id_), -float(rank)) for id_, rank in rows]


def _words(text: str) -> list[str]:
    """Take a text apart; of n characters written without spaces, the n - 1 pairs."""
    words: list[str] = []
    for found in _WORD.finditer(text):
        word = found.group()
        if found.group(1) is None or len(word) == 1:
            words.append(word)
        else:
            words.extend(word[i : i + 2] for i in range(len(word) - 1))
    return words


def _searchable(text: str) -> str:
    """Keep what can be searched for; a zero byte would end the text for SQLite."""
    return " ".join(_words(text))


def similarity(one: str, other: str) -> float:
    """Share of words that two texts have in common, of all words in either (Jaccard): 0 to 1."""
    mine, theirs = set(_words(one.lower())), set(_words(other.lower()))
    every = mine | theirs
    return len(mine & theirs) / len(every) if every else 1.0
