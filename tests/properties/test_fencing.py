"""A fence, then the same steps again, equals a store in which the fenced steps never were.

The model is a list of the batches that still count. After every fence the store is compared, by
everything a reader can see, with a new store into which just those batches were written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
)

from factories import FakeRun, person_mark
from memory import folder_in_memory
from recollect.ledger import Draw, Mark, Score, Use
from recollect.proof.logical import logical_dump
from recollect.store import open_store
from recollect.store.records import Batch
from recollect.store.sqlite import SqliteStore
from recollect.types import Action, GroupId, RunId, TrajectoryId

FENCED = FakeRun(seed=7, id=RunId("fenced"), rows=2, tokens=12)
STEADY = FakeRun(seed=8, id=RunId("steady"), rows=3, tokens=12)
ACTIONS = st.sampled_from(Action)


@dataclass(frozen=True)
class Written:
    """A batch that was committed, and the step of the fenced run it belongs to (None = none)."""

    batch: Batch
    step: int | None = None


@contextmanager
def new_store() -> Iterator[SqliteStore]:
    with folder_in_memory() as folder, open_store(folder / "pool.db") as store:
        yield store


class Fencing(RuleBasedStateMachine):
    """Two runs share a store; one of them is set back again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.open = ExitStack()
        self.store = self.open.enter_context(new_store())
        self.history: list[Written] = []
        self.next = 0
        self.variant = 0
        self.steady = 0
        self.slots = 100
        self.fences = 0

    @initialize()
    def set_up(self) -> None:
        self.write(FENCED.setup())
        self.write(STEADY.setup())
        self.steady_step()

    def write(self, batch: Batch, step: int | None = None) -> None:
        self.store.commit(batch)
        self.history.append(Written(batch, step))

    @rule()
    def step(self) -> None:
        self.write(FENCED.step(self.next, self.variant), self.next)
        self.next += 1

    @rule()
    def steady_step(self) -> None:
        self.write(STEADY.step(self.steady))
        self.steady += 1

    @rule(action=ACTIONS, row=st.integers(0, 2))
    def a_person_marks_a_steady_row(self, action: Action, row: int) -> None:
        self.write(Batch(marks=[person_mark(self.steady_row(row), action)]))

    @precondition(lambda self: self.next > 0)
    @rule(action=ACTIONS, row=st.integers(0, 2), used=st.booleans())
    def the_fenced_run_reaches_for_a_steady_row(self, action: Action, row: int, used: bool) -> None:
        """A draw, a use, a score and a mark of the run that is set back, on a row that stays."""
        step, id_ = self.next - 1, self.steady_row(row)
        self.slots += 1
        draw = Draw(FENCED.id, step, self.slots, id_, GroupId("g"), 1, 0.5, "borrowed")
        uses = [Use(FENCED.id, step, self.slots, id_, ess=0.5)] if used else []
        # The same again when the rule meets the same row in the same step.
        scores = [Score(FENCED.id, step, id_, step - 1.5, row, ess=0.5)] if used else []
        mark = Mark(id_, action, "borrowed", FENCED.id, step)
        self.write(Batch(draws=[draw], uses=uses, scores=scores, marks=[mark]), step)

    @precondition(lambda self: self.next > 0)
    @rule(back=st.integers(0, 3), data=st.data())
    def fence(self, back: int, data: st.DataObject) -> None:
        after = max(-1, self.next - 1 - back)
        self.store.fence(FENCED.id, after, "resume")
        self.history = [w for w in self.history if w.step is None or w.step <= after]
        self.next = after + 1
        self.variant = data.draw(st.integers(0, 2))  # sometimes the same content again
        self.fences += 1
        self.compare()

    @precondition(lambda self: self.fences > 0)
    @rule()
    def reclaim_what_is_fenced(self) -> None:
        """Whether the fenced rows are kept or gone makes no difference to anybody."""
        evicted = logical_dump(self.store)["stats"]["by_status"].get("evicted", 0)
        if not evicted:
            self.store.reclaim(fenced=True)
            self.compare()

    def steady_row(self, row: int) -> TrajectoryId:
        return STEADY.row_id(self.steady - 1, row)

    def compare(self) -> None:
        with new_store() as never:
            for written in self.history:
                never.commit(written.batch)
            assert logical_dump(self.store) == logical_dump(never)
        assert list(self.store.verify()) == []

    def teardown(self) -> None:
        try:
            self.compare()
        finally:
            self.open.close()


TestFencing = Fencing.TestCase
TestFencing.settings = settings(
    max_examples=20,
    stateful_step_count=14,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
