"""Every page: its commands run, in its order, and its snippets do what they say."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memory import folder_in_memory
from recollect.config import load_config
from recollect.envs.registry import GROUP
from recollect.telemetry.reading import read_metrics

from .home import QUICK, TINY_DESK, furnish, run
from .pages import HELP, PAGES, ROOT, Block, blocks, commands, examples, read
from .trying import ELSEWHERE, NOT_RUN, Trial, left_out

# The tutorial's own test runs the rest of it as it stands.
TUTORIAL = "docs/tutorial.md"
# Python that another test runs, by its page and first line.
RUN_BY = {
    ("docs/agentevolver.md", "from recollect import open_store"): (
        "tests/integrations/test_the_loop.py::test_the_loop_replays_and_repeats_exactly"
    ),
    (
        "docs/environments.md",
        '"""Guess a number from 1 to 500 in ten tries. Put your own task here."""',
    ): ("tests/envs/test_documentation.py::test_the_file_of_ones_own_is_the_one_written"),
}
JSONL_BY = {
    "docs/import-export.md": (
        "tests/store/test_importing.py::test_the_examples_in_the_docs_can_be_imported"
    ),
}
# What makes a snippet quick: text on the page, and what stands there in the test.
QUICKER = {
    "docs/python.md": {'"run.steps=20", "train.learning_rate=3e-4"': f"*{(*QUICK, *TINY_DESK)!r}"},
    "docs/compare.md": {
        "seeds=range(5)": "seeds=range(1)",
        'settings=["replay.modes=[buffer]"]': (
            f'settings=["replay.modes=[buffer]", *{(*QUICK, *TINY_DESK)!r}]'
        ),
        "tuning=Tuning(seeds=(1000, 1001))": "tuning=None",
        "compare/demo": "compare/python",
    },
}


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with folder_in_memory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        furnish(folder)
        yield folder


@pytest.fixture
def place(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Path]]:
    """Gives a copy of the home, with the runs that a text names."""
    with folder_in_memory() as folder:

        def copy(text: str) -> Path:
            wanted = {"demo-2", *re.findall(r"runs/([\w-]+)", text)} | (
                {"sequential-1", "replay-1"} if "runs/*-1" in text else set()
            )
            unwanted = [run.name for run in (home / "runs").iterdir() if run.name not in wanted]
            shutil.copytree(home, folder / "x", ignore=shutil.ignore_patterns(*unwanted))
            monkeypatch.chdir(folder / "x")
            return folder / "x"

        yield copy


def _python(block: Block, trial: Trial) -> None:
    """Run a snippet in the current folder, with the address of a server that the page started."""
    text = block.text
    for old, new in QUICKER.get(block.page, {}).items():
        text = text.replace(old, new)
    if trial.urls:
        text = text.replace("http://127.0.0.1:8000/v1", trial.urls[-1])
    exec(compile(text, block.name, "exec"), {"__name__": "__main__"})


def _try(block: Block, trial: Trial, folder: Path) -> None:
    first = block.text.partition("\n")[0]
    if block.language == "sh":
        trial.block(block)
    elif block.language == "yaml":
        file = folder / "mine.yaml"
        file.write_text(block.text)
        load_config(str(file))
    elif block.language == "python" and "class Guess" in block.text:
        (folder / "guess.py").write_text(block.text)
    elif block.language == "python" and (block.page, first) not in RUN_BY:
        _python(block, trial)
    elif block.language == "toml":
        assert f'"{GROUP}"' in block.text  # tests/envs/test_registry.py loads a plug-in by it
    elif block.language == "jsonl" and block.page == "docs/metrics.md":
        (folder / "metrics.jsonl").write_text(block.text)
        found = read_metrics(folder / "metrics.jsonl")
        assert len(found.steps) == len(found.evaluations) == 1
    elif block.language == "jsonl" and block.page not in JSONL_BY:
        (folder / "page.jsonl").write_text(block.text)
        run("env", "ls", "single_turn:page.jsonl", "--set", "reward=rewards.py:exact")


WITH_CODE = [page for page in PAGES if page not in ("README.zh-CN.md", HELP, TUTORIAL)]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", [page for page in WITH_CODE if blocks(page)])
def test_a_page_does_what_it_says(page: str, place: Callable[[str], Path]) -> None:
    folder = place(read(page))
    trial = Trial(folder)
    try:
        for block in blocks(page):
            _try(block, trial, folder)
    finally:
        trial.close()


@pytest.mark.timeout(600)
def test_what_the_tutorials_own_test_leaves_out(place: Callable[[str], Path]) -> None:
    """A run that is killed and goes on; a model of one's own, for which tiny stands here."""
    text = read(TUTORIAL)
    folder = place("runs/demo-1")
    trial = Trial(folder, "model.name=tiny")
    (configuration,) = (block.text for block in blocks(TUTORIAL) if block.language == "yaml")
    (folder / "mine.yaml").write_text(configuration)
    for command in ("recollect resume runs/demo-2", "recollect plan mine.yaml",
                    "recollect train mine.yaml"):  # fmt: skip
        assert f"\n{command}\n" in text
        trial.command(command)


# Nearly the same commands stand on pages of their own, and each trains several runs.
LONG = ("compare", "continual")
GROUPS = [
    pytest.param(group, marks=pytest.mark.long if group in LONG else ())
    for group in sorted({name.partition(" ")[0] for name in examples()} - {"pool"})
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("group", GROUPS)
def test_the_examples_of_help_run(group: str, place: Callable[[str], Path]) -> None:
    """Those of `pool` have a test of their own, tests/cli/test_commands_documented.py."""
    lines = [
        line
        for name, found in examples().items()
        for line in found
        if name.partition(" ")[0] == group
    ]
    # What writes a file goes first where another example reads it.
    lines.sort(key=lambda line: not line.startswith(("recollect env new", "recollect notes exp")))
    trial = Trial(place("\n".join(lines)))
    try:
        for line in lines:
            trial.command(line)
    finally:
        trial.close()


SHOWN = sorted(
    {line for page in PAGES for b in blocks(page) if b.language == "sh"
     for line in commands(b.text)}
    | {line for lines in examples().values() for line in lines}
)  # fmt: skip


@pytest.mark.parametrize("line", [line for line in SHOWN if left_out(line)])
def test_what_this_machine_cannot_run(line: str) -> None:
    """Nothing is left out in silence: pytest lists what was skipped."""
    pytest.skip(f"NOT TRIED: {line}: {left_out(line)}")


@pytest.mark.parametrize("test", [*RUN_BY.values(), *JSONL_BY.values(), *ELSEWHERE.values()])
def test_what_is_tried_elsewhere_is_there(test: str) -> None:
    file, _, name = test.partition("::")
    assert f"def {name}" in (ROOT / file).read_text(encoding="utf-8")


def test_what_is_not_run_is_still_on_a_page() -> None:
    prefixes = ("torchrun", "tau2")
    assert {*NOT_RUN, *ELSEWHERE} - set(SHOWN) - set(prefixes) == set()
    for prefix in prefixes:
        assert any(prefix in line for line in SHOWN)
    assert all(old in read(page) for page, changes in QUICKER.items() for old in changes)
    firsts = {(b.page, b.text.partition("\n")[0]) for page in PAGES for b in blocks(page)}
    assert set(RUN_BY) <= firsts
