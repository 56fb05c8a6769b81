"""adaptive_replay: rehearse more when earlier domains are being lost, less when they are kept.

After stage t the drop of domain j < t is R[j][j] - R[t][j]: its first reading is the one taken
right after it was trained on. With the largest drop d over j < t,

    d >  threshold      ratio <- min(max_ratio, ratio + rate)
    d < -threshold / 2  ratio <- max(min_ratio, ratio - rate / 2)

so the damage that one domain does is answered in the next one.
"""

from __future__ import annotations

from recollect.config.schema.continual import RehearsalSettings
from recollect.continual.matrix import ScoreMatrix, Undefined, minus
from recollect.continual.methods.replay import Replay


class AdaptiveReplay(Replay):
    """Rehearses a share that follows measured forgetting."""

    def ratio(self, number: int) -> float:
        """The share of a stage, from everything that was examined before it."""
        return adapted_ratio(self.config.continual.replay, self.journey.matrix(), number)


def adapted_ratio(wanted: RehearsalSettings, matrix: ScoreMatrix, number: int) -> float:
    """Follow the rule through the stages before `number`."""
    ratio = wanted.ratio
    for stage in range(1, number):
        drops = [minus(matrix.score(j, j), matrix.score(stage, j)) for j in range(stage)]
        known = [drop for drop in drops if not isinstance(drop, Undefined)]
        worst = max(known, default=0.0)
        if worst > wanted.threshold:
            ratio = min(wanted.max_ratio, ratio + wanted.rate)
        elif worst < -wanted.threshold / 2:
            ratio = max(wanted.min_ratio, ratio - wanted.rate / 2)
    return ratio
