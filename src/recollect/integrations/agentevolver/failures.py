"""What can go wrong between a host's loop and the manager; each says what to do next."""

from __future__ import annotations

from recollect.errors import RecollectError


class StepOutOfOrder(RecollectError):
    """No step was begun, or the store already knows later ones."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what}.", hint)


class GroupChanged(RecollectError):
    """A task's group was counted in this step, and now rows come that were not in it."""

    def __init__(self, uid: str, step: int) -> None:
        super().__init__(
            f"Task {uid!r} was counted in step {step} without some of the rows given now.",
            "Give all fresh rows of a task in one call of update_difficulty2task_dict; later "
            "calls of the step may leave rows out, not add any.",
        )


class RowMismatch(RecollectError):
    """Values that are said to belong to a row cannot be its own; nothing was stored."""

    def __init__(self, row: str, problem: str, hint: str = "") -> None:
        super().__init__(
            f"Row {row}: {problem}.",
            hint or "Carry `row_ids` through every stage that moves rows, with the other columns.",
        )
