"""Every error of ours: what happened in one line, what to do next, a known exit code."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from recollect import errors
from recollect.errors import RecollectError

CLASSES = [getattr(errors, name) for name in errors.__all__]
# What a parameter of this type may be, spelt as in the sources.
VALUES: dict[str, Any] = {
    "str": "a thing",
    "int": 130,
    "int | None": 7,
    "float": 1.5,
    "bool": False,
    "object": "pool.db",
    "Path": "runs/a",
    "Path | None": "runs/a.log",
    "Path | str": "runs/a",
    "Sequence[str]": ("first", "second"),
    "Sequence[tuple[str, str]]": (("One is wrong.", "Change it."), ("Another is.", "")),
}
# Raised inside one room and shown by another, with its own words about what to do.
WITHOUT_HINT = {
    "InvalidRecord",
    "CorruptFrame",
    "BadRequest",
    "PromiseBroken",
    "NotTried",
    "BadConfig",
}


def make(kind: type[RecollectError]) -> RecollectError:
    """Make an error with everything its constructor wants."""
    wanted = list(inspect.signature(kind).parameters.values())
    return kind(*(VALUES[str(parameter.annotation)] for parameter in wanted))


def test_all_of_them_are_public_and_of_one_family() -> None:
    assert len(CLASSES) > 60
    assert all(issubclass(kind, RecollectError) for kind in CLASSES)
    assert all(kind.__doc__ for kind in CLASSES)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_it_says_what_and_what_to_do(kind: type[RecollectError]) -> None:
    error = make(kind)
    assert error.what
    assert "\n" not in error.what
    assert "\n" not in error.hint
    assert error.hint or kind.__name__ in WITHOUT_HINT or kind is RecollectError
    assert error.exit_code in (2, 3, 130, 128 + 130)  # the last two by the number above
    assert str(error).startswith(error.what)


def test_what_names_it_is_in_the_message() -> None:
    assert "pool.db" in str(errors.StoreMissing("pool.db"))
    assert "pid 7" in str(errors.StoreLocked("pool.db", "pid 7"))
    assert "step 9" in str(errors.TrainingDiverged(9, 3, "runs/a/bad_batches"))
    both = errors.BadConfig([("run.step is unknown.", "Did you mean run.steps?"), ("b", "")])
    assert "Did you mean run.steps?" in str(both)
    assert str(both).startswith("2 settings are wrong: (1) run.step is unknown.")
