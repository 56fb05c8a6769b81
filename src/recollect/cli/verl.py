"""`recollect train --engine verl`: showing what verl is told, starting it, going on with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from recollect.cli.output import remark, say, write_json

if TYPE_CHECKING:
    from recollect.config.loading import LoadedConfig
    from recollect.integrations.verl.cluster import Cluster
    from recollect.integrations.verl.workplace import Screen
    from recollect.train.folder import RunFolder


def show_verl(loaded: LoadedConfig, cluster: Cluster, as_json: bool) -> None:
    """Print what verl will be told and why; BadConfig where a setting cannot be kept."""
    from recollect.config.scalars import spell
    from recollect.config.showing import resolved_lines
    from recollect.integrations.verl.mapping import verl_settings

    name = loaded.config.run.name or f"{loaded.name}-N"
    settings = verl_settings(loaded.config, cluster, Path(loaded.config.run.folder) / name)
    if as_json:
        write_json({each.key: each.value for each in settings})
        return
    for line in resolved_lines(loaded):
        say(line)
    say("")
    say(f"verl, on {cluster.nodes} x {cluster.gpus} workers")
    shown = {each.key: spell(each.value) for each in settings}
    left, middle = max(map(len, shown)), max(map(len, shown.values()))
    for each in settings:
        say(f"  {each.key.ljust(left)}  {shown[each.key].ljust(middle)}  {each.source}")


def train_with_verl(loaded: LoadedConfig, cluster: Cluster, screen: Screen) -> None:
    """Make a run and train it under verl; everything that can be refused is refused before."""
    from recollect.cli.new_folder import new_folder
    from recollect.integrations.verl.launch import require_verl
    from recollect.integrations.verl.mapping import verl_settings
    from recollect.train.folder import create_run

    verl_settings(loaded.config, cluster, Path(loaded.config.run.folder))
    require_verl()
    with new_folder(loaded) as folder:
        run = create_run(folder.path, loaded.config)
    _go(run, cluster, screen)


def resume_with_verl(folder: RunFolder, cluster: Cluster, screen: Screen) -> None:
    """Go on with a run under verl, on the machines it was started on."""
    from recollect.integrations.verl.launch import require_verl

    require_verl()
    _go(folder, cluster, screen)


def _go(folder: RunFolder, cluster: Cluster, screen: Screen) -> None:
    from recollect.integrations.verl.launch import launch
    from recollect.integrations.verl.workplace import Workplace

    where = f"the Ray cluster {cluster.address}" if cluster.address else "a Ray of its own"
    say(f"starting verl on {where}, {cluster.nodes} x {cluster.gpus} workers; this takes a minute")
    remark(f"What verl and Ray print goes to {Workplace(folder.path).log}")
    stopped = launch(folder, cluster, screen)
    if stopped is not None:
        raise typer.Exit(128 + stopped)
