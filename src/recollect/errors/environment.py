"""What can go wrong with environments and their tasks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recollect.errors.base import RecollectError


class UnknownEnvironment(RecollectError):
    """No environment has this name."""

    def __init__(self, name: str, known: Sequence[str], nearest: str = "") -> None:
        guess = f"Did you mean {nearest!r}? " if nearest else ""
        super().__init__(
            f"There is no environment {name!r}.",
            f"{guess}Known: {', '.join(known)}; or give your own as path/to/file.py:ClassName.",
        )
        self.nearest = nearest


class BadEnvironment(RecollectError):
    """An environment exists but cannot be made: its code, its options or its data are wrong."""

    def __init__(self, name: str, why: str, hint: str = "") -> None:
        super().__init__(f"Environment {name}: {why}.", hint)


class MissingTau2(RecollectError):
    """The environment tau2 needs tau2-bench, and it is not there, or not all of it."""

    def __init__(self, what: str, first: str = "") -> None:
        super().__init__(
            f"The environment tau2 needs tau2-bench: {what}.",
            f"{first}Install it from its repository, beside recollect (Python 3.12 or 3.13): "
            "git clone https://github.com/sierra-research/tau2-bench && "
            "pip install -e ./tau2-bench. More in docs/tau2.md",
        )


class UnknownTask(RecollectError):
    """An environment was given a task, a split or a kind that it does not have."""

    def __init__(self, environment: str, what: str, given: str, known: Sequence[str] = ()) -> None:
        shown = f"Known: {', '.join(known)}." if known else "List them with: recollect env ls"
        super().__init__(f"Environment {environment} has no {what} {given[:80]!r}.", shown)


class BadDataset(RecollectError):
    """A line of a file of prompts cannot be used."""

    def __init__(self, path: Path | str, line: int, why: str, hint: str = "") -> None:
        super().__init__(f"{path}, line {line}: {why}.", hint)
        self.path = Path(path)
        self.line = line


class RewardFailed(RecollectError):
    """A user's reward function raised, or returned something that is not a finite number."""

    def __init__(self, task: str, why: str) -> None:
        super().__init__(
            f"The reward of task {task} failed: {why}.",
            "The attempt was not scored. Make the function return a finite number for any text.",
        )


class EpisodeOver(RecollectError):
    """Somebody went on answering after an episode had ended or was closed."""

    def __init__(self, task: str) -> None:
        super().__init__(
            f"The episode of task {task} is over.",
            "Stop when a turn says done, and start a new episode for another attempt.",
        )


class EnvironmentHung(RecollectError):
    """So many environment calls never came back that going on makes no sense."""

    def __init__(self, stuck: int, seconds: float) -> None:
        super().__init__(
            f"{stuck} environment calls gave no answer within {seconds:g} s.",
            "Look for what blocks with: recollect env check NAME; "
            "raise rollout.call_seconds if it is only slow.",
        )


class TooManyFailures(RecollectError):
    """A larger share of a step's episodes failed than the run allows."""

    def __init__(self, failed: int, total: int, example: str) -> None:
        super().__init__(
            f"{failed} of {total} episodes failed, for example: {example}.",
            "Check the environment with: recollect env check NAME; "
            "rollout.max_failed_share is the share that a step tolerates.",
        )
