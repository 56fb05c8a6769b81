"""Random streams by name: (run seed, purpose, step, item) always gives the same numbers.

Nothing in Recollect draws from global state. A stream is made where it is needed and thrown
away, so what one part of a run draws can never shift what another one does, and a resumed run
needs no saved generator state.
"""

from __future__ import annotations

import numpy as np

from recollect.canonical import digest


def stream(seed: int, purpose: str, *items: str | int) -> np.random.Generator:
    """Make the generator of one purpose; Philox, because its streams are independent by key."""
    key = int(digest("stream", seed, purpose, *items), 16)
    return np.random.Generator(np.random.Philox(key=key))


def stream_seed(seed: int, purpose: str, *items: str | int) -> int:
    """Make a 63-bit seed for somebody else's generator."""
    return int(digest("seed", seed, purpose, *items), 16) >> 65
