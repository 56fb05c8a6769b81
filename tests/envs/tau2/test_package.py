"""Without tau2-bench, or with the other package of its name, the error says what to do."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from recollect.cli.main import app
from recollect.doctor.installation import check_installation
from recollect.envs.registry import environment_names, load_environment
from recollect.envs.tau2 import package
from recollect.errors import BadEnvironment, MissingTau2, UnknownTask

CLONE = "git clone https://github.com/sierra-research/tau2-bench"


@pytest.fixture(autouse=True)
def _not_loaded() -> Iterator[None]:
    package.load_package.cache_clear()
    yield
    package.load_package.cache_clear()


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package.importlib.util, "find_spec", lambda name: None)


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """PyPI's package of that name, as far as anybody can tell without importing it."""
    folder = tmp_path / "tau2"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise AssertionError('imported')\n")
    about = tmp_path / "tau2-2.4.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tau2\nVersion: 2.4.0\n")
    for name in [n for n in sys.modules if n == "tau2" or n.startswith("tau2.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()


@pytest.mark.usefixtures("missing")
def test_missing() -> None:
    with pytest.raises(MissingTau2) as caught:
        load_environment("tau2:airline")
    assert "not installed" in str(caught.value)
    assert CLONE in caught.value.hint
    assert "pip install -e ./tau2-bench" in caught.value.hint


@pytest.mark.usefixtures("other")
def test_another_package_of_the_name_is_named_and_not_imported() -> None:
    with pytest.raises(MissingTau2) as caught:
        load_environment("tau2")
    assert "tau2 2.4.0 is another one" in str(caught.value)
    assert "pip uninstall tau2" in caught.value.hint
    assert CLONE in caught.value.hint


@pytest.mark.usefixtures("missing")
def test_the_command_line_says_so() -> None:
    ran = CliRunner().invoke(app, ["env", "check", "tau2:airline"])
    assert ran.exit_code != 0
    assert "tau2-bench" in ran.output
    assert CLONE in " ".join(ran.output.split())
    assert "Traceback" not in ran.output


@pytest.mark.usefixtures("missing")
def test_the_doctor_says_so(tmp_path: Path) -> None:
    (check,) = [c for c in check_installation(tmp_path) if c.name == "tau2-bench"]
    assert (check.ok, check.found) == (None, "not installed")
    assert CLONE in check.hint


@pytest.mark.usefixtures("other")
def test_the_doctor_sees_the_other_one(tmp_path: Path) -> None:
    (check,) = [c for c in check_installation(tmp_path) if c.name == "tau2-bench"]
    assert check.ok is None
    assert "pip uninstall tau2" in check.hint


def test_a_part_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(found: str) -> package.Package:
        raise ImportError("No module named 'litellm'")

    monkeypatch.setattr(package, "installed_version", lambda: "1.0.1")
    monkeypatch.setattr(package, "_import", broken)
    with pytest.raises(BadEnvironment, match="litellm"):
        package.load_package()


@pytest.mark.parametrize(
    ("name", "options", "word"),
    [
        ("tau2:moon", {}, "moon"),
        ("tau2:airline", {"user": "butler"}, "butler"),
        ("tau2:airline", {"prompt": "long"}, "long"),
        ("tau2:airline", {"user": "solo"}, "without a user"),
        ("tau2:telecom", {"turns": 0}, "turns"),
        ("tau2:telecom", {"user": "endpoint"}, "user_url is missing"),
        ("tau2:telecom", {"user": "endpoint", "user_url": "http://host/v1"}, "user_model"),
        ("tau2:telecom", {"users": "solo"}, "user"),
    ],
)
def test_wrong_options_are_told_before_anything_is_imported(
    name: str, options: dict[str, object], word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> package.Package:
        raise AssertionError("imported")

    monkeypatch.setattr("recollect.envs.tau2.environment.load_package", refuse)
    with pytest.raises((BadEnvironment, UnknownTask)) as caught:
        load_environment(name, **options)
    assert word in f"{caught.value} {caught.value.hint}"


def test_listing_names_imports_nothing() -> None:
    assert "tau2" in environment_names()


def test_data_that_are_not_there(tmp_path: Path) -> None:
    class Fake:
        def folder(self, domain: str) -> Path:
            return tmp_path / domain

    with pytest.raises(MissingTau2) as caught:
        package.check_data(Fake(), "retail")  # type: ignore[arg-type]
    assert "tasks.json" in str(caught.value)
    assert "TAU2_DATA_DIR" in caught.value.hint
