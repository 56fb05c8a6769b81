"""Draws from many rows that look at few of them: sums of the weights, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recollect.replay.groups import Floats, Ints, one_of_each, spans
from recollect.replay.sampling import NOTHING, Drawn, systematic

# Rows: few enough to go through, enough for the blocks to be few themselves. Below 256, so that a
# number of rows in a block fits a byte.
BLOCK = 128

_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """How likely rows are when so many are drawn: 1 for the certain ones, w / total * left else.

    `sums` [blocks] are those of the rows that are not certain, `total` the sum of them all.
    """

    certain: Ints
    left: int
    total: float
    sums: Floats

    def chances(self, rows: Ints, weights: Floats) -> NDArray[np.float64]:
        """Inclusion probability of rows [positions, ascending] with a weight, given the weights."""
        found = np.zeros(rows.size)
        if self.left > 0:
            found[:] = weights / self.total * self.left
        if self.certain.size and rows.size:
            places = np.minimum(np.searchsorted(rows, self.certain), rows.size - 1)
            found[places[rows[places] == self.certain]] = 1.0
        return np.clip(found, 0.0, 1.0)


class Blocks:
    """Sum, largest and number of the weights above 0 in each block of rows, for each label apart.

    `weights` gives the weights of all rows now, `label_of` the labels of some. Nothing is added up
    over time: a block that was touched is summed again from its rows, so that what is known here is
    a function of the weights alone, whatever happened before.
    """

    def __init__(
        self,
        weights: Callable[[], NDArray[np.float64]],
        label_of: Callable[[Ints], NDArray[np.integer]],
    ) -> None:
        self._weights = weights
        self._label_of = label_of
        self._size = 0
        self._sums = np.zeros((1, 0))
        self._tops = np.zeros((1, 0))
        self._counts = np.zeros((1, 0), np.int64)
        self._dirty = np.ones(0, np.bool_)

    def follow(self, rows: int, labels: int, moved: bool) -> None:
        """Take in that there are so many rows and labels; `moved` if rows have other positions."""
        blocks = -(-rows // BLOCK)
        if rows > self._size and self._size % BLOCK:
            # With more rows a block is summed in another order, even if they weigh nothing.
            self._dirty[self._size // BLOCK] = True
        self._size = rows
        if moved or blocks < self._dirty.size or labels != len(self._sums):
            self._resize(blocks, labels)
        elif blocks > self._dirty.size:
            held = slice(self._dirty.size)
            before = self._sums, self._tops, self._counts, self._dirty
            self._resize(blocks, labels)
            self._sums[:, held], self._tops[:, held], self._counts[:, held] = before[:3]
            self._dirty[held] = before[3]

    def touch(self, rows: Ints) -> None:
        """Take in that the weights of these rows changed."""
        self._dirty[rows // BLOCK] = True

    def totals(self) -> NDArray[np.float64]:
        """Sum of the weights by label."""
        self._settle()
        return np.asarray(self._sums.sum(axis=1))

    def counts(self) -> Ints:
        """Number of rows with a weight by label."""
        self._settle()
        return np.asarray(self._counts.sum(axis=1))

    def cut(self, count: int, label: int = 0) -> Cut:
        """Find out how likely the rows of a label are when `count` of them are drawn.

        As `sampling.inclusion` does: rows whose share would be 1 or more are certain, and what
        they cannot take goes to the others, among whom there may be some again.
        """
        self._settle()
        sums, tops = self._sums[label].copy(), self._tops[label].copy()
        if self._counts[label].sum() <= count:
            rows = self._rows(np.flatnonzero(sums), label)
            return Cut(rows, 0, 0.0, np.zeros_like(sums))
        certain = np.empty(0, np.int64)
        while certain.size < count:
            left, total = count - certain.size, float(sums.sum())
            high = np.flatnonzero(tops / total * left >= 1.0)
            if not high.size:
                return Cut(np.sort(certain), left, total, sums)
            with self._without(certain) as weights:
                rows = self._rows(high, label)
                certain = np.append(certain, rows[weights[rows] / total * left >= 1.0])
            with self._without(certain):
                sums[high], tops[high], _ = self._measure(high, label)
        return Cut(np.sort(certain), 0, float(sums.sum()), sums)

    def draw(self, cut: Cut, rng: np.random.Generator, label: int = 0) -> Ints:
        """Draw rows [positions, ascending] with the probabilities of a cut.

        Systematic sampling of items: a block whose rows together are expected less than once is one
        item, the rows of the others are items themselves. A block that is drawn gives one of its
        rows, by weight: so a row is drawn with probability (left sum / total) (w / sum).
        """
        if cut.left <= 0:
            return cut.certain
        expected = cut.sums / cut.total * cut.left
        light, heavy = np.flatnonzero((expected > 0) & (expected < 1)), expected >= 1
        with self._without(cut.certain) as weights:
            rows = self._rows(np.flatnonzero(heavy), label)
            items = np.concatenate((expected[light], weights[rows] / cut.total * cut.left))
            hit = systematic(items, cut.left, rng)
            blocks = light[np.sort(hit[hit < light.size])]
            inside, starts = self._span(blocks)
            here = self._mine(inside, weights[inside], label)
            chosen = inside[one_of_each(here, cut.sums[blocks], starts, rng)]
        alone = rows[hit[hit >= light.size] - light.size]
        return np.sort(np.concatenate((cut.certain, alone, chosen)))

    def draw_rows(self, count: int, rng: np.random.Generator) -> Drawn:
        """Draw up to `count` rows of any label, where labels are not kept apart."""
        if count <= 0:
            return NOTHING
        cut = self.cut(count)
        rows = self.draw(cut, rng)
        return Drawn(rows, np.maximum(cut.chances(rows, self._weights()[rows]), _TINY))

    def rows(self, label: int = 0) -> Ints:
        """All rows of a label that have a weight: a look at every row."""
        self._settle()
        return self._rows(np.flatnonzero(self._sums[label]), label)

    def _rows(self, blocks: Ints, label: int) -> Ints:
        """Rows with a weight in blocks [ascending]: their positions, ascending."""
        rows, _ = self._span(blocks)
        return rows[self._mine(rows, self._weights()[rows], label) > 0]

    def _span(self, blocks: Ints) -> tuple[Ints, Ints]:
        """All rows of blocks, and where those of each block begin."""
        begins = blocks * BLOCK
        return spans(begins, np.minimum(begins + BLOCK, self._size) - begins)

    def _mine(self, rows: Ints, weights: Floats, label: int) -> Floats:
        if len(self._sums) == 1:
            return weights
        return np.where(self._label_of(rows) == label, weights, 0.0)

    @contextmanager
    def _without(self, rows: Ints) -> Iterator[NDArray[np.float64]]:
        """The weights, with 0 for some rows while they are looked at."""
        weights = self._weights()
        had = weights[rows]
        weights[rows] = 0.0
        try:
            yield weights
        finally:
            weights[rows] = had

    def _measure(self, blocks: Ints, label: int) -> tuple[Floats, Floats, Ints]:
        """Sum, largest and number of the weights in blocks."""
        weights = self._weights()
        if blocks.size == self._dirty.size:  # all of them: as they lie
            starts = blocks * BLOCK
            rows = np.arange(weights.size) if len(self._sums) > 1 else blocks
            values = self._mine(rows, weights, label)
        else:
            rows, starts = self._span(blocks)
            values = self._mine(rows, weights[rows], label)
        filled = np.add.reduceat((values > 0).view(np.uint8), starts, dtype=np.uint8)
        sums, tops = np.add.reduceat(values, starts), np.maximum.reduceat(values, starts)
        return sums, tops, filled.astype(np.int64)

    def _settle(self) -> None:
        dirty = np.flatnonzero(self._dirty)
        if not dirty.size:
            return
        if dirty.size > self._dirty.size // 2:
            dirty = np.arange(self._dirty.size)
        for label in range(len(self._sums)):
            found = self._measure(dirty, label)
            self._sums[label, dirty], self._tops[label, dirty], self._counts[label, dirty] = found
        self._dirty[:] = False

    def _resize(self, blocks: int, labels: int) -> None:
        self._sums = np.zeros((labels, blocks))
        self._tops = np.zeros((labels, blocks))
        self._counts = np.zeros((labels, blocks), np.int64)
        self._dirty = np.ones(blocks, np.bool_)
