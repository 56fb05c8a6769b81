"""Damaging a store that somebody has open."""

from __future__ import annotations

import sqlite3
from pathlib import Path


def damage(store: Path, every: int = 2) -> int:
    """Flip a bit of every second frame, or of others; says how many."""
    link = sqlite3.connect(store)
    with link:
        frames = link.execute("SELECT seq, frame FROM payloads").fetchall()
        chosen = [(seq, frame) for seq, frame in frames if seq % every == 1 % every]
        for seq, frame in chosen:
            bad = bytes([*frame[:60], frame[60] ^ 1, *frame[61:]])
            link.execute("UPDATE payloads SET frame = ? WHERE seq = ?", (bad, seq))
    link.close()
    return len(chosen)
