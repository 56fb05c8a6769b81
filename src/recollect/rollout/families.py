"""Prompts that begin alike: tasks of one domain have its rules and its tools in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    be said. A prompt that would cost its family more than half of what that has in common begins
    one of its own: two domains may open with the same sentence.
    """
    families: list[Family] = []
    members: list[Prompt] = []
    common = 0
    for prompt in [*sorted(prompts), ()]:
        alike = min(_alike(members[0], prompt), common) if members else 0
        if members and alike >= least and 2 * alike > common:
            members.append(prompt)
            common = alike
            continue
        if len(members) > 1:
            families.append(Family(tuple(members), common))
        members, common = [prompt], len(prompt) - 1
    return families


def _alike(one: Prompt, other: Prompt) -> int:
    """How many tokens both begin with, short of the whole of either."""
    most = min(len(one), len(other)) - 1
    return next((at for at in range(most) if one[at] != other[at]), max(most, 0))
