"""The configuration of one stage: that of the journey, with its domain, start and steps."""

from __future__ import annotations

from recollect.config.schema.config import Config
from recollect.continual.imitation import imitates, imitation_settings
from recollect.continual.journey import Journey
from recollect.continual.methods.sequential import Sequential
from recollect.continual.schedule import Stage
from recollect.train.folder import absolute_model


def stage_config(journey: Journey, stage: Stage, method: Sequential) -> Config:
    """Make the settings of a stage; references are trained without the method, from the base."""
    ours = stage.kind == "stage"
    name = method.starts_from(stage.number) if ours else journey.config.model.name
    config = _plain(journey.config, stage, name)
    if imitates(config):
        config = imitation_settings(config)
    return method.settings(stage.number, config) if ours else config


def _plain(config: Config, stage: Stage, start: str) -> Config:
    algo = config.algo
    if algo.kl_coef and algo.kl_reference is None and start != config.model.name:
        # The reference stays the base, as if the domains were one run.
        base = absolute_model(config.model.name)
        algo = algo.model_copy(update={"kl_reference": base})
    run = {"steps": stage.steps, "name": ""}
    return config.model_copy(
        update={
            "run": config.run.model_copy(update=run),
            "model": config.model.model_copy(update={"name": start}),
            "algo": algo,
            "environment": config.environment.model_copy(update={"domains": stage.domains}),
            "eval": config.eval.model_copy(update={"at_start": False}),
            "store": config.store.model_copy(update={"path": None}),
        }
    )
