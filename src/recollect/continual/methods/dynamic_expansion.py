"""dynamic_expansion: a model that grows by as much as a domain is hard for it.

Before a domain is trained, its score s under the model so far is known from the examination of the
stage before (of the base, for the first):

    width = largest if s < hard_below, smallest if s > easy_above, else width

A column of that width is added beside every layer and trained; everything else is frozen
(after Yoon et al. 2018, Dynamically Expandable Networks: capacity by need). Columns add up to one
model, h + sum_j W_j a_j, so domains share what was learnt and no routing is needed; unlike in
`progressive`, a later column can still spoil what an earlier one does.
"""

from __future__ import annotations

from recollect.continual.journey import BASE
from recollect.continual.methods.progressive import Progressive
from recollect.models.columns import Mode


class DynamicExpansion(Progressive):
    """Adds columns by need."""

    mode: Mode = "summed"

    def width(self, number: int) -> int:
        """Width by the domain's score before it is trained."""
        wanted = self.config.continual.columns
        before = self.journey.examined(BASE if number == 0 else str(number - 1))
        assert before is not None, "a stage begins when the one before was examined"
        scores = before.of(self.journey.order[number]).by_task(self.config.continual.score)
        score = sum(scores) / len(scores)
        if score < wanted.hard_below:
            return wanted.largest
        return wanted.smallest if score > wanted.easy_above else wanted.width

    @property
    def lateral(self) -> bool:
        """Columns that add up need no links."""
        return False
