"""`recollect eval`: scoring a model, or a run's newest checkpoint, on held-out tasks."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.env_options import SetOption, environment_options
from recollect.cli.output import Column, remark, say, write_json, write_table
from recollect.cli.store_option import JsonOption, examples
from recollect.cli.train import require_training
from recollect.telemetry.spelling import percent

if TYPE_CHECKING:
    from recollect.config.schema.config import Config
    from recollect.models.loading import Policy

EPILOG = examples(
    "recollect eval tiny --tasks 120",
    "recollect eval runs/demo-1 --split test --tasks 240",
    "recollect eval tiny --env desk:airline --level 1 --level 2 --json",
    "recollect eval tiny --env single_turn:prompts.jsonl --set reward=rewards.py:exact",
)


def evaluate(
    policy: Annotated[str, typer.Argument(help="A run's folder, a model folder, tiny, a hub id.")],
    environment: Annotated[
        str | None, typer.Option("--env", help="The environment; default: the run's, or desk.")
    ] = None,
    settings: SetOption = None,
    split: Annotated[str, typer.Option("--split", help="The split.")] = "test",
    tasks: Annotated[int, typer.Option("--tasks", min=1, help="How many tasks in all.")] = 120,
    level: Annotated[
        list[int] | None, typer.Option("--level", min=0, max=1000, help="Only these levels.")
    ] = None,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Attempts at each task.")] = 1,
    temperature: Annotated[
        float, typer.Option("--temperature", min=0.0, help="Of the sampling; 0 = the likeliest.")
    ] = 0.0,
    as_json: JsonOption = False,
) -> None:
    """Score a policy by domain and level, beside the best score that needs no skill.

    A run is scored with its own settings: environment, domains, levels and limits of an episode.
    With --env all domains of that environment count, in another one than the run's all levels as
    well, unless --level names some, and options are those of --set alone.
    """
    require_training()
    from contextlib import closing

    from recollect.envs.registry import load_environment
    from recollect.telemetry.scores import pool
    from recollect.train.parts import make_collector, make_evaluator

    flags = [f"eval.split={split}", f"eval.tasks={tasks}"]
    flags += [f"eval.rows={rows}", f"eval.temperature={temperature}"]
    if environment is not None:
        flags += _elsewhere(policy, environment)
    environment_options(settings)  # refuses what is none, in words of the command line
    flags += [f"environment.options.{setting}" for setting in settings or ()]
    if level:
        flags.append(f"environment.levels={list(level)}")
    config, loaded = load_subject(policy, flags)
    world = load_environment(config.environment.name, **config.environment.options)
    with closing(make_collector(config, world, loaded)) as collector:
        found = make_evaluator(config, world, collector).evaluate()
    scores = found.scores
    for failure in found.failures[:1]:
        remark(
            f"{len(found.failures)} episodes failed and count as lost, for example task "
            f"{failure.request.task.id}, {failure.where}: {failure.reason}"
        )
    total = pool(scores)
    if as_json:
        cells = [{**asdict(s), "success": s.success} for s in (*scores, total)]
        write_json(cells)
        return
    titles = ("level", "n", "success", "95 % interval", "floor")
    write_table(
        [Column("domain"), *(Column(title, right=True) for title in titles)],
        [
            (
                *(s.domain, "all" if s.level is None else str(s.level), str(s.n)),
                *(percent(s.success), _interval(s.interval()), percent(s.floor)),
            )
            for s in (*scores, total)
        ],
    )
    say(f"{policy} on {config.environment.name}, split {split}, temperature {temperature:g}")


def _elsewhere(policy: str, environment: str) -> list[str]:
    """Spell the settings of another environment than a run's own."""
    from recollect.train.folder import named_run

    # Who names an environment means all of its domains, not those that the run practised.
    flags = [f"environment.name={environment}", "environment.options={}",
             "environment.domains=none"]  # fmt: skip
    run = named_run(policy)
    own = run.load().environment.name if run is not None else environment
    if _family(own) != _family(environment):
        flags += ["environment.levels=none"]  # which mean something else there
    return flags


def _family(name: str) -> str:
    """Name what desk:airline and desk:retail have in common; a class of a file stands alone."""
    return name if ".py:" in name else name.partition(":")[0]


def load_subject(policy: str, flags: list[str]) -> tuple[Config, Policy]:
    """Load a run's newest checkpoint with its settings, or a model by name with the defaults."""
    from recollect.config.loading import load_config
    from recollect.models.loading import load_policy
    from recollect.models.threads import choose_threads
    from recollect.train.folder import named_run
    from recollect.train.parts import trained_policy

    folder = named_run(policy)
    if folder is None:
        config, loaded = load_config(None, flags).config, load_policy(policy)
        choose_threads(loaded, config.model.threads)
        return config, loaded
    config = load_config(folder.config, flags).config
    return config, trained_policy(folder, config, remark)[0]


def _interval(bounds: tuple[float, float] | None) -> str:
    return "-" if bounds is None else f"{100 * bounds[0]:.0f}-{100 * bounds[1]:.0f}%"
