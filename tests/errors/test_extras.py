"""The command for an extra names the place that pip took Recollect from."""

from __future__ import annotations

import json
import re
from importlib import metadata
from pathlib import Path

import pytest

from recollect.errors import MissingExtra, StoreTooNew
from recollect.errors.extras import install_command, update_command


def installed(monkeypatch: pytest.MonkeyPatch, record: object) -> None:
    """Let pip's record of where Recollect comes from say this; None where it made none."""

    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return None if record is None else json.dumps(record)

    monkeypatch.setattr(metadata, "distribution", lambda name: Installed())


@pytest.mark.parametrize(
    ("record", "command"),
    [
        (
            {"url": "file:///home/me/recollect", "dir_info": {"editable": True}},
            "pip install -e '/home/me/recollect[plot]'",
        ),
        ({"url": "file:///home/me/re%20collect", "dir_info": {}},
         "pip install '/home/me/re collect[plot]'"),
        # A wheel is one file: its extras come by name, from wherever pip looks.
        ({"url": "file:///tmp/recollect-0.1.0-py3-none-any.whl", "archive_info": {}},
         "pip install 'recollect[plot]'"),
        (None, "pip install 'recollect[plot]'"),
    ],
)  # fmt: skip
def test_where_it_was_installed_from(
    monkeypatch: pytest.MonkeyPatch, record: object, command: str
) -> None:
    installed(monkeypatch, record)
    assert install_command("plot") == command
    assert MissingExtra("A picture", "plot").hint == f"Install it with: {command}"


def test_never_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    assert install_command("plot") == "pip install 'recollect[plot]'"


def test_as_it_is_here() -> None:
    """What these tests run in was installed from a folder with this project, or from a wheel."""
    found = re.fullmatch(r"pip install (?:-e )?'(.+)\[train\]'", install_command("train"))
    assert found is not None
    assert found[1] == "recollect" or (Path(found[1]) / "pyproject.toml").is_file()


@pytest.mark.parametrize(
    ("record", "command"),
    [
        ({"url": "file:///home/me/r", "dir_info": {"editable": True}}, "git -C /home/me/r pull"),
        ({"url": "file:///home/me/r", "dir_info": {}},
         "git -C /home/me/r pull && pip install /home/me/r"),
        (None, "git pull in its checkout, then pip install ."),
    ],
)  # fmt: skip
def test_an_update_comes_from_the_checkout(
    monkeypatch: pytest.MonkeyPatch, record: object, command: str
) -> None:
    installed(monkeypatch, record)
    assert update_command() == command
    assert StoreTooNew("pool.db", 9, 1).hint.endswith(command)
