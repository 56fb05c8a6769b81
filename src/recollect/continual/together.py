"""Several companions of one run, as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from recollect.train.batch import Batch
from recollect.train.companion import Companion
from recollect.train.session import Session


class Together:
    """Passes everything on, in order. They must not change the same thing of a run."""

    def __init__(self, companions: Sequence[Companion]) -> None:
        self._companions = tuple(companions)

    def join(self, session: Session) -> None:
        """Let all of them enter."""
        for each in self._companions:
            each.join(session)

    def trained(self, step: int, batch: Batch) -> None:
        """Tell all of them."""
        for each in self._companions:
            each.trained(step, batch)

    def metrics(self) -> Mapping[str, float]:
        """Gather what they say."""
        return {name: value for each in self._companions for name, value in each.metrics().items()}

    def save(self, folder: Path) -> None:
        """Let all of them keep their state, each in files of its own."""
        for each in self._companions:
            each.save(folder)

    def restore(self, folder: Path) -> None:
        """Let all of them take theirs back."""
        for each in self._companions:
            each.restore(folder)


def together(companions: Sequence[Companion | None]) -> Companion | None:
    """Make one companion of those that there are."""
    known = [each for each in companions if each is not None]
    return None if not known else known[0] if len(known) == 1 else Together(known)
