"""The two ways between a run and a service of notes: asking it, and telling it."""

from __future__ import annotations

from dataclasses import dataclass

from recollect.notes.remote.report import Reporter
from recollect.notes.remote.search import RemoteSearch


@dataclass(frozen=True, slots=True)
class RemoteNotes:
    """A service in a run; `reporter` is None where it is only asked."""

    search: RemoteSearch
    reporter: Reporter | None = None

    def troubles(self) -> list[str]:
        """Say what went wrong since it was asked last: reasons, oldest first."""
        reasons = [self.search.figures.reasons]
        if self.reporter is not None:
            reasons.append(self.reporter.reasons)
        found = [reason for each in reasons for reason in each]
        for each in reasons:
            each.clear()
        return found
