"""Starting a run under verl, and waiting for it."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import FrameType
from typing import Any

from recollect.config.schema.config import Config
from recollect.errors import ClusterLost, DriverFailed, MissingExtra
from recollect.errors.extras import install_command
from recollect.integrations.verl.cluster import Cluster
from recollect.integrations.verl.loss import RUN_VARIABLE
from recollect.integrations.verl.mapping import (
    CPU_PLUGINS,
    PLUGIN,
    Assignment,
    verl_settings,
)
from recollect.integrations.verl.screen import apart
from recollect.integrations.verl.workplace import WHOLE, Screen, Workplace
from recollect.train.folder import RunFolder


def require_verl() -> None:
    """Raise MissingExtra where verl is not installed, before anything is made."""
    if any(find_spec(package) is None for package in ("verl", "ray", "transfer_queue")):
        raise MissingExtra("Training under verl", "verl")


def launch(folder: RunFolder, cluster: Cluster, screen: Screen = WHOLE) -> int | None:
    """Run, or go on with, the run in a folder; gives the signal that stopped it, if any.

    RecollectError where the driver ended with one, or was lost.
    """
    config = folder.load()
    path = folder.path.resolve()
    place = Workplace(path)
    settings = verl_settings(config, cluster, path)
    place.prepare(cluster, settings, screen)
    variables = _variables(config, cluster, place)
    os.environ.update(variables)
    keep_to_ourselves()
    with _interrupts(place):
        _run(settings, variables, place)
    ending = place.ending()
    if ending is None:
        raise ClusterLost("the driver ended without a word", _again(place))
    if ending.error:
        hint = ending.hint if ending.hint != ClusterLost.AGAIN else _again(place)
        raise DriverFailed(ending.error, hint, ending.exit_code)
    return ending.signal


def _again(place: Workplace) -> str:
    """Where to look and how to go on, with the run's own name in it."""
    again = ClusterLost.AGAIN.replace("RUN", shlex.quote(str(place.run)))
    return f"What verl and Ray printed is in {place.log}. {again}"


def _variables(config: Config, cluster: Cluster, place: Workplace) -> dict[str, str]:
    modules = [*CPU_PLUGINS, PLUGIN] if cluster.cpu else [PLUGIN]
    found = {
        RUN_VARIABLE: str(place.run),
        "VERL_USE_EXTERNAL_MODULES": ",".join(modules),
        "RAY_DEDUP_LOGS": "0",
    }
    # TransferQueue asks for eight threads, and says so in the log whenever there are fewer.
    few = {"VERL_PLATFORM": "cpu", "TQ_NUM_THREADS": "1"}
    return {**found, **few} if cluster.cpu else found


def keep_to_ourselves() -> None:
    """Have Ray report its use to nobody, unless somebody asked for that."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")


def _run(settings: tuple[Assignment, ...], variables: dict[str, str], place: Workplace) -> None:
    with apart(place.log, place.lines):
        import ray
        from verl.trainer.main_ppo import run_ppo

        from recollect.integrations.verl.runner import Runner

        config = compose(settings, variables)
        try:
            run_ppo(config, task_runner_class=ray.remote(num_cpus=1)(Runner))
        except ray.exceptions.RayError as error:
            # What it knew of its end it has written down; a lost driver has not.
            lines = str(error).strip().splitlines() or [type(error).__name__]
            if place.ending() is None:
                why = f"the driver is gone: {lines[-1][:300]}"
                raise ClusterLost(why, _again(place)) from error
        finally:
            ray.shutdown()


def compose(settings: tuple[Assignment, ...], variables: dict[str, str]) -> Any:
    """Put our settings into verl's configuration; an error where it has no such setting."""
    from hydra import compose as compose_defaults
    from hydra import initialize_config_module
    from omegaconf import OmegaConf, open_dict

    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose_defaults("ppo_trainer")
    with open_dict(config):
        for each in settings:
            key, is_new = each.key.lstrip("+"), each.key.startswith("+")
            above, _, name = key.rpartition(".")
            # Its keys, because a value that must be given is not there as far as `select` goes.
            if not is_new and name not in list(OmegaConf.select(config, above, default={}).keys()):
                pinned = f"Install the version that is pinned: {install_command('verl')}"
                raise ClusterLost(f"verl has no setting {key}", pinned)
            OmegaConf.update(config, key, each.value, merge=False, force_add=is_new)
        init = config.ray_kwargs.ray_init
        OmegaConf.update(init, "runtime_env.env_vars", variables, force_add=True)
    return config


@contextmanager
def _interrupts(place: Workplace) -> Iterator[None]:
    """Ctrl-C once: tell the driver to finish its step and save. Twice: stop at once."""

    def notice(number: int, frame: FrameType | None) -> None:
        if place.stop.exists():
            raise KeyboardInterrupt
        place.stop.write_text(str(number), encoding="utf-8")

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, notice) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
