"""Environments by name: built in, plugged in, or a user's own file.

A name may carry an argument after a colon, as in `desk:airline`. Plug-ins register a callable
in the entry-point group `recollect.environments`; it takes the options as keywords, and the
argument, if the name has one, as the keyword `argument`.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from recollect.envs.base import Environment
from recollect.envs.trusted import load_object
from recollect.errors import BadEnvironment, RecollectError, UnknownEnvironment

GROUP = "recollect.environments"

# Loaded only when asked for, so that listing names imports nothing.
BUILT_IN = {
    "desk": "recollect.envs.desk.environment:make_desk",
    "reasoning_gym": "recollect.envs.reasoning_gym.environment:make_reasoning_gym",
    "single_turn": "recollect.envs.single_turn:make_single_turn",
    "tau2": "recollect.envs.tau2.environment:make_tau2",
}

_OWN_FILE = re.compile(r".+\.py:\w+\Z", re.DOTALL)
_METHODS = ("tasks", "start")


def environment_names() -> tuple[str, ...]:
    """List the names that `load_environment` knows, plug-ins included, without loading them."""
    return (*BUILT_IN, *sorted(set(_plug_ins()) - set(BUILT_IN)))


def load_environment(name: str, **options: object) -> Environment:
    """Make the environment of this name.

    `name` is built in (`desk:airline`, `reasoning_gym:gcd`, `single_turn:prompts.jsonl`,
    `tau2:retail`), a plug-in, or `path/to/file.py:ClassName`; that file's code is run. Options go
    to the environment and are refused, with the nearest match, if it does not know them.
    """
    if _OWN_FILE.match(name):
        return _make(name, load_object(name), options)
    base, colon, argument = name.partition(":")
    if colon:
        options = {"argument": argument, **options}
    if base in BUILT_IN:
        return _make(name, load_object(BUILT_IN[base]), options)
    plug_ins = _plug_ins()
    if base in plug_ins:
        return _make(name, _load_plug_in(plug_ins[base]), options)
    known = environment_names()
    near = difflib.get_close_matches(base, known, n=1, cutoff=0.5)
    raise UnknownEnvironment(name, known, near[0] + colon + argument if near else "")


def _plug_ins() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def _load_plug_in(point: EntryPoint) -> object:
    try:
        loaded: object = point.load()
    except (Exception, SystemExit) as error:  # whatever somebody else's import raises
        why = f"the plug-in {point.value} fails to load: {type(error).__name__}: {error}"
        raise BadEnvironment(point.name, why.rstrip("."), "Reinstall or remove it.") from error
    return loaded


def _make(name: str, factory: object, options: dict[str, object]) -> Environment:
    if not callable(factory):
        raise BadEnvironment(name, "is not a class or a function that makes an environment")
    _check_options(name, factory, options)
    try:
        made: object = factory(**options)
    except RecollectError:
        raise
    except (Exception, SystemExit) as error:
        raise BadEnvironment(name, f"cannot be made: {type(error).__name__}: {error}") from error
    missing = [m for m in _METHODS if not callable(getattr(made, m, None))]
    missing += [a for a in ("name", "version", "splits", "limits") if not hasattr(made, a)]
    if missing:
        hint = "See docs/environments.md, or start from: recollect env new NAME"
        raise BadEnvironment(name, f"is not an environment: it lacks {', '.join(missing)}", hint)
    return cast(Environment, made)


def _check_options(name: str, factory: Callable[..., object], options: dict[str, object]) -> None:
    """Refuse unknown and missing options by name, before the factory runs."""
    try:
        signature = inspect.signature(factory)
    except ValueError:  # a few builtins have none; calling them will tell
        return
    kinds = {p.kind for p in signature.parameters.values()}
    known = [p for p in signature.parameters if p != "argument"]
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        for option in options:
            if option in signature.parameters:
                continue
            if option == "argument":
                raise BadEnvironment(name, "takes nothing after the colon")
            near = difflib.get_close_matches(option, known, n=1)
            guess = f"Did you mean {near[0]!r}? " if near else ""
            listed = f"Options: {', '.join(known) or 'none'}."
            raise BadEnvironment(name, f"has no option {option!r}", guess + listed)
    try:
        signature.bind(**options)
    except TypeError as error:
        raise BadEnvironment(name, f"{error}", f"Options: {', '.join(known)}.") from error
