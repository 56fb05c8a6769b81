"""The shape of a model, known from its configuration alone: nothing is loaded, no torch needed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from recollect.canonical import Json, strict_json
from recollect.models.catalog import folder_of

# Shapes of the presets' models, so that a dry run can calculate where nothing is downloaded.
_KNOWN: dict[str, dict[str, Json]] = {
    "Qwen/Qwen2.5-3B-Instruct": {
        "hidden_size": 2048,
        "num_hidden_layers": 36,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "intermediate_size": 11008,
        "vocab_size": 151936,
        "tie_word_embeddings": True,
    },
}


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes of a decoder with gated feed-forward layers, as Llama, Qwen and most others are."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    inner: int
    vocabulary: int
    tied: bool

    @property
    def linears(self) -> dict[str, tuple[int, int]]:
        """Inputs and outputs of a layer's matrices, by their usual names."""
        queries, keys = self.heads * self.head_size, self.kv_heads * self.head_size
        return {
            "q_proj": (self.hidden, queries),
            "k_proj": (self.hidden, keys),
            "v_proj": (self.hidden, keys),
            "o_proj": (queries, self.hidden),
            "gate_proj": (self.hidden, self.inner),
            "up_proj": (self.hidden, self.inner),
            "down_proj": (self.inner, self.hidden),
        }

    @property
    def parameters(self) -> int:
        """How many weights there are, but for biases and norms of a few thousand."""
        per_layer = sum(a * b for a, b in self.linears.values()) + 2 * self.hidden
        words = self.vocabulary * self.hidden * (1 if self.tied else 2)
        return self.layers * per_layer + words + self.hidden

    def adapters(self, rank: int, targets: tuple[str, ...] | None) -> int:
        """How many weights adapters of a rank add; names we do not know count as nothing."""
        chosen = [size for name, size in self.linears.items() if not targets or name in targets]
        return self.layers * rank * sum(a + b for a, b in chosen)


def shape_of(name: str) -> ModelShape | None:
    """Find a model's shape: of ours, in a folder, in the hub's cache; None where it is unknown."""
    for folder in (folder_of(name), Path(name).expanduser(), _cached(name)):
        if folder is not None and (folder / "config.json").is_file():
            try:
                found = strict_json((folder / "config.json").read_bytes())
            except (OSError, ValueError):
                return None
            return _read(found) if isinstance(found, dict) else None
    return _read(_KNOWN[name]) if name in _KNOWN else None


def _cached(name: str) -> Path | None:
    """Where the hub's cache has the newest commit that was downloaded, if it has one."""
    home = Path(os.environ.get("HF_HOME") or "~/.cache/huggingface").expanduser()
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    repo = cache / f"models--{name.replace('/', '--')}"
    try:
        commit = (repo / "refs" / "main").read_text().strip()
    except OSError:
        return None
    return repo / "snapshots" / commit


def _read(config: Mapping[str, Json]) -> ModelShape | None:
    def number(member: str, default: int | None = None) -> int:
        value = config.get(member)
        if isinstance(value, int) and value > 0:
            return value
        if default is None:
            raise KeyError(member)
        return default

    try:
        heads, hidden = number("num_attention_heads"), number("hidden_size")
        return ModelShape(
            hidden=hidden,
            layers=number("num_hidden_layers"),
            heads=heads,
            kv_heads=number("num_key_value_heads", heads),
            head_size=number("head_dim", hidden // heads),
            inner=number("intermediate_size"),
            vocabulary=number("vocab_size"),
            tied=bool(config.get("tie_word_embeddings", False)),
        )
    except KeyError:
        return None
