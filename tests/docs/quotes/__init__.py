"""What the pages quote from benchmarks/results, by page and by file.

A quote is a piece of a page, written here with the figures left out; a results file fills them in,
and the page must have the piece as it then is. Figures that are in no file do not belong here.
"""

from __future__ import annotations

from . import (
    continual,
    notes,
    overview,
    ppo,
    readme,
    replay,
    replay_gain,
    smol,
    store,
    tau2,
    training,
)
from .spelling import Quoting

QUOTES: dict[str, dict[str, Quoting]] = {
    "README.md": readme.ENGLISH,
    "README.zh-CN.md": readme.IN_CHINESE,
    "docs/continual.md": continual.QUOTES,
    "docs/notes.md": notes.QUOTES,
    "docs/ppo.md": ppo.QUOTES,
    "docs/replay.md": {**replay_gain.QUOTES, **replay.QUOTES},
    "docs/results.md": {**overview.QUOTES, **smol.QUOTES},
    "docs/scale.md": store.SCALE,
    "docs/store.md": store.STORE,
    "docs/tau2.md": tau2.QUOTES,
    "docs/training.md": training.QUOTES,
}
