"""The base of every failure, and failures of any room."""

from __future__ import annotations

from pathlib import Path

from recollect.errors.extras import install_command


class RecollectError(Exception):
    """Base of every failure we know by name: `what` happened and a `hint` for the next step."""

    exit_code = 2

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(f"{what} {hint}".strip())
        self.what = what
        self.hint = hint


class InvalidRecord(RecollectError):
    """A record breaks the contract of `recollect.types`; `field` names the culprit."""

    def __init__(self, field: str, problem: str, record: str = "") -> None:
        where = f"{record}: " if record else ""
        super().__init__(f"{where}{field}: {problem}.")
        self.field = field
        self.problem = problem


class MissingExtra(RecollectError):
    """A feature needs an optional dependency that is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs a package that is not installed.",
            f"Install it with: {install_command(extra)}",
        )


class BadFile(RecollectError):
    """A file to import cannot be used at all (single bad lines are reported, not raised)."""

    def __init__(self, path: Path | str, why: str, hint: str = "") -> None:
        super().__init__(f"{path}: {why}.", hint)
        self.path = Path(path)


class WouldOverwrite(RecollectError):
    """A command would replace a file that is already there."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(f"{path} is already there; nothing was written.", "Choose another name.")
        self.path = Path(path)
