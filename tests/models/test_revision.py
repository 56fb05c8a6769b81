"""Hub models, in a cache that stands in for the hub: nothing here may ask the world."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from recollect.models.revision import newest_revision

from .architectures import make_model
from .tokenizers_for_tests import make_tokenizer

COMMITS = ("a" * 40, "b" * 40)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with two commits of one model, the second the newest."""
    root = tmp_path_factory.mktemp("hub")
    repo = root / "models--some--body"
    for number, commit in enumerate(COMMITS):
        folder = repo / "snapshots" / commit
        model = make_model("llama-gqa")
        model.model.norm.weight.data.fill_(number + 1.0)
        model.save_pretrained(folder)
        make_tokenizer("chatml").save_pretrained(folder)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(COMMITS[1])
    return root


def _run(cache: Path, code: str) -> str:
    """The cache's place is read when the libraries are imported: so in a process of its own."""
    environment = {**os.environ, "HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_a_run_writes_down_the_commit_it_began_with_and_loads_that(
    cache: Path, tmp_path: Path
) -> None:
    code = f"""
from pathlib import Path
from recollect.config.loading import load_config
from recollect.train.folder import create_run
from recollect.train.parts import policy_from
for n, flags in enumerate(([], ["model.revision={COMMITS[0]}"])):
    config = load_config(None, ["model.name=some/body", *flags]).config
    folder = create_run(Path({str(tmp_path)!r}) / str(n), config)
    config = folder.load()
    policy = policy_from(config, None)
    print(config.model.name, config.model.revision, float(policy.model.model.norm.weight[0]))
"""
    assert _run(cache, code).splitlines() == [
        f"some/body {COMMITS[1]} 2.0",
        f"some/body {COMMITS[0]} 1.0",
    ]


def test_whatever_begins_with_the_policy_begins_with_its_commit(
    cache: Path, tmp_path: Path
) -> None:
    """The critic, the base of a continual run, and what an adapter or a column is put onto."""
    code = f"""
from pathlib import Path
from recollect.config.loading import load_config
from recollect.models.columns import Column, Plan, copy_columns
from recollect.models.loading import load_policy
from recollect.train.folder import create_run
from recollect.train.parts import critic_from, load_as_is, policy_from
to = Path({str(tmp_path)!r})
flags = ["model.name=some/body", "model.revision={COMMITS[0]}", "model.lora.rank=2"]
flags += ["algo.advantage=gae", "critic.kind=model"]
config = create_run(to / "run", load_config(None, flags).config).load()
policy = policy_from(config, None)
policy.save(to / "adapter")
columns = Plan("some/body", "routed", True, (Column("a", 2),))
(to / "columns").mkdir()
copy_columns(Path(), to / "columns", columns)
found = [
    critic_from(config, policy).critic.trunk.norm,
    load_as_is(config, config.model.name).model.model.norm,
    load_policy(str(to / "adapter")).model.get_base_model().model.norm,
    load_as_is(config, str(to / "columns")).model.model.norm,
]
print([float(norm.weight[0]) for norm in found])
"""
    assert _run(cache, code) == "[1.0, 1.0, 1.0, 1.0]"


def test_reference_and_critic_keep_the_commits_of_the_beginning(
    cache: Path, tmp_path: Path
) -> None:
    """Models beside the policy are pinned as it is; another commit arriving later changes nothing.

    The hub moves on between the run's beginning and each load.
    """
    hub = Path(shutil.copytree(cache, tmp_path / "hub"))
    own = Path(shutil.copytree(cache / "models--some--body/snapshots" / COMMITS[0], tmp_path / "m"))
    code = f"""
from pathlib import Path
from recollect.config.loading import load_config
from recollect.train.folder import anchored, create_run
from recollect.train.parts import critic_from, make_reference, policy_from
to = Path({str(tmp_path)!r})
flags = ["algo.kl_coef=0.1", "algo.kl_reference=some/body", "model.device=cpu"]
flags += ["algo.advantage=gae", "critic.kind=model", "critic.model=some/body"]
for n, more in enumerate((
    ["model.name={own}"],
    ["model.name={own}", "algo.kl_revision={COMMITS[0]}", "critic.revision={COMMITS[0]}"],
    ["model.name=some/body", "model.revision={COMMITS[0]}"],
    ["model.name=some/body", "algo.kl_revision={COMMITS[0]}", "model.lora.rank=2"],
)):
    main = Path({str(hub)!r}) / "models--some--body/refs/main"
    main.write_text({COMMITS[1]!r})
    wanted = load_config(None, [*flags, *more]).config
    config = create_run(to / str(n), wanted).load()
    main.write_text({COMMITS[0]!r} if n == 0 else {COMMITS[1]!r})
    assert anchored(wanted, config).algo == config.algo
    assert anchored(wanted, config).critic == config.critic
    policy = policy_from(config, None)
    norms = (
        make_reference(config, policy, None)._model.model.norm,
        critic_from(config, policy).critic.trunk.norm,
    )
    commits = config.algo.kl_revision[0], config.critic.revision[0]
    print(*commits, *(float(norm.weight[0]) for norm in norms))
"""
    assert _run(hub, code).splitlines() == [
        "b b 2.0 2.0",
        "a a 1.0 1.0",
        "a a 1.0 1.0",
        "a b 1.0 2.0",
    ]


def test_later_stages_keep_the_commit_of_the_base_as_their_reference(
    cache: Path, tmp_path: Path
) -> None:
    code = f"""
from pathlib import Path
from recollect.config.loading import load_config
from recollect.continual.journey import Journey
from recollect.continual.methods.sequential import Sequential
from recollect.continual.stage_settings import stage_config
from recollect.envs.registry import load_environment
from recollect.train.folder import anchored, create_run
from recollect.train.parts import make_reference, policy_from
to = Path({str(tmp_path)!r})
for rank in (0, 2):
    flags = ["model.name=some/body", "model.revision={COMMITS[0]}", "algo.kl_coef=0.1"]
    config = anchored(load_config(None, [*flags, f"model.lora.rank={{rank}}"]).config)
    journey = Journey(to / str(rank), config, ("airline", "retail"))
    method = Sequential(journey, load_environment("desk"))
    policy = policy_from(config, None)
    policy.save(journey.checkpoint(journey.stage(0)))
    later = create_run(to / f"run{{rank}}", stage_config(journey, journey.stage(1), method)).load()
    start = policy_from(later, None)
    reference = make_reference(later, start, None)
    model = reference._model.get_base_model() if rank else reference._model
    shared = reference._model is start.model
    commit, weight = later.algo.kl_revision[0], float(model.model.norm.weight[0])
    print(later.algo.kl_reference, commit, weight, shared)
"""
    assert _run(cache, code).splitlines() == ["some/body a 1.0 False", "some/body a 1.0 True"]


def test_an_unknown_commit_is_said_to_be_missing(cache: Path) -> None:
    code = """
from recollect.errors import ModelMissing
from recollect.models.loading import load_policy
try:
    load_policy("some/body", revision="c" * 40)
except ModelMissing as error:
    print("missing")
"""
    assert _run(cache, code) == "missing"


def test_what_is_not_on_the_hub_has_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert newest_revision("tiny") is None
    assert newest_revision("smol") is None
    assert newest_revision(str(tmp_path)) is None
