"""The run folder: where a run keeps its configuration, store, metrics and checkpoints."""

from __future__ import annotations

import os
import re
import uuid
from dataclasses import dataclass
from pathlib import Path

from recollect.config.loading import load_config
from recollect.config.schema.algo import AlgoSettings
from recollect.config.schema.config import Config
from recollect.config.schema.critic import CriticSettings
from recollect.config.schema.environment import EnvironmentSettings
from recollect.config.schema.model import ModelSettings
from recollect.config.showing import as_yaml
from recollect.errors import RunExists, RunMissing
from recollect.models.catalog import BUILT_IN, folder_of, is_there
from recollect.models.revision import newest_revision
from recollect.notes.embedding import BUILT_IN as EMBEDDER
from recollect.store import open_reader, place_of, store_exists
from recollect.store.address import Place, is_address
from recollect.types import RunId

CONTINUAL = "continual.yaml"  # where it is, a folder holds a continual run, and runs below it
STAGE_MARK = "stage.json"  # in the run folder of a stage: it is trained by its continual run only


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Names of what is in a run's folder."""

    path: Path

    @property
    def config(self) -> Path:
        """The whole configuration, every value."""
        return self.path / "config.yaml"

    @property
    def metrics(self) -> Path:
        """One JSON line per step and evaluation."""
        return self.path / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        """Model folders, one per checkpoint."""
        return self.path / "checkpoints"

    @property
    def model(self) -> Path:
        """The trained model with its adapters merged in, where that was asked for."""
        return self.path / "model"

    @property
    def served(self) -> Path:
        """Weights on their way to a server that samples, while the run is under way."""
        return self.path / "served"

    @property
    def bad_batches(self) -> Path:
        """Batches whose update was refused."""
        return self.path / "bad_batches"

    def store(self, config: Config) -> Place:
        """The run's store: its own unless the configuration names another."""
        return place_of(config.store.path) if config.store.path else self.path / "store.db"

    def run(self, config: Config) -> RunId:
        """The run's name in its store: the one it was made with, wherever its folder goes."""
        return RunId(config.run.name or _as_name(self.path))

    def load(self) -> Config:
        """Read the configuration the run was started with."""
        if not self.config.is_file():
            refuse_continual(self.path)
            raise RunMissing(self.path, "there is no run in this folder (no config.yaml)")
        return load_config(self.config).config


def refuse_continual(folder: Path) -> None:
    """Raise RunMissing where a folder is a continual run's: what was asked for is in its stages."""
    if not (folder / CONTINUAL).is_file():
        return
    begun = sorted(file.parent for file in folder.glob("stages/*/config.yaml"))
    hint = f"Name one of its stages, such as {begun[0]}." if begun else "None of its stages began."
    raise RunMissing(folder, "it is a continual run", hint)


def named_run(name: str) -> RunFolder | None:
    """Find the run that a name stands for; None where it can only be a model's.

    RunMissing where it must be a mistyped folder: the hub would be asked for it, a minute long.
    """
    folder = RunFolder(Path(name))
    if folder.config.is_file():
        return folder
    refuse_continual(folder.path)
    is_path = "/" in name or os.sep in name
    if is_path and folder.path.parent.is_dir() and not folder.path.exists():
        raise RunMissing(name, "there is neither a run nor a model")
    return None


def store_in(folder: Path) -> Place:
    """Find the store of a folder: the one in it, or the one that the run in it keeps elsewhere."""
    own, run = folder / "store.db", RunFolder(folder)
    if own.is_file() or not run.config.is_file():
        return own
    return run.store(run.load())


def create_run(path: Path, config: Config) -> RunFolder:
    """Make a new run folder; RunExists where there is one, or its store knows one of this name."""
    folder = RunFolder(path)
    if folder.config.exists():
        raise RunExists(path)
    config = _anchored(config, path)
    if store_exists(folder.store(config)):
        _refuse_known(folder.run(config), folder.store(config))
    path.mkdir(parents=True, exist_ok=True)
    draft = path / f".config.{uuid.uuid4().hex}.yaml"
    draft.write_text(as_yaml(config), encoding="utf-8")
    try:
        os.link(draft, folder.config)  # unlike a rename it never takes the place of another's
    except FileExistsError:
        raise RunExists(path) from None
    except OSError:  # a file system without links
        draft.replace(folder.config)
    finally:
        draft.unlink(missing_ok=True)
    return folder


def find_runs(root: Path) -> list[RunFolder]:
    """List the runs below a folder, oldest first."""
    found = [path.parent for path in root.glob("*/config.yaml")] if root.is_dir() else []
    return [
        RunFolder(path) for path in sorted(found, key=lambda p: (p / "config.yaml").stat().st_mtime)
    ]


def _anchored(config: Config, path: Path) -> Config:
    """Write down what must not change with the place that the run is resumed from, or moved to."""
    run = config.run.model_copy(update={"name": _as_name(path)})
    return anchored(config).model_copy(update={"run": run})


def anchored(config: Config, known: Config | None = None) -> Config:
    """Spell out where all files are that a configuration names, and which commits of its models.

    Where a run has begun already, `known` is what it wrote down: it goes on with those commits.
    """
    begun = None if known is None else known.model.revision
    store, pool, notes = config.store, config.pool, config.notes
    model = _anchored_model(config.model, begun)
    if store.path is not None and not is_address(store.path):
        where = str(Path(store.path).expanduser().resolve())
        store = store.model_copy(update={"path": where})
    if pool.start_from is not None and not is_address(pool.start_from):
        pool = pool.model_copy(update={"start_from": _absolute(pool.start_from)})
    if notes.start_from is not None:
        notes = notes.model_copy(update={"start_from": _absolute(notes.start_from)})
    if notes.embedder != EMBEDDER:
        notes = notes.model_copy(update={"embedder": _absolute(notes.embedder)})
    return config.model_copy(
        update={
            "store": store,
            "model": model,
            "algo": _anchored_reference(config.algo, model, known),
            "critic": _anchored_critic(config.critic, model, known),
            "environment": _anchored_environment(config.environment),
            "pool": pool,
            "notes": notes,
        }
    )


def _anchored_environment(environment: EnvironmentSettings) -> EnvironmentSettings:
    """Write down where an environment's code and data lie: in its name, and in its options."""
    kind, colon, argument = environment.name.partition(":")
    name = _absolute_code(environment.name)
    if name == environment.name and colon and "." in argument:  # single_turn:prompts.jsonl
        name = f"{kind}:{_absolute_file(argument)}"
    options = {
        key: _absolute_file(_absolute_code(value)) if isinstance(value, str) else value
        for key, value in environment.options.items()
    }
    return environment.model_copy(update={"name": name, "options": options})


def _anchored_model(model: ModelSettings, begun: str | None) -> ModelSettings:
    """Write down where a model lies, or which commit of it is meant."""
    revision = model.revision or begun or newest_revision(model.name)
    return model.model_copy(update={"name": absolute_model(model.name), "revision": revision})


def _anchored_reference(
    algo: AlgoSettings, model: ModelSettings, known: Config | None
) -> AlgoSettings:
    """Do the same for what the KL divergence is measured from."""
    if algo.kl_reference is None:
        return algo
    name, revision = absolute_model(algo.kl_reference), algo.kl_revision
    if revision is None and known is not None and known.algo.kl_reference == name:
        revision = known.algo.kl_revision
    elif revision is None:
        revision = _revision_beside(model, name)
    return algo.model_copy(update={"kl_reference": name, "kl_revision": revision})


def _anchored_critic(
    critic: CriticSettings, model: ModelSettings, known: Config | None
) -> CriticSettings:
    """Do the same for the model that a critic starts from."""
    if critic.model is None:
        return critic
    name, revision = absolute_model(critic.model), critic.revision
    if revision is None and known is not None and known.critic.model == name:
        revision = known.critic.revision
    elif revision is None:
        revision = _revision_beside(model, name)
    return critic.model_copy(update={"model": name, "revision": revision})


def _revision_beside(policy: ModelSettings, name: str) -> str | None:
    """Find the commit of a model that nobody gave: the policy's, if it is the same; the newest."""
    return policy.revision if name == policy.name else newest_revision(name)


def absolute_model(name: str) -> str:
    """Spell out where a model is, so that it is found from any folder.

    The built-in one moves with the package and stays a name, as does one that is not fetched yet.
    """
    ours = folder_of(name)
    if ours is None:
        return _absolute(name)
    return str(ours.resolve()) if name not in BUILT_IN and is_there(ours) else name


def _absolute(given: str) -> str:
    """Spell out where a file or folder is, if there is one; names of other things stay."""
    path = Path(given).expanduser()
    return str(path.resolve()) if path.exists() else given


def _absolute_code(given: str) -> str:
    """Spell out where the file of `path/to/file.py:name` is; all other texts stay."""
    file, colon, what = given.rpartition(".py:")
    return f"{_absolute(file + '.py')}:{what}" if colon else given


def _absolute_file(given: str) -> str:
    """Spell out where a file is whose name has an ending; a word is none, whatever lies about."""
    try:
        is_file = bool(Path(given).suffix) and Path(given).expanduser().is_file()
    except (OSError, ValueError):  # a long text, or one that no name can be
        is_file = False
    return _absolute(given) if is_file else given


def _as_name(path: Path) -> str:
    """Turn a folder's name into one that a run may have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path.resolve().name).strip("._-")[:64] or "run"


def _refuse_known(run: RunId, store: Place) -> None:
    """Keep two runs of one name apart: the second would set the first one's rows aside."""
    with open_reader(store) as reader:
        if any(known.id == run for known in reader.runs().values()):
            raise RunExists(f"{store} (run {run})")
