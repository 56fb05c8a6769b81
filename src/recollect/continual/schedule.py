"""The stages of a continual run: which domains each trains on, with how many steps, from where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from recollect.config.schema.config import Config
from recollect.envs.base import Environment
from recollect.errors import BadContinual

Kind = Literal["stage", "joint", "single"]

_PREFIXES = {"stage": "{:02d}", "single": "single"}


@dataclass(frozen=True, slots=True)
class Stage:
    """One piece of training. `number` counts the domains; of references it is the domain's own.

    `name` is its folder's; `label` is how its model is called in the matrix: "0", "joint", ...
    """

    kind: Kind
    number: int
    domains: tuple[str, ...]
    steps: int

    @property
    def name(self) -> str:
        """The folder's name."""
        if self.kind == "joint":
            return "joint"
        return f"{_PREFIXES[self.kind].format(self.number)}-{self.domains[0]}"

    @property
    def label(self) -> str:
        """What its model is called in the score matrix."""
        return str(self.number) if self.kind == "stage" else self.name


def domain_order(config: Config, environment: Environment) -> tuple[str, ...]:
    """Give the domains in their order; BadContinual where one is not there or not wanted."""
    known, wanted = tuple(environment.domains), config.environment.domains
    order = config.continual.task_order or wanted or known
    missing = [domain for domain in order if domain not in known]
    if missing:
        raise BadContinual(
            f"{environment.name} has no domain {missing[0]!r}",
            f"Its domains: {', '.join(known)}. Set continual.task_order.",
        )
    left_out = [domain for domain in order if wanted is not None and domain not in wanted]
    if left_out:
        raise BadContinual(
            f"continual.task_order has {left_out[0]!r}, which environment.domains leaves out",
            "Let both have the same domains, or remove environment.domains.",
        )
    return tuple(order)


def stages_of(config: Config, order: tuple[str, ...]) -> list[Stage]:
    """List everything that is trained: the domains in order, then the references."""
    steps = config.run.steps
    stages = [Stage("stage", number, (domain,), steps) for number, domain in enumerate(order)]
    if "joint" in config.continual.references:
        stages.append(Stage("joint", 0, order, steps * len(order)))
    if "single" in config.continual.references:
        # The first domain is learnt from the base in any case; its stage is its own reference
        # only where the method leaves it alone, so it is trained again.
        stages += [Stage("single", number, (d,), steps) for number, d in enumerate(order)]
    return stages
