"""What a score matrix says: what was reached, kept, lost and transferred. Pure functions.

T domains, numbered from 0; t is a stage, the last one unless it is given. Sources: Lopez-Paz and
Ranzato 2017 (Gradient Episodic Memory) for backward and forward transfer; Chaudhry et al. 2018
(Riemannian Walk) for forgetting and intransigence; Diaz-Rodriguez et al. 2018 for means over time.
"""

from __future__ import annotations

from recollect.continual.matrix import Measure, ScoreMatrix, Undefined, mean_of, minus

_FIRST = "one domain has no earlier one"


def average_performance(m: ScoreMatrix, t: int | None = None) -> Measure:
    """AP_t = (1 / (t + 1)) sum_{j <= t} R[t][j]: the mean over the domains seen so far."""
    stage = _stage(m, t)
    return mean_of([m.score(stage, j) for j in range(stage + 1)], "no stage is done")


def average_incremental(m: ScoreMatrix) -> Measure:
    """AIP = mean over stages t of AP_t."""
    return mean_of(
        [average_performance(m, stage) for stage in range(len(m.stages))], "no stage is done"
    )


def learning_accuracy(m: ScoreMatrix) -> Measure:
    """LA = mean over j of R[j][j]: each domain right after it was trained on."""
    return mean_of([m.score(j, j) for j in range(len(m.stages))], "no stage is done")


def backward_transfer(m: ScoreMatrix, t: int | None = None) -> Measure:
    """BWT_t = (1 / t) sum_{j < t} (R[t][j] - R[j][j]); below 0 means that domains were lost."""
    stage = _stage(m, t)
    return mean_of([minus(m.score(stage, j), m.score(j, j)) for j in range(stage)], _FIRST)


def forgetting(m: ScoreMatrix, t: int | None = None) -> Measure:
    """F_t = (1 / t) sum_{j < t} (max_{j <= l < t} R[l][j] - R[t][j]).

    Against the best score since the domain was trained on, as Chaudhry has it: never less than
    -BWT_t, and equal to it at t = 1.
    """
    stage = _stage(m, t)
    return mean_of([_forgotten(m, stage, j) for j in range(stage)], _FIRST)


def forward_transfer(m: ScoreMatrix) -> Measure:
    """FWT = (1 / (T - 1)) sum_{j >= 1} (R[j-1][j] - b[j]): what earlier domains gave in advance."""
    later = range(1, len(m.stages))
    return mean_of([minus(m.score(j - 1, j), m.other("base", j)) for j in later], _FIRST)


def intransigence(m: ScoreMatrix) -> Measure:
    """I = mean over j of J[j] - R[j][j]: what learning in order cost against learning all at once.

    J is the jointly trained model. Above 0 means that the method kept domains from being learnt.
    """
    done = range(len(m.stages))
    return mean_of([minus(m.other("joint", j), m.score(j, j)) for j in done], "no stage is done")


def single_gap(m: ScoreMatrix) -> Measure:
    """Mean over j of R[j][j] - S[j]: a domain in its turn against the same budget on it alone."""
    done = range(len(m.stages))
    return mean_of([minus(m.score(j, j), m.other("single", j)) for j in done], "no stage is done")


def floor_corrected(score: float, floor: float | None) -> Measure:
    """(score - floor) / (1 - floor): 0 is what needs no skill, 1 is everything."""
    if floor is None:
        return Undefined("the floor is not known")
    if floor >= 1:
        return Undefined("the floor leaves nothing to learn")
    return (score - floor) / (1 - floor)


MEASURES = {
    "average_performance": average_performance,
    "average_incremental": average_incremental,
    "learning_accuracy": learning_accuracy,
    "backward_transfer": backward_transfer,
    "forgetting": forgetting,
    "forward_transfer": forward_transfer,
    "intransigence": intransigence,
    "single_gap": single_gap,
}


def _stage(m: ScoreMatrix, t: int | None) -> int:
    return len(m.stages) - 1 if t is None else t


def _forgotten(m: ScoreMatrix, stage: int, domain: int) -> Measure:
    best: Measure = m.score(domain, domain)
    for earlier in range(domain, stage):
        found = m.score(earlier, domain)
        if isinstance(found, Undefined):
            return found
        best = found if isinstance(best, Undefined) else max(best, found)
    return minus(best, m.score(stage, domain))
