"""What pages and error messages mention is there: commands, settings, metrics, files, links."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from cli.test_commands_documented import EVERY
from recollect.config.settings import all_sections, all_settings
from recollect.telemetry.names import METRICS, find_metric

from .pages import PAGES, ROOT, read

GROUPS = {command.partition(" ")[0] for command in EVERY if " " in command}
SETTINGS = {*all_settings(), *all_sections()}
ROOMS = {metric.name.partition("/")[0] for metric in METRICS}
FILES = (".py", ".json", ".jsonl", ".md", ".yaml", ".db")
SOURCES = sorted((ROOT / "src" / "recollect").rglob("*.py"))


def coded(page: str) -> list[str]:
    """What stands in backticks, outside of blocks."""
    text = re.sub(r"^```.*?^```$", "", read(page), flags=re.MULTILINE | re.DOTALL)
    return [" ".join(words.split()) for words in re.findall(r"`([^`]+)`", text)]


def unknown_commands(text: str) -> list[str]:
    """Commands of ours in a text that do not exist."""
    found = re.findall(r"\brecollect ([a-z][a-z-]+)(?: ([a-z][a-z-]+))?", text)
    return [
        f"{first} {second}".strip()
        for first, second in found
        if first not in EVERY
        and not (first in GROUPS and (not second or f"{first} {second}" in EVERY))
    ]


@pytest.mark.parametrize("page", PAGES)
def test_commands_exist(page: str) -> None:
    named = [words for words in coded(page) if words.startswith("recollect ")]
    assert [bad for words in named for bad in unknown_commands(words)] == []


@pytest.mark.parametrize("page", [page for page in PAGES if page != "docs/seeds.md"])
def test_settings_exist(page: str) -> None:
    for words in coded(page):
        key = re.match(r"([a-z]+(?:\.[a-z_]+)+)(?:[=: ]|$)", words)
        if key and key[1].partition(".")[0] in SETTINGS:
            known = key[1] in SETTINGS or key[1].startswith("environment.options.")
            assert known or key[1].endswith(FILES), words


@pytest.mark.parametrize("page", PAGES)
def test_metrics_exist(page: str) -> None:
    for words in coded(page):
        name = re.fullmatch(r"([a-z]+)/[a-z_0-9]+(?:/[a-z<>]+)*", words)
        if name and name[1] in ROOMS and not (ROOT / "src" / "recollect" / words).exists():
            assert find_metric(words) is not None or words in {m.name for m in METRICS}, words


@pytest.mark.parametrize("page", PAGES)
def test_files_exist_and_links_lead_there(page: str) -> None:
    named = [words.partition("::")[0] for words in coded(page)]
    ours = ("tests/", "src/", "benchmarks/", "scripts/", "examples/")
    files = [name for name in named if name.startswith(ours) and re.fullmatch(r"[\w/.-]+", name)]
    assert [name for name in files if not (ROOT / name).exists()] == []
    links = re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", read(page))
    here = (ROOT / page).parent
    assert [link for link in links if not (here / link).exists()] == []


def messages(path: Path) -> list[str]:
    """Texts of a module, docstrings left out, with what is filled in as a letter."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docs = {ast.get_docstring(node, clean=False) for node in ast.walk(tree)
            if isinstance(node, holders)}  # fmt: skip
    whole = [
        "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
    ]
    plain = [node.value for node in ast.walk(tree)
             if isinstance(node, ast.Constant) and isinstance(node.value, str)]  # fmt: skip
    return [text for text in (*whole, *plain) if text not in docs]


def test_messages_of_ours_name_commands_that_exist() -> None:
    bad = {
        path.relative_to(ROOT).as_posix(): unknown
        for path in SOURCES
        for text in messages(path)
        # Only what is said as a command: after a colon or a backtick, or at the beginning.
        for said in re.findall(r"(?:^|: |`|with )(recollect (?!is)[a-z][^`\n]*)", text)
        if (unknown := unknown_commands(said.partition(". ")[0]))
    }
    assert bad == {}
