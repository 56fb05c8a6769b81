"""Credit: does a note help? Attempts with it beside attempts without any, in the same groups.

Within a group task and policy are the same and chance decides who gets the note, so the difference
of success rates is an unbiased estimate of what the note does. Groups weigh by their rows, which
leaves it so while all have the same share of attempts with notes. Attempts with the note that had
nobody beside them, because all of their group had notes or a service reported them, count for its
success rate and not for its gain: their tasks may be harder than those of the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from recollect.note_ledger import NoteTrial
from recollect.types import NoteId

_Z = 1.959964  # two-sided 95 %


@dataclass(frozen=True, slots=True)
class Credit:
    """What a note has done so far. None means that nobody can know yet, never 0.

    `rows` and `wins` count attempts with it, `bare_rows` and `bare_wins` attempts without any note
    in the groups that it was used in; `share` is its part of all uses of notes. `alone_rows` and
    `alone_wins` are those of the attempts with it in whose groups nobody was without.
    """

    rows: int = 0
    wins: int = 0
    bare_rows: int = 0
    bare_wins: int = 0
    share: float | None = None
    alone_rows: int = 0
    alone_wins: int = 0

    @property
    def compared(self) -> int:
        """Attempts with the note that stand beside attempts without any."""
        return self.rows - self.alone_rows

    @property
    def rate(self) -> float | None:
        """Success rate with the note."""
        return self.wins / self.rows if self.rows else None

    @property
    def bare_rate(self) -> float | None:
        """Success rate without any note."""
        return self.bare_wins / self.bare_rows if self.bare_rows else None

    @property
    def gain(self) -> float | None:
        """How much more often attempts succeed with it, where both were made."""
        if not self.compared or self.bare_rate is None:
            return None
        return (self.wins - self.alone_wins) / self.compared - self.bare_rate

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval of the success rate with the note (Wilson)."""
        return wilson(self.wins, self.rows)

    @property
    def bare_interval(self) -> tuple[float, float] | None:
        """95 % interval of the success rate without any note (Wilson)."""
        return wilson(self.bare_wins, self.bare_rows)

    @property
    def gain_interval(self) -> tuple[float, float] | None:
        """95 % interval of the gain.

        Newcombe 1998, method 10: with p, q the two rates and (l, u) their Wilson intervals,

            lower = (p - q) - sqrt((p - l_p)^2 + (u_q - q)^2)
            upper = (p - q) + sqrt((u_p - p)^2 + (q - l_q)^2)
        """
        wins = self.wins - self.alone_wins
        mine, theirs, gain = wilson(wins, self.compared), self.bare_interval, self.gain
        if mine is None or theirs is None or gain is None:
            return None
        p, q = wins / self.compared, self.bare_wins / self.bare_rows
        low = math.hypot(p - mine[0], theirs[1] - q)
        high = math.hypot(mine[1] - p, q - theirs[0])
        return max(-1.0, gain - low), min(1.0, gain + high)


def wilson(wins: int, rows: int) -> tuple[float, float] | None:
    """95 % interval of a success rate (Wilson 1927); None without attempts."""
    if not rows:
        return None
    rate = wins / rows
    middle = rate + _Z**2 / (2 * rows)
    half = _Z * math.sqrt(rate * (1 - rate) / rows + _Z**2 / (4 * rows**2))
    scale = 1 + _Z**2 / rows
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


class CreditBook:
    """Trials added up as they come, note by note."""

    def __init__(self, trials: Iterable[NoteTrial] = ()) -> None:
        self._sums: dict[NoteId, list[int]] = {}
        self.add(trials)

    def add(self, trials: Iterable[NoteTrial]) -> None:
        """Add more trials."""
        for trial in trials:
            mine = self._sums.setdefault(trial.note, [0] * 6)
            counts: tuple[int, ...] = (trial.rows, trial.wins, trial.bare_rows, trial.bare_wins)
            if not trial.bare_rows:
                counts = (*counts, trial.rows, trial.wins)
            for place, count in enumerate(counts):
                mine[place] += count

    def credits(self) -> dict[NoteId, Credit]:
        """Give the credit of every note that was tried; shares are of all uses in the book."""
        every = sum(counts[0] for counts in self._sums.values())
        found = {}
        for note, (rows, wins, bare_rows, bare_wins, *alone) in self._sums.items():
            share = rows / every if every else None
            found[note] = Credit(rows, wins, bare_rows, bare_wins, share, alone[0], alone[1])
        return found
