"""Carrying out a continual run: train a domain, examine all of them, go on. Read `travel`.

Whatever interrupts it, `travel` on the same folder goes on where it stood: a stage's training
resumes from its newest checkpoint, method state included, and what is finished is not repeated.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from recollect.canonical import canonical_json
from recollect.config.loading import load_config
from recollect.config.schema.config import Config
from recollect.config.showing import as_yaml
from recollect.continual.examination import Examination, write_examination
from recollect.continual.examiner import examine
from recollect.continual.imitation import Imitation, imitates
from recollect.continual.joint import Joint
from recollect.continual.journey import BASE, CONFIG, Journey
from recollect.continual.methods import METHODS
from recollect.continual.methods.sequential import Sequential
from recollect.continual.results import write_results
from recollect.continual.schedule import Stage, domain_order
from recollect.continual.stage_settings import check_stages, check_tasks, stage_config
from recollect.continual.together import together
from recollect.envs.base import Environment
from recollect.envs.registry import load_environment
from recollect.errors import BadContinual
from recollect.models.loading import Policy
from recollect.telemetry import events
from recollect.telemetry.events import Sink
from recollect.train.companion import Companion
from recollect.train.folder import STAGE_MARK, anchored, create_run
from recollect.train.loop import train
from recollect.train.parts import load_as_is
from recollect.train.ranks import ALONE, Ranks
from recollect.train.session import open_session


class Listener(Protocol):
    """Whoever shows a continual run to a person."""

    def started(self, journey: Journey, policy: Policy) -> None:
        """The run begins, or goes on; `policy` is the base."""

    def sinks(self, stage: Stage) -> Mapping[str, Sink]:
        """Who listens to the training of a stage."""

    def stage_started(self, stage: Stage, tasks: int) -> None:
        """A stage is trained on so many tasks, or goes on."""

    def examining(self, label: str, domain: str, done: int, total: int) -> None:
        """An examination moves on."""

    def examined(self, journey: Journey, label: str, found: Examination) -> None:
        """A model was examined, now or before."""

    def finished(self, journey: Journey) -> None:
        """Everything is done and written."""


def create_journey(path: Path, config: Config) -> Journey:
    """Make the folder of a new continual run; BadContinual where there is one with other settings.

    The same settings again are no mistake: the run is opened, to be gone on with.
    """
    file = path / CONFIG
    known = load_config(file).config if file.is_file() else None
    config = anchored(config, known)
    if config.train.parallel == "fsdp2":
        raise BadContinual(
            "train.parallel = fsdp2 cuts the weights that a continual run's methods read",
            "Set train.parallel=ddp.",
        )
    if config.rollout.engine != "hf":
        # Stages open a model each, in one process, and methods change weights between them.
        raise BadContinual(
            f"A continual run samples with its own model, not with {config.rollout.engine}",
            "Set rollout.engine=hf.",
        )
    wanted = config.continual
    by_fisher = wanted.method == "fusion" and wanted.fusion.rule == "fisher"
    if by_fisher and config.model.lora.rank:
        # Fisher information is of a weight; what adapters add is a product of two of them.
        raise BadContinual(
            "continual.fusion.rule = fisher would merge the factors of adapters apart",
            "Set continual.fusion.rule=average, or model.lora.rank=0.",
        )
    if known is not None:
        if known != config:  # not their texts: one of an older version has fewer lines
            raise BadContinual(
                f"{path} holds a continual run with other settings",
                "Choose another folder (run.name; --log_dir of train_grpo_cl), or delete this one.",
            )
        return open_journey(path)
    environment = load_environment(config.environment.name, **config.environment.options)
    planned = Journey(path, config, domain_order(config, environment))
    method = METHODS[config.continual.method](planned, environment)
    check_stages(planned, method)
    check_tasks(planned, method, environment)
    path.mkdir(parents=True, exist_ok=True)
    draft = path / f".{CONFIG}"
    draft.write_text(as_yaml(config), encoding="utf-8")
    draft.replace(file)
    return open_journey(path)


def open_journey(path: Path) -> Journey:
    """Open the continual run in a folder."""
    if not (path / CONFIG).is_file():
        raise BadContinual(
            f"there is no continual run in {path}", "Start one with: recollect continual CONFIG"
        )
    config = load_config(path / CONFIG).config
    environment = load_environment(config.environment.name, **config.environment.options)
    journey = Journey(path, config, domain_order(config, environment))
    _check_order(journey)
    return journey


def _check_order(journey: Journey) -> None:
    """Refuse a run that was trained in another order: its examinations have numbers, no names."""
    for stage in journey.stages:
        if stage.kind != "stage":
            continue
        there = sorted(
            path.name for path in journey.run(stage).path.parent.glob(f"{stage.number:02d}-*")
        )
        if there and there != [stage.name]:
            raise BadContinual(
                f"{journey.path} was trained in another order: it has stages/{there[0]} where its "
                f"settings have {stage.name}",
                f"Set continual.task_order in its {CONFIG} to the order of its folders in stages/.",
            )


def travel(
    journey: Journey,
    listener: Listener,
    picture: Callable[[Journey], object] = lambda journey: None,
    ranks: Ranks = ALONE,
) -> int | None:
    """Train and examine what is not done yet; gives the signal that stopped it, if any.

    `picture` is given the finished run, to draw it. `ranks` are the processes that train.
    """
    config = journey.config
    environment = load_environment(config.environment.name, **config.environment.options)
    method = METHODS[config.continual.method](journey, environment)
    base = load_as_is(config, config.model.name)
    listener.started(journey, base)
    _examine(journey, environment, BASE, config.model.name, base, listener, ranks)
    for stage in journey.stages:
        if stage.kind == "stage":
            method.begin(stage.number)
        signal = _train(journey, stage, method, listener, ranks)
        if signal is not None:
            return signal
        name = str(journey.checkpoint(stage))
        if stage.kind == "stage":
            method.finish(stage.number)
            name = method.model(stage.number)
        _examine(journey, environment, stage.label, name, base, listener, ranks)
        write_results(journey, method)
    picture(journey)
    listener.finished(journey)
    return None


def _train(
    journey: Journey, stage: Stage, method: Sequential, listener: Listener, ranks: Ranks
) -> int | None:
    """Train a stage to its end, from wherever it stands."""
    folder = journey.run(stage)
    if journey.is_trained(stage):
        return None
    if not folder.config.is_file():
        create_run(folder.path, stage_config(journey, stage, method))
    # So that nobody trains it outside of its journey, without the method.
    mark = canonical_json({"journey": os.path.relpath(journey.path, folder.path)})
    (folder.path / STAGE_MARK).write_text(mark, encoding="utf-8")
    teacher = Imitation() if imitates(journey.config) else None
    companion = together([teacher, _helper(stage, method)])
    with open_session(folder, listener.sinks(stage), companion, ranks) as session:
        own = [t for t in session.schedule.by_key.values() if t.domain in stage.domains]
        listener.stage_started(stage, len(own))
        session.sink.emit(
            events.RunStarted(
                session.run,
                folder.path,
                stage.steps,
                session.done,
                f"{method.config.continual.method} on {', '.join(stage.domains)}",
                session.config.model_dump(mode="json"),
            )
        )
        outcome = train(session)
        if outcome.signal is not None:
            return outcome.signal
        session.sink.emit(events.RunFinished(outcome.step))
    return None


def _helper(stage: Stage, method: Sequential) -> Companion | None:
    """Choose who helps to train: the method with its own stages, nobody with most references."""
    if stage.kind == "stage":
        return method.companion(stage.number)
    return Joint() if stage.kind == "joint" else None


def _examine(
    journey: Journey,
    environment: Environment,
    label: str,
    name: str,
    base: Policy,
    listener: Listener,
    ranks: Ranks,
) -> None:
    """Examine a model with all ranks, unless that was done before."""
    found = journey.examined(label)
    if found is None:
        ranks.visit(journey.path / CONFIG, name)
        policy = base if label == BASE else load_as_is(journey.config, name)
        found = examine(
            journey.config,
            environment,
            policy,
            label,
            journey.order,
            base=base,
            tell=lambda domain, done, total: listener.examining(label, domain, done, total),
            ranks=ranks,
        )
        write_examination(journey.examination(label), found)
    listener.examined(journey, label, found)
