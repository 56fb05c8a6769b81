"""The shelf: what the critic said of rows when they were fresh, for when they train again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from recollect.train.credit import Credit
from recollect.types import TrajectoryId

FILE = "credits.safetensors"
_NUMBERS = ("values", "returns", "raw")


class Shelf:
    """Credits by trajectory, each with the policy version its row was sampled at.

    Rows older than `max_age` versions are let go: they cannot be drawn any more. The shelf is in
    a checkpoint, whole, so a resumed run trains with the same numbers.
    """

    def __init__(self, max_age: int) -> None:
        self._max_age = max_age
        self._credits: dict[TrajectoryId, tuple[int, Credit]] = {}

    def __len__(self) -> int:
        return len(self._credits)

    def get(self, trajectory: TrajectoryId) -> Credit | None:
        """What was said of a row, not whitened; None if it was never fresh in this run."""
        found = self._credits.get(trajectory)
        return None if found is None else found[1]

    def put(self, credits_: Mapping[TrajectoryId, Credit], version: int) -> None:
        """Keep what is said now, at a policy version, and let go of what is too old."""
        self._credits |= {id_: (version, credit) for id_, credit in credits_.items()}
        oldest = version - self._max_age
        self._credits = {id_: kept for id_, kept in self._credits.items() if kept[0] >= oldest}

    def save(self, folder: Path) -> None:
        """Write everything into one file of a folder."""
        from safetensors.torch import save_file

        kept = [credit for _, credit in self._credits.values()]
        tensors = {
            name: torch.from_numpy(
                np.concatenate([*(getattr(credit, name) for credit in kept), np.zeros(0, "<f4")])
            )
            for name in _NUMBERS
        }
        tensors["lengths"] = torch.tensor([credit.raw.size for credit in kept], dtype=torch.int64)
        tensors["errors"] = torch.tensor([credit.error for credit in kept], dtype=torch.float64)
        versions = [version for version, _ in self._credits.values()]
        tensors["versions"] = torch.tensor(versions, dtype=torch.int64)
        save_file(tensors, str(folder / FILE), metadata={"ids": json.dumps(list(self._credits))})

    def restore(self, folder: Path) -> None:
        """Take everything back; nothing, where the checkpoint is of a time without a shelf."""
        from safetensors import safe_open

        if not (folder / FILE).is_file():
            return
        with safe_open(str(folder / FILE), framework="pt") as file:
            ids = json.loads((file.metadata() or {})["ids"])
            tensors = {name: file.get_tensor(name).numpy() for name in file.keys()}  # noqa: SIM118
        cuts = np.cumsum(tensors["lengths"])[:-1]
        parts = [np.split(tensors[name].copy(), cuts) for name in _NUMBERS]
        rows = zip(ids, tensors["versions"], tensors["errors"], *parts, strict=True) if ids else ()
        self._credits = {
            TrajectoryId(id_): (int(version), Credit(values, returns, raw, raw, float(error)))
            for id_, version, error, values, returns, raw in rows
        }
