"""The installed tau2-bench: whether it is the right package, its data, and the parts we use.

The package of the name `tau2` on PyPI is another one. Nothing here imports tau2 before it is asked
for, which takes seconds: tau2 imports all of itself.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from recollect.canonical import digest
from recollect.envs.tau2.identifiers import Identifiers
from recollect.errors import BadEnvironment, MissingTau2

FAMILY = "tau2"
DOMAINS = ("airline", "retail", "telecom", "mock")
# What decides tasks and scores, of each domain; not every domain has every file.
_FILES = ("tasks.json", "split_tasks.json", "db.json", "db.toml", "user_db.json", "user_db.toml",
          "policy.md", "policy_solo.md", "main_policy.md", "main_policy_solo.md",
          "tech_support_manual.md")  # fmt: skip
_NEEDED = ("tasks.json", "split_tasks.json")
_DATABASES = ("db.json", "db.toml")


@dataclass(frozen=True, slots=True)
class Package:
    """What we use of tau2-bench. `domains` are the modules with `get_environment`, by name."""

    version: str
    data: Path
    domains: Mapping[str, Any]
    tasks: Any  # tau2.data_model.tasks
    messages: Any  # tau2.data_model.message
    prompts: Any  # tau2.agent.llm_agent
    simulator: Any  # tau2.user.user_simulator
    greeting: str  # what its agents say first
    actions: Any  # tau2.evaluator.evaluator_action.ActionEvaluator
    communication: Any  # tau2.evaluator.evaluator_communicate.CommunicateEvaluator
    hash: Any  # tau2.utils.get_dict_hash: how a database is compared

    def folder(self, domain: str) -> Path:
        """Where a domain's data are."""
        return self.data / "tau2" / "domains" / domain


def installed_version() -> str | None:
    """The version of tau2-bench, without importing it; None where it is not installed.

    MissingTau2 where another package has its name.
    """
    try:
        spec = importlib.util.find_spec("tau2")
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return None
    try:
        found = version("tau2")
    except PackageNotFoundError:
        found = "dev"
    places = [Path(place) for place in spec.submodule_search_locations or ()]
    if not any((place / "domains" / "airline" / "environment.py").is_file() for place in places):
        what = f"the installed package tau2 {found} is another one, which only has the same name"
        raise MissingTau2(what, "Remove it first: pip uninstall tau2. ")
    return found


@lru_cache(maxsize=1)
def load_package() -> Package:
    """Import tau2-bench once; MissingTau2 with the command where it is not there."""
    found = installed_version()
    if found is None:
        raise MissingTau2("it is not installed")
    # Without this, one of its dependencies asks the network for a price list as it is imported.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of packages that are not ours
            return _import(found)
    except ImportError as error:
        what = f"tau2-bench {found} cannot be imported ({error})"
        hint = "Install it anew, with its dependencies: pip install -e ./tau2-bench"
        raise BadEnvironment(FAMILY, what, hint) from error


def _import(found: str) -> Package:
    # It logs every call and every tool's answer; nobody reads that here, and it costs.
    get: Callable[[str], Any] = importlib.import_module
    get("loguru").logger.disable("tau2")
    get("tau2.domains.telecom.tools").uuid = Identifiers()
    return Package(
        version=found,
        data=Path(get("tau2.utils").DATA_DIR),
        domains={name: get(f"tau2.domains.{name}.environment") for name in DOMAINS},
        tasks=get("tau2.data_model.tasks"),
        messages=get("tau2.data_model.message"),
        prompts=get("tau2.agent.llm_agent"),
        simulator=get("tau2.user.user_simulator"),
        greeting=get("tau2.orchestrator.orchestrator").DEFAULT_FIRST_AGENT_MESSAGE.content,
        actions=get("tau2.evaluator.evaluator_action").ActionEvaluator,
        communication=get("tau2.evaluator.evaluator_communicate").CommunicateEvaluator,
        hash=get("tau2.utils").get_dict_hash,
    )


def check_data(package: Package, domain: str) -> None:
    """Refuse a domain whose files are not there, as after an installation without -e."""
    folder = package.folder(domain)
    missing = [name for name in _NEEDED if not (folder / name).is_file()]
    if not any((folder / name).is_file() for name in _DATABASES):
        missing.append("its database")
    if missing:
        raise MissingTau2(
            f"{folder} lacks {', '.join(missing)}",
            "If it was installed without -e, set TAU2_DATA_DIR to the folder data of its "
            "repository. Else: ",
        )


@lru_cache(maxsize=1)
def data_mark() -> str:
    """Six characters that differ where the data of any domain do; part of every task's key."""
    package = load_package()
    parts = []
    for domain in DOMAINS:
        for name in _FILES:
            path = package.folder(domain) / name
            parts.append(sha256(path.read_bytes()).hexdigest() if path.is_file() else "")
    return digest(*parts)[:6]
