"""How much memory this process has held."""

from __future__ import annotations

import sys


def peak_memory() -> int | None:
    """Bytes of the machine's memory that the process held at most; None where nobody counts."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return held if sys.platform == "darwin" else 1024 * held
