"""Names of metrics that the table does not document."""

from __future__ import annotations

from collections.abc import Iterable

from recollect.telemetry.names import find_metric


def undocumented(names: Iterable[str]) -> list[str]:
    """List those of some names (a mapping's keys will do) that nobody documented."""
    return sorted(name for name in names if find_metric(name) is None)
