"""Prompts that begin alike: tasks of one domain have its rules and its tools in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Prompt = tuple[int, ...]

# A beginning is fed in a pass of its own, so it must save more than that costs.
LEAST_COMMON = 32


@dataclass(frozen=True, slots=True)
class Family:
    """At least two distinct prompts, and how many tokens all of them begin with alike."""

    prompts: tuple[Prompt, ...]
    common: int


def families_of(prompts: Sequence[Prompt], least: int = LEAST_COMMON) -> list[Family]:
    """Put prompts together that have at least `least` tokens in common.

    Every prompt keeps at least one token of its own, which has yet to be read before anything can
    be said. Neighbours that have less than half in common of what either has with its other
    neighbour belong to two families: two domains may open with the same sentence.
    """
    ordered = sorted(prompts)
    alike = [0, *(_alike(one, other) for one, other in pairwise(ordered)), 0]
    families: list[Family] = []
    members: list[Prompt] = []
    common = 0
    for number, prompt in enumerate(ordered):
        here, after = alike[number], alike[number + 1]
        if here >= least and 2 * here > max(common, after):
            common = min(common or here, here)
            members.append(prompt)
            continue
        if len(members) > 1:
            families.append(Family(tuple(members), common))
        members, common = [prompt], 0
    if len(members) > 1:
        families.append(Family(tuple(members), common))
    return families


def _alike(one: Prompt, other: Prompt) -> int:
    """How many tokens both begin with, short of the whole of either."""
    most = min(len(one), len(other)) - 1
    return next((at for at in range(most) if one[at] != other[at]), max(most, 0))
