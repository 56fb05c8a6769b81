"""Habits that the source must not have, read from its syntax and not from its text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import recollect
from factories import FakeRun
from recollect.store import open_store
from recollect.store.sqlite import SqliteStore

SOURCE = Path(recollect.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
CALLS = {"eval", "exec", "__import__", "compile"}
ATTRIBUTES = {("torch", "load"), ("np", "load"), ("numpy", "load"), ("yaml", "load")}
ATTRIBUTES |= {("yaml", "unsafe_load"), ("yaml", "full_load"), ("os", "system")}


def bad_habits(tree: ast.AST) -> Iterator[str]:
    """Say what in a piece of source could run somebody else's code or listen to everybody."""
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            roots = {name.split(".")[0] for name in names}
            roots |= {(getattr(node, "module", None) or "").split(".")[0]}
            yield from (f"line {line}: imports {name}" for name in sorted(roots & MODULES))
        elif isinstance(node, ast.Call):
            yield from (f"line {line}: {name}" for name in _bad_calls(node))
        elif isinstance(node, ast.Constant) and "0.0.0.0" in str(node.value):
            yield f"line {line}: listens to everybody"


def _bad_calls(node: ast.Call) -> Iterator[str]:
    function = node.func
    if isinstance(function, ast.Name) and function.id in CALLS:
        yield f"calls {function.id}"
    if isinstance(function, ast.Attribute):
        named = (getattr(function.value, "id", ""), function.attr)
        if named in ATTRIBUTES:
            yield f"calls {'.'.join(named)}"
    for keyword in node.keywords:
        value = keyword.value
        is_true = isinstance(value, ast.Constant) and value.value is True
        if keyword.arg in ("trust_remote_code", "allow_pickle", "shell") and is_true:
            yield f"{keyword.arg}=True"
        if keyword.arg == "trust_remote_code" and not isinstance(value, ast.Constant):
            yield "trust_remote_code from a variable"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_no_bad_habits(file: Path) -> None:
    assert list(bad_habits(ast.parse(file.read_text(encoding="utf-8")))) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "import os, dill",
        "def f():\n    import cloudpickle as c",
        "torch.load(path)",
        "np.load(path)",
        "yaml.load(text)",
        "os.system('ls')",
        "eval(text)",
        "exec(text)",
        "AutoModel.from_pretrained(name, trust_remote_code=True)",
        "AutoModel.from_pretrained(name, trust_remote_code=flag)",
        "np.frombuffer(x, allow_pickle=True)",
        "subprocess.run(command, shell=True)",
        "serve(host='0.0.0.0')",
        "HOST = 'http://0.0.0.0:80'",
    ],
)
def test_the_lint_itself_sees_them(source: str) -> None:
    assert list(bad_habits(ast.parse(source)))


@pytest.mark.parametrize(
    "source", ["model.load(path)", "re.compile('x')", "'pickle'", "# eval(x)", "f(shell=False)"]
)
def test_the_lint_lets_the_rest_through(source: str) -> None:
    assert list(bad_habits(ast.parse(source))) == []


def test_the_files_are_really_looked_at() -> None:
    assert {"codec.py", "writer.py", "pool.py"} <= {file.name for file in FILES}


# -- every commit is flushed -------------------------------------------------------------------


@pytest.mark.parametrize("journal", ["truncate", "wal"])
def test_every_way_to_write_is_fully_synchronous(tmp_path: Path, journal: str) -> None:
    """Asked on the live connection after each kind of write: nothing may have lowered it."""
    run = FakeRun(seed=3)
    with SqliteStore(tmp_path / "pool.db", journal=journal) as store:

        def synchronous() -> int:
            return int(store._connection.execute("PRAGMA synchronous").fetchone()[0])

        for write in (
            lambda: store.commit(run.setup()),
            lambda: store.commit_all([run.step(0), run.step(1)]),
            lambda: store.fence(run.id, 0, "resume"),
            lambda: store.reclaim(fenced=True),
            lambda: store.quarantine([run.row_id(0, 0)], "test"),
            store.compact,
            lambda: list(store.verify()),
        ):
            write()
            assert synchronous() == 2  # FULL


def test_every_commit_is_handed_to_the_kernel(tmp_path: Path) -> None:
    """When a commit returns, its bytes were written, by the kernel's account (Linux only).

    To its cache, that is: that they are flushed from there is the setting of the test above.
    """
    if not Path("/proc/self/io").exists():
        pytest.skip("NOT TESTED: /proc/self/io is not there")
    run = FakeRun(seed=4, tokens=3200)
    with open_store(tmp_path / "pool.db") as store:
        store.commit(run.setup())
        before = _written_bytes()
        store.commit(run.step(0))
        frames = sum(len(frame) for frame in store.frames(run.ids(0)))
        assert _written_bytes() - before >= frames


def _written_bytes() -> int:
    text = Path("/proc/self/io").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("wchar")).split()[1])
