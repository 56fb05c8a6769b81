from __future__ import annotations

import threading
from pathlib import Path

import pytest

from recollect.envs.registry import load_environment
from recollect.errors import RunExists, RunMissing
from recollect.ledger import Run
from recollect.store import open_store
from recollect.store.records import Batch
from recollect.train.folder import RunFolder, create_run, find_runs
from recollect.types import RunId

from .small import make_config


def test_a_run_keeps_its_configuration(tmp_path: Path) -> None:
    config = make_config(tmp_path / "model", "run.seed=7", "environment.levels=[1, 2]")
    folder = create_run(tmp_path / "runs" / "demo-1", config)
    loaded = folder.load()
    assert loaded.run.name == "demo-1"
    assert loaded.model_copy(update={"run": config.run}) == config
    assert [path.name for path in folder.path.iterdir()] == ["config.yaml"]


def test_its_name_stays_when_the_folder_moves(tmp_path: Path) -> None:
    folder = create_run(tmp_path / "first name", make_config(tmp_path))
    assert folder.run(folder.load()) == "first-name"
    moved = RunFolder(folder.path.rename(tmp_path / "second"))
    assert moved.run(moved.load()) == "first-name"


def test_another_run_is_never_overwritten(tmp_path: Path) -> None:
    create_run(tmp_path / "a", make_config(tmp_path, "run.seed=1"))
    with pytest.raises(RunExists, match="holds a run already"):
        create_run(tmp_path / "a", make_config(tmp_path, "run.seed=2"))
    assert RunFolder(tmp_path / "a").load().run.seed == 1


def test_only_one_of_many_at_once_gets_the_folder(tmp_path: Path) -> None:
    made: list[int] = []
    ready = threading.Barrier(8)

    def make(seed: int) -> None:
        config = make_config(tmp_path, f"run.seed={seed}")
        ready.wait()
        try:
            create_run(tmp_path / "a", config)
        except RunExists:
            return
        made.append(seed)

    threads = [threading.Thread(target=make, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [RunFolder(tmp_path / "a").load().run.seed] == made
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["config.yaml"]


def test_a_shared_store_means_the_same_file_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = create_run(tmp_path / "a", make_config(tmp_path, "store.path=pool.db"))
    monkeypatch.chdir("/")
    assert folder.store(folder.load()) == (tmp_path / "pool.db").resolve()


def test_files_are_the_same_ones_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("model", "tiny", "earlier"):
        (tmp_path / name).mkdir()
    (tmp_path / "mine.py").write_text("")
    flags = ["environment.name=mine.py:World", "pool.start_from=earlier", "replay.modes=[buffer]"]
    found = create_run(tmp_path / "a", make_config(Path("model"), *flags)).load()
    assert found.model.name == str(tmp_path / "model")
    assert found.environment.name == f"{tmp_path / 'mine.py'}:World"
    assert found.pool.start_from == str(tmp_path / "earlier")
    # Names of other things are no files, whatever lies about.
    found = create_run(tmp_path / "b", make_config(Path("tiny"), "environment.name=desk")).load()
    assert (found.model.name, found.environment.name) == ("tiny", "desk")


def test_what_an_environment_or_a_critic_reads_is_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "critic").mkdir()
    (tmp_path / "airline").mkdir()
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "2 + 2?", "answer": "4"}\n' * 9)
    (tmp_path / "judge.py").write_text("def judge(text, fields):\n    return 1.0\n")
    flags = [
        "environment.name=single_turn:prompts.jsonl",
        "environment.options.reward=judge.py:judge",
        "environment.options.system_text=airline",
        "algo.advantage=gae",
        "critic.kind=model",
        "critic.model=critic",
        "notes.embedder=airline",
    ]
    found = create_run(tmp_path / "a", make_config(tmp_path, *flags)).load()
    monkeypatch.chdir("/")
    world = load_environment(found.environment.name, **found.environment.options)
    assert world.name == "single_turn:prompts"
    assert found.environment.options["system_text"] == "airline"  # a word, whatever lies about
    assert found.critic.model == str(tmp_path / "critic")
    assert found.notes.embedder == str(tmp_path / "airline")


def test_two_runs_of_one_name_do_not_share_a_store(tmp_path: Path) -> None:
    """The second would take the first one's rows for its own, and set them aside."""
    store = tmp_path / "pool.db"
    with open_store(store) as opened:
        opened.commit(Batch(runs=[Run(RunId("demo"))]))
    config = make_config(tmp_path, f"store.path={store}")
    with pytest.raises(RunExists, match=r"pool.db \(run demo\)"):
        create_run(tmp_path / "demo", config)
    assert not (tmp_path / "demo").exists()
    create_run(tmp_path / "other", config)


def test_runs_are_found_oldest_first(tmp_path: Path) -> None:
    import os

    for number, name in enumerate(["c", "a", "b"]):
        folder = create_run(tmp_path / name, make_config(tmp_path))
        os.utime(folder.config, (1000 + number, 1000 + number))
    (tmp_path / "no run").mkdir()
    assert [folder.path.name for folder in find_runs(tmp_path)] == ["c", "a", "b"]
    assert find_runs(tmp_path / "nowhere") == []


def test_no_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(RunMissing, match=r"no config\.yaml"):
        RunFolder(tmp_path).load()
