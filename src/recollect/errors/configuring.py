"""What can go wrong with a configuration."""

from __future__ import annotations

from collections.abc import Sequence

from recollect.errors.base import RecollectError


class ConfigMissing(RecollectError):
    """There is neither a preset nor a file of this name."""

    def __init__(self, given: str, presets: Sequence[str], nearest: str = "") -> None:
        guess = f"Did you mean {nearest}? " if nearest else ""
        super().__init__(
            f"There is no preset and no file {given[:120]!r}.",
            f"{guess}Presets: {', '.join(presets)}; or give the path of a YAML file.",
        )


class BadConfigFile(RecollectError):
    """A text with settings cannot be read as YAML; `where` is its file and line, or the flag."""

    def __init__(self, where: str, why: str, hint: str = "") -> None:
        super().__init__(f"{where}: {why}.", hint)
        self.where = where


class BadConfig(RecollectError):
    """Settings that are unknown, of the wrong type, or at odds: `problems` are (what, hint)."""

    def __init__(self, problems: Sequence[tuple[str, str]]) -> None:
        self.problems = tuple(problems)
        if len(problems) == 1:
            super().__init__(*problems[0])
            return
        texts = [f"({n}) {what} {hint}".rstrip() for n, (what, hint) in enumerate(problems, 1)]
        shown = " ".join(texts[:8]) + (f" ... {len(texts) - 8} more" if len(texts) > 8 else "")
        super().__init__(f"{len(texts)} settings are wrong: {shown}")


class BadSecret(RecollectError):
    """An environment variable holds what no key or token can be. Its value is never told."""

    def __init__(self, variable: str) -> None:
        super().__init__(
            f"${variable} holds characters that no key or token has (its value is not shown).",
            "Set it again: printable ASCII on one line.",
        )
        self.variable = variable
