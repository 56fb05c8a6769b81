"""Loading code that a user points at: `module:name` or `path/to/file.py:name`.

Loading runs the code. So only what a person wrote on a command line or in a configuration
gets here, never anything read from data.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from recollect.canonical import digest
from recollect.errors import BadEnvironment


def load_object(spec: str) -> object:
    """Load what `module:name` or `file.py:name` points at, or say what is wrong with it."""
    place, _, name = spec.rpartition(":")
    if not place or not name.isidentifier():
        raise BadEnvironment(spec, "not of the form module:name or path/to/file.py:name")
    module = _load_file(spec, Path(place)) if place.endswith(".py") else _load_module(spec, place)
    try:
        found: object = getattr(module, name)
    except AttributeError:
        raise BadEnvironment(spec, f"{place} has no {name}") from None
    return found


def _load_file(spec: str, path: Path) -> ModuleType:
    if not path.is_file():
        raise BadEnvironment(spec, f"there is no file {path}")
    # Named by place, so two files of the same name do not meet, and classes can be found again.
    name = f"recollect_user_{path.stem}_{digest(str(path.resolve()))[:8]}"
    found = importlib.util.spec_from_file_location(name, path)
    if found is None or found.loader is None:
        raise BadEnvironment(spec, f"{path} is not a Python file")
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    try:
        found.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise BadEnvironment(spec, f"{path} fails to load: {_said(error)}") from error
    return module


def _load_module(spec: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        hint = "Is it installed here? A file can be named as path/to/file.py:name."
        raise BadEnvironment(spec, f"module {name} fails to load: {_said(error)}", hint) from error


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(".: ")
