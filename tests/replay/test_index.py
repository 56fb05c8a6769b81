"""The index draws as a plain recomputation would, and as one made anew, whatever came before."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from recollect.replay import blocks, calendar, task_rows, task_totals
from recollect.replay.book import Result, Retirement, TaskBook
from recollect.replay.eligibility import Now, Rules
from recollect.replay.index import DrawIndex, Scheme
from recollect.replay.pool import Pool
from recollect.replay.task_columns import TaskColumns
from recollect.replay.weights import Weighing
from reporting import report

from .feed import Feed, plain_allowed, plain_weights
from .plain_quotas import Quota, chances
from .pools import PRINTS, RUN
from .test_sampling import check_frequencies

STEPS = 25


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of few rows, so that a small pool has many of them."""
    monkeypatch.setattr(blocks, "BLOCK", 4)
    monkeypatch.setattr(calendar, "BLOCK", 4)
    monkeypatch.setattr(task_rows, "_LEAST", 5)
    monkeypatch.setattr(task_totals, "_SHARE", 2)


@dataclass
class Side:
    """Everything that one replayer has."""

    pool: Pool
    tasks: TaskColumns
    index: DrawIndex


def side(feed: Feed, book: TaskBook, scheme: Scheme) -> Side:
    pool = Pool(feed)  # type: ignore[arg-type]
    known = [task.key for number, task in feed.tasks().items() if number % 7]
    tasks = TaskColumns(book, known)
    tasks.follow(pool.tasks)
    return Side(pool, tasks, DrawIndex(pool, tasks, scheme))


def quotas(each: Side, scheme: Scheme, count: int) -> list[Quota]:
    numbers, found = each.pool.facts["task"], []
    if scheme.domain_share is not None or scheme.domains_alike:
        share = 1.0 if scheme.domain_share is None else scheme.domain_share
        most = max(1, int(share * count + 1e-9))
        found.append(Quota(each.tasks.domain[numbers], most, scheme.domains_alike))
    if scheme.per_task is not None:
        found.append(Quota(numbers, scheme.per_task))
    return found


def check(each: Side, scheme: Scheme, rules: Rules, now: Now, taken: NDArray[np.int64]) -> None:
    """Compare with the plain reading: who, how heavy, how likely."""
    pool, tasks, index = each.pool, each.tasks, each.index
    allowed = plain_allowed(pool, tasks, rules, now)
    allowed[taken] = False
    np.testing.assert_array_equal(index.allowed, allowed)
    weights = plain_weights(pool, tasks, scheme.weighing, now, allowed)
    relative = index.weights(np.arange(len(pool)))
    if weights.any():
        largest = weights.argmax()
        scale = weights[largest] / relative[largest]
        np.testing.assert_allclose(relative * scale, weights, rtol=1e-9)
    success = allowed & pool.facts["success"]
    if scheme.successes_by_weight:
        success &= weights > 0
    numbers = pool.facts["task"][success]
    assert index.solved_tasks().tolist() == np.unique(numbers).tolist()
    for number in index.solved_tasks()[:3]:
        here = np.flatnonzero(success & (pool.facts["task"] == number))
        assert index.successes(int(number)).tolist() == here.tolist()
    if scheme.needs_advantage:
        weights[np.nan_to_num(pool.advantage) == 0] = 0
    assert index.possible == np.count_nonzero(weights)
    for count in (1, 9):
        told = chances(weights, quotas(each, scheme, count), count)
        drawn = index.draw(count, np.random.default_rng(count))
        np.testing.assert_allclose(drawn.probabilities, told[drawn.positions], rtol=1e-7)
        assert (np.diff(drawn.positions) > 0).all()
        assert drawn.positions.size == round(float(told.sum()))
        found = index.chances(count)
        np.testing.assert_allclose(np.sort(found[found > 1e-300]), np.sort(told[told > 1e-300]))


def check_same(one: DrawIndex, other: DrawIndex, seed: int) -> None:
    """Bit for bit."""
    for count in (1, 9):
        drawn, again = (each.draw(count, np.random.default_rng(seed)) for each in (one, other))
        np.testing.assert_array_equal(drawn.positions, again.positions)
        np.testing.assert_array_equal(drawn.probabilities, again.probabilities)
    np.testing.assert_array_equal(one.chances(9), other.chances(9))


class History:
    """A random but repeatable life of a pool, its tasks and its rules."""

    def __init__(self, seed: int, scheme: Scheme) -> None:
        self.rng = np.random.default_rng(seed)
        self.feed = Feed(30)
        self.feed.add(self.rng, 60, 2, 0)
        self.book = TaskBook(RUN, Retirement(True, 4, 5))
        self.rules = Rules(PRINTS, 12, 3, 2, 0.05, 1.97, needs_logprobs=bool(seed % 2))
        self.now = Now(RUN, 1, 2)
        self.scheme = scheme
        self.side = side(self.feed, self.book, scheme)

    def go_on(self) -> list[str]:
        """A few things happen, then time passes; says what."""
        names = ["add", "score", "use", "evict", "back", "solve", "limit", "rewind", "nothing"]
        odds = np.array([5, 4, 4, 1, 1, 3, 0.7, 0.4, 2])
        done = [str(name) for name in self.rng.choice(names, 3, p=odds / odds.sum())]
        for name in done:
            getattr(self, name)()
        later, older = (int(value) for value in self.rng.integers(0, 3, 2))
        self.now = Now(RUN, self.now.step + later, self.now.version + older)
        return done

    def some(self, share: float, live: bool = True) -> NDArray[np.int64]:
        rows = np.flatnonzero(self.feed.live == live)
        return rows[self.rng.random(rows.size) < share]

    def add(self) -> None:
        self.feed.add(self.rng, int(self.rng.integers(1, 12)), self.now.version, self.now.step)

    def score(self) -> None:
        self.feed.score(self.rng, self.some(0.1))

    def use(self) -> None:
        self.feed.use(self.some(0.1), self.now.step)

    def evict(self) -> None:
        self.feed.set_live(self.some(0.08), False)

    def back(self) -> None:
        self.feed.set_live(self.some(0.3, live=False), True)

    def solve(self) -> None:
        chosen = self.rng.choice(list(self.feed.tasks()), 4, replace=False)
        results = [
            Result(self.feed.tasks()[int(n)].key, int(self.rng.integers(0, 5)), 4) for n in chosen
        ]
        self.side.tasks.apply(self.book.update(self.now.step, results))

    def limit(self) -> None:
        age, uses = int(self.rng.integers(4, 14)), int(self.rng.integers(2, 4))
        self.rules = replace(self.rules, max_age=None if age == 13 else age, max_uses=uses)

    def rewind(self) -> None:
        self.now = Now(RUN, max(0, self.now.step - 3), max(0, self.now.version - 3))

    def nothing(self) -> None:
        pass

    def update(self, each: Side) -> None:
        each.pool.refresh()
        each.tasks.follow(each.pool.tasks)
        each.index.update(self.rules, self.now)


ADVANTAGE = Weighing("advantage", 0.5, 3.0, "gaussian", sigma=0.3)
SCHEMES = {
    "rows": Scheme(ADVANTAGE, needs_advantage=True),
    "tasks": Scheme(Weighing("stored", 0.7, None, "linear", floor=0.1), per_task=2),
    "domains": Scheme(ADVANTAGE, successes_by_weight=True, domain_share=0.4),
    # A half-life that crosses epochs every few versions.
    "both": Scheme(replace(ADVANTAGE, half_life=0.1), True, True, 1, 0.5),
    "alike": Scheme(ADVANTAGE, domains_alike=True),
    "alike, and at most": Scheme(ADVANTAGE, True, False, 1, 0.5, True),
    "equal": Scheme(Weighing("equal", half_life=2.0)),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.usefixtures("small")
def test_whatever_happens(name: str, seed: int) -> None:
    """As a plain recomputation, as an index made anew, and under the numbers of a resumed run."""
    scheme, happened = SCHEMES[name], list[str]()
    history = History(seed + 10, scheme)
    for number in range(STEPS):
        happened += history.go_on()
        history.update(history.side)
        twin = side(history.feed.copy(first=1000, gap=3), history.book, scheme)
        history.update(twin)
        check_same(history.side.index, twin.index, number)
        check(history.side, scheme, history.rules, history.now, np.empty(0, np.int64))
        # Rows that a step took are out of it; the next update brings them back.
        taken = history.side.index.draw(3, np.random.default_rng(number)).positions
        for each in (history.side, twin):
            each.index.take(taken)
        check_same(history.side.index, twin.index, number)
        check(history.side, scheme, history.rules, history.now, taken)
    report(f"{name}, seed {seed}: {' '.join(happened)}")


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.usefixtures("small")
def test_rows_come_as_often_as_is_told(name: str) -> None:
    history = History(5, SCHEMES[name])
    history.update(history.side)
    pool, index, trials = history.side.pool, history.side.index, 1500
    found, told = np.zeros(len(pool)), np.zeros(len(pool))
    rng = np.random.default_rng(1)
    for _ in range(trials):
        drawn = index.draw(6, rng)
        found[drawn.positions] += 1
        told[drawn.positions] = drawn.probabilities
    assert told.sum() == pytest.approx(drawn.positions.size, abs=0.05), "but for the rarest"
    check_frequencies(found / trials, told, trials)


def test_a_large_pool() -> None:
    """More rows than draws times rows of a block: blocks are drawn, and few rows are read."""
    rng, scheme = np.random.default_rng(3), SCHEMES["rows"]
    feed, book = Feed(2000), TaskBook(RUN, Retirement(False, 4, 5))
    feed.add(rng, 40_000, 2, 0)
    one = side(feed, book, scheme)
    rules, now = Rules(PRINTS, max_age=50, cooldown=1), Now(RUN, 1, 2)
    for step in range(3):
        one.pool.refresh()
        one.index.update(rules, now)
        other = side(feed, book, scheme)
        other.index.update(rules, now)
        check_same(one.index, other.index, step)
        drawn = one.index.draw(30, np.random.default_rng(step))
        allowed = plain_allowed(one.pool, one.tasks, rules, now)
        weights = plain_weights(one.pool, one.tasks, scheme.weighing, now, allowed)
        weights[np.nan_to_num(one.pool.advantage) == 0] = 0
        told = chances(weights, [], 30)[drawn.positions]
        np.testing.assert_allclose(drawn.probabilities, told, rtol=1e-9)
        feed.use(drawn.positions, step)
        feed.score(rng, drawn.positions)
        feed.add(rng, 64, now.version, step)
        now = Now(RUN, now.step + 1, now.version + 1)


def test_a_step_looks_at_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    feed, book = Feed(500), TaskBook(RUN, Retirement(False, 4, 5))
    feed.add(rng, 20_000, 2, 0)
    each = side(feed, book, SCHEMES["rows"])
    looked: list[int] = []
    whole = DrawIndex._look_at

    def counted(self: DrawIndex, rows: NDArray[np.int64]) -> None:
        looked.append(rows.size)
        whole(self, rows)

    monkeypatch.setattr(DrawIndex, "_look_at", counted)
    rules = Rules(PRINTS, max_age=100, max_uses=3, cooldown=2)
    for step in range(1, 6):
        each.pool.refresh()
        each.index.update(rules, Now(RUN, step, step + 1))
        feed.use(np.arange(10), step)
        state = book.update(step, [Result(feed.tasks()[step].key, 1, 4)])
        each.tasks.apply(state)
    assert looked[0] == 20_000
    most = np.bincount(feed.pack["task"]).max()
    assert all(10 <= rows <= 10 + most for rows in looked[1:])


def test_an_empty_pool() -> None:
    for scheme in SCHEMES.values():
        each = side(Feed(3), TaskBook(RUN, Retirement(False, 4, 5)), scheme)
        each.index.update(Rules(PRINTS), Now(RUN, 1, 1))
        assert each.index.possible == 0
        assert each.index.draw(5, np.random.default_rng(0)).positions.size == 0
        assert each.index.chances(5).size == 0
        assert each.index.solved_tasks().size == 0
