"""How a proof may end without one."""

from __future__ import annotations

from recollect.errors.base import RecollectError


class PromiseBroken(RecollectError):
    """A proof found that something promised does not hold; `what` says what was seen instead."""

    def __init__(self, what: str) -> None:
        super().__init__(
            what,
            "Do not trust this disk or installation with runs you need. Please report it, with "
            "what `recollect doctor` prints.",
        )


class NotTried(RecollectError):
    """A trial cannot be made here; `what` says why. Nothing is known of the promise then."""
