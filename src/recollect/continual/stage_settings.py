"""The configuration of one stage: that of the journey, with its domain, start and steps."""

from __future__ import annotations

from recollect.config.loading import load_config
from recollect.config.schema.config import Config
from recollect.continual.imitation import imitates, imitation_settings
from recollect.continual.journey import Journey
from recollect.continual.methods.sequential import Sequential
from recollect.continual.schedule import Stage
from recollect.envs.base import Environment
from recollect.envs.selection import select_tasks
from recollect.errors import BadConfig, BadContinual, UnknownTask
from recollect.train.folder import absolute_model


def check_stages(journey: Journey, method: Sequential) -> None:
    """Refuse settings that only a later stage would refuse, with what was trained before it lost.

    BadContinual, which says of what stage and why.
    """
    for stage in journey.stages:
        config = _settings(journey, stage, method, journey.config.model.name)
        try:
            load_config(config.model_dump(mode="json"))
        except BadConfig as error:
            raise BadContinual(
                f"stage {stage.label} would have settings that do not go together: {error}",
                "The method and what it sets are under continual in docs/config.md.",
            ) from error


def check_tasks(journey: Journey, method: Sequential, environment: Environment) -> None:
    """Refuse splits without tasks of a domain, which only its stage or its examination would miss.

    BadContinual, which says of what split and domain.
    """
    config = journey.config
    for split in dict.fromkeys((config.environment.split, config.eval.split, *method.splits())):
        for domain in journey.order:
            try:
                found = select_tasks(environment, split, (domain,), config.environment.levels)
                lacks = next(iter(found), None) is None
            except UnknownTask:
                lacks = True
            if lacks:
                raise BadContinual(
                    f"{environment.name} has no tasks of domain {domain} in split {split!r}",
                    "It is that of environment.split, eval.split or continual.fusion.search_split; "
                    "see what there is with: recollect env ls",
                )


def stage_config(journey: Journey, stage: Stage, method: Sequential) -> Config:
    """Make the settings of a stage; references are trained without the method, from the base."""
    ours = stage.kind == "stage"
    name = method.starts_from(stage.number) if ours else journey.config.model.name
    return _settings(journey, stage, method, name)


def _settings(journey: Journey, stage: Stage, method: Sequential, start: str) -> Config:
    ours = stage.kind == "stage"
    config = _plain(journey.config, stage, start)
    if imitates(config):
        config = imitation_settings(config)
    return method.settings(stage.number, config) if ours else config


def _plain(config: Config, stage: Stage, start: str) -> Config:
    algo = config.algo
    if algo.kl_coef and algo.kl_reference is None and start != config.model.name:
        # The reference stays the base, as if the domains were one run: the same commit of it, too.
        base = {
            "kl_reference": absolute_model(config.model.name),
            "kl_revision": config.model.revision,
        }
        algo = algo.model_copy(update=base)
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
