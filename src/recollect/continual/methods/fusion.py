"""fusion: after each domain, the models of all domains so far become one.

    average          theta = mean_k theta_k                        (Wortsman et al. 2022)
    weighted         theta = sum_k s_k theta_k / sum_k s_k         s_k: score of model k on search
                                                                   tasks of domain k, >= 0
    task_arithmetic  theta = base + scale sum_k (theta_k - base)   (Ilharco et al. 2023)
    fisher           theta_i = sum_k F_k,i theta_k,i / sum_k F_k,i (Matena and Raffel 2022)

The base is the model before the first domain. The merged model is the one that is examined, saved
and gone on with (`continual.fusion.start=merged`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from recollect.canonical import canonical_json, strict_json
from recollect.continual import merging
from recollect.continual.examiner import examine
from recollect.continual.fisher import (
    Weights,
    load_weights,
    save_weights,
    trained_weights,
)
from recollect.continual.journey import write_whole
from recollect.continual.methods.sequential import Sequential
from recollect.models.loading import Policy
from recollect.train.parts import policy_from

_FIGURES = "fusion.json"
_FISHER = "fisher.safetensors"
Figures = dict[str, float]


class Fusion(Sequential):
    """Merges by a fixed rule."""

    @property
    def weighs_by_fisher(self) -> bool:
        """Tell whether Fisher information takes part."""
        return self.config.continual.fusion.rule == "fisher"

    @property
    def searches(self) -> bool:
        """Tell whether models are tried on search tasks."""
        return self.config.continual.fusion.rule == "weighted"

    def splits(self) -> tuple[str, ...]:
        """Models are tried on tasks of their own."""
        return (self.config.continual.fusion.search_split,) if self.searches else ()

    def starts_from(self, number: int) -> str:
        """Begin with the merged model, or with the base."""
        if self.config.continual.fusion.start == "base":
            return self.config.model.name
        return super().starts_from(number)

    def finish(self, number: int) -> None:
        """Merge, once, and save the result as an ordinary model folder."""

        def write(folder: Path) -> None:
            policy = self.policy_after(number)
            if self.weighs_by_fisher:
                save_weights(folder / _FISHER, ("fisher", self.measure(number, policy)))
            models = [trained_weights(self.policy_after(k)) for k in range(number)]
            models.append(trained_weights(policy))
            merged, figures = self.merge(number, policy, models, folder)
            put(policy, merged)
            policy.save(folder)
            content: Any = figures
            (folder / _FIGURES).write_text(canonical_json(content), encoding="utf-8")

        write_whole(self.journey.state(number), write)

    def model(self, number: int) -> str:
        """The merged model stands for the stage."""
        return str(self.journey.state(number))

    def summary(self, number: int) -> Mapping[str, float]:
        """Say what was kept when merging."""
        content: Any = strict_json((self.journey.state(number) / _FIGURES).read_bytes())
        return {str(name): float(value) for name, value in content.items()}

    def merge(
        self,
        number: int,
        policy: Policy,
        models: Sequence[Weights],
        folder: Path,
    ) -> tuple[Weights, Figures]:
        """Merge by the rule of the configuration; gives the weights and figures to keep.

        `policy` has the weights of the stage and may be used to try others; `folder` is the state
        that is being written.
        """
        wanted = self.config.continual.fusion
        if self.weighs_by_fisher:
            files = [*(self.journey.state(k) for k in range(number)), folder]
            fishers = [load_weights(file / _FISHER, policy.device)["fisher"] for file in files]
            return merging.fisher_weighted(models, fishers), {}
        if wanted.rule == "task_arithmetic":
            first = self.journey.run(self.journey.stage(0)).load()
            base = trained_weights(policy_from(first, None))

            def arithmetic(all_of_them: Sequence[Weights]) -> Weights:
                return merging.task_arithmetic(all_of_them[0], all_of_them[1:], wanted.scale)

            return merged_by([base, *models], arithmetic)
        if wanted.rule == "average":
            return by_shares(models, [1 / len(models)] * len(models))
        scores = [self.summary(k)["own_score"] for k in range(number)]
        scores.append(self.score(policy, (self.journey.order[number],)))
        merged, figures = by_shares(models, merging.performance_shares(scores))
        return merged, {"own_score": scores[-1], **figures}

    def score(self, policy: Policy, domains: Sequence[str]) -> float:
        """Mean score of a policy on the search tasks of some domains."""
        wanted, config = self.config.continual.fusion, self.config
        search = {"split": wanted.search_split, "tasks": wanted.search_tasks, "rows": 1,
                  "temperature": 0.0}  # fmt: skip
        config = config.model_copy(update={"eval": config.eval.model_copy(update=search)})
        found = examine(config, self.environment, policy, "search", domains)
        policy.model.train()
        kind = self.config.continual.score
        means = [each.by_task(kind) for each in found.domains]
        return sum(sum(each) / len(each) for each in means) / len(means)


def by_shares(models: Sequence[Weights], shares: Sequence[float]) -> tuple[Weights, Figures]:
    """Average with shares."""
    merged, figures = merged_by(models, lambda found: merging.average(found, shares))
    return merged, {**figures, **{f"share_{k}": share for k, share in enumerate(shares)}}


def merged_by(
    models: Sequence[Weights], rule: Callable[[Sequence[Weights]], Weights]
) -> tuple[Weights, Figures]:
    """Apply a rule to weights as they are, or to the products of low-rank adapters."""
    if not merging.is_low_rank(models[0]):
        return rule(models), {}
    products = [merging.to_products(model) for model in models]
    merged = rule([product for product, _ in products])
    weights, lost = merging.from_products(merged, products[0][1], models[0])
    return weights, {"cut_off": lost}


@torch.no_grad()
def put(policy: Policy, weights: Weights) -> None:
    """Write weights into a policy."""
    for name, parameter in policy.trainable():
        parameter.copy_(weights[name])
