"""Build the wheel and the sdist, install each into a fresh environment, use it: make dist.

    python scripts/check_dist.py            what is built stays in dist/

The environments get the core only, without torch: what the package forgets to declare or to bring
along is missed here. `scripts/check_extras.py` tries the extras.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"

# Everything of the package has to be in both: rooms, presets, the tiny model, py.typed.
FILES = [
    path.relative_to(ROOT / "src").as_posix()
    for path in sorted((ROOT / "src" / "recollect").rglob("*"))
    if path.is_file() and "__pycache__" not in path.parts
]
_IMPORT = (
    "import sys, recollect; from recollect import open_store; "
    "assert 'torch' not in sys.modules; assert recollect.__all__; "
    "[getattr(recollect, name) for name in recollect.__all__]; "
    "from recollect.config import load_config; load_config('demo')"
)
# Commands of the core, with the exit codes that are fine.
COMMANDS: list[tuple[list[str], tuple[int, ...]]] = [
    (["recollect", "--version"], (0,)),
    (["recollect", "--help"], (0,)),
    (["python", "-c", _IMPORT], (0,)),
    (["python", "-m", "recollect", "model", "ls"], (0,)),
    (["recollect", "train", "demo", "--dry-run"], (0,)),
    (["recollect", "env", "check", "desk:airline", "--tasks", "1"], (0,)),
    (["recollect", "compare", "demo", "replay.modes=[]"], (2,)),  # refused: its own twin
    (["recollect", "doctor"], (0, 1)),  # 1: it may miss extras, or dislike the disk
    (["recollect", "train", "demo"], (2,)),  # torch is not there, and it says so
]


def build(folder: Path) -> list[Path]:
    """Build both from the tree as it is, in an environment that has only the builder."""
    venv.create(folder / "builder", with_pip=True)
    python = folder / "builder" / "bin" / "python"
    _run([python, "-m", "pip", "install", "--quiet", "build"], ROOT)
    for old in DIST.glob("recollect-*"):
        old.unlink()
    _run([python, "-m", "build", "--outdir", DIST, ROOT], ROOT)
    return sorted(DIST.glob("recollect-*"))


def missing(file: Path) -> list[str]:
    """Name the package's files that are not in a wheel or an sdist."""
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as wheel:
            names = wheel.namelist()
    else:
        with tarfile.open(file) as sdist:
            names = [name.partition("/src/")[2] for name in sdist.getnames()]
    return [name for name in FILES if name not in names]


def check(file: Path, folder: Path) -> bool:
    """Install one of them where nothing else is, and run its commands in an empty folder."""
    if lost := missing(file):
        _say(f"{file.name}: without {len(lost)} files: {', '.join(lost[:5])}")
        return False
    venv.create(folder / "venv", with_pip=True)
    programs = folder / "venv" / "bin"
    _run([programs / "python", "-m", "pip", "install", "--quiet", file], folder)
    bare = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(folder), "RECOLLECT_PLAIN": "1"}
    for command, codes in COMMANDS:
        done = subprocess.run(  # noqa: S603
            [str(programs / command[0]), *command[1:]],
            cwd=folder,
            env=bare,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in codes or "Traceback" in done.stderr:
            _say(f"{file.name}: {' '.join(command)} failed\n{done.stdout}{done.stderr}")
            return False
    _say(f"{file.name}: fine, {file.stat().st_size / 1e6:.1f} MB")
    return True


def _run(command: list[str | Path], folder: Path) -> None:
    """Run something that must succeed; pip goes by whatever index this machine has."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(  # noqa: S603
        [str(word) for word in command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed\n{done.stdout}{done.stderr}")


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Build and check both."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        passed = True
        for number, file in enumerate(build(folder)):
            place = folder / str(number)
            place.mkdir()
            passed = check(file, place) and passed
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main())
